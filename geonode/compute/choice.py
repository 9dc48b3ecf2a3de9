"""Choice of a device and its number formats, made once per run.

A named device that is absent is an error; only `auto` chooses. The choice is a small document that
every later stage reads, so that one run never mixes devices. A GPU of NVIDIA is found by its driver
and by what torch was built for: to import torch takes longer than all else that `probe` does.
"""

import sys
from ctypes import CDLL, byref, c_int, create_string_buffer
from importlib.metadata import distribution
from pathlib import Path
from runpy import run_path
from typing import Literal, get_args

from geonode.config import PrecisionParameters
from geonode.errors import DeviceError
from geonode.machine import processor

DeviceKind = Literal["cpu", "cuda", "mps"]

AMD = Path("/dev/kfd")
"""Device of the driver of AMD's GPUs on Linux."""


def choose(device: str, precision: PrecisionParameters) -> dict[str, str]:
    """Description of a device and its formats, of which `resolve` makes a `Device`.

    Args:
        device: a device, or `auto` for the first of cuda, mps, cpu that is present.
        precision: formats of training and geometry; `auto` geometry is float64, on mps float32.

    Raises:
        DeviceError: the device is absent, or does not have a format that is requested.
    """
    kind = next(k for k in ("cuda", "mps", "cpu") if _is_present(k)) if device == "auto" else device
    if not _is_present(kind):
        present = [k for k in get_args(DeviceKind) if _is_present(k)]
        raise DeviceError(
            f"device {kind!r} is absent on this machine, which has {', '.join(present)}; "
            "set device to one of these, or to auto"
        )
    training, geometry = precision.training, precision.geometry
    if geometry == "auto":
        geometry = "float32" if kind == "mps" else "float64"
    if kind == "mps" and "float64" in (training, geometry):
        raise DeviceError(
            "device mps has no float64: set precision.training and precision.geometry to float32"
        )
    if training == "tf32" and kind != "cuda":
        raise DeviceError(f"device {kind} has no tf32: set precision.training to float32")
    name = (first_card() if kind == "cuda" else None) or processor()
    return {"device": kind, "name": name, "training": training, "geometry": geometry}


def _is_present(kind: str) -> bool:
    if kind == "cuda":
        return first_card() is not None
    if kind == "mps" and sys.platform == "darwin":
        import torch  # noqa: PLC0415 - not where it can be avoided

        return torch.backends.mps.is_available()
    return kind == "cpu"


def first_card() -> str | None:
    """Name of the first GPU that torch calls a CUDA device; None: there is none."""
    if AMD.exists():
        import torch  # noqa: PLC0415 - not where it can be avoided

        return torch.cuda.get_device_name() if torch.cuda.is_available() else None
    try:
        driver = CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return None
    needed = run_path(str(distribution("torch").locate_file("torch/version.py")))["cuda"]
    cards, runs, name = c_int(), c_int(), create_string_buffer(256)
    failed = driver.cuInit(0) or driver.cuDeviceGetCount(byref(cards))
    failed = failed or driver.cuDriverGetVersion(byref(runs)) or not cards.value
    if failed or needed is None or runs.value // 1000 < int(needed.split(".")[0]):
        return None
    return None if driver.cuDeviceGetName(name, len(name), 0) else name.value.decode()
