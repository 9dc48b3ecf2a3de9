"""Choice of a device and its number formats, made once per run.

A named device that is absent is an error; only `auto` chooses. The choice is a small document that
every later stage reads, so that one run never mixes devices. It imports torch only to look for a
GPU, as that takes longer than all else that `probe` does.
"""

from importlib.metadata import version
from typing import Literal, get_args

from geonode.config import PrecisionParameters
from geonode.errors import DeviceError
from geonode.observation.machine import processor

DeviceKind = Literal["cpu", "cuda", "mps"]


def choose(
    device: Literal["auto", "cpu", "cuda", "mps"], precision: PrecisionParameters
) -> dict[str, str]:
    """Description of a device and its formats, for `Device.from_description`.

    Args:
        device: a device, or `auto` for the first of cuda, mps, cpu that is present.
        precision: formats of training and geometry; `auto` geometry is float64, on mps float32.

    Raises:
        DeviceError: the device is absent, or does not have a format that is requested.
    """
    kind: DeviceKind = (
        next(k for k in ("cuda", "mps", "cpu") if _is_present(k)) if device == "auto" else device
    )
    require(kind)
    training, geometry = precision.training, precision.geometry
    if geometry == "auto":
        geometry = "float32" if kind == "mps" else "float64"
    if kind == "mps" and "float64" in (training, geometry):
        raise DeviceError(
            "device mps has no float64: set precision.training and precision.geometry to float32"
        )
    if training == "tf32" and kind != "cuda":
        raise DeviceError(f"device {kind} has no tf32: set precision.training to float32")
    return {"device": kind, "name": _name(kind), "training": training, "geometry": geometry}


def require(kind: DeviceKind) -> None:
    """Check that a device is present.

    Raises:
        DeviceError: it is absent.
    """
    if not _is_present(kind):
        present = [k for k in get_args(DeviceKind) if _is_present(k)]
        raise DeviceError(
            f"device {kind!r} is absent on this machine, which has {', '.join(present)}; "
            "set device to one of these, or to auto"
        )


def is_cpu_build(torch_version: str) -> bool:
    """Whether this torch was built for CPUs alone and says so in its version.

    The wheels without CUDA have the local version `+cpu`. Other builds for CPUs have none.
    """
    return torch_version.endswith("+cpu")


def _is_present(kind: DeviceKind) -> bool:
    if kind == "cpu":
        return True
    if is_cpu_build(version("torch")):
        return False
    import torch  # noqa: PLC0415 - not where it can be avoided

    return torch.cuda.is_available() if kind == "cuda" else torch.backends.mps.is_available()


def _name(kind: DeviceKind) -> str:
    if kind == "cuda":
        import torch  # noqa: PLC0415 - not where it can be avoided

        return torch.cuda.get_device_name()
    return processor()
