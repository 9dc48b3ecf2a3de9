"""Choice of a device and its number formats, made once per run.

A named device that is absent is an error; only `auto` chooses. The choice is a small document
(`Device.describe`) that every later stage reads, so that one run never mixes devices.
"""

import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, cast, get_args

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from geonode.config import PrecisionParameters
from geonode.devices.profile import profile_of
from geonode.errors import DeviceError
from geonode.observation.machine import machine, processor

DeviceKind = Literal["cpu", "cuda", "mps"]
Rounding = Literal["tf32", "bfloat16"]
T = TypeVar("T")

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Device:
    """Device and its number formats.

    Attributes:
        kind, name: kind and name of the device.
        training: format of networks in training, their losses and their gradients.
        geometry: format of grids and geodesics.
        rounding: format to which factors of products are rounded in training; None for none.
        memory_mb: memory for the arrays of one batch or tile; None: that of the profile.
    """

    kind: DeviceKind
    name: str
    training: torch.dtype
    geometry: torch.dtype
    rounding: Rounding | None = None
    memory_mb: int | None = None

    @property
    def products(self) -> torch.dtype:
        """Format in which layers of networks in training are multiplied."""
        return torch.bfloat16 if self.rounding == "bfloat16" else self.training

    @property
    def place(self) -> torch.device:
        """The torch device on which networks are trained and grids are computed."""
        return torch.device(self.kind)

    @property
    def budget(self) -> int:
        """Memory for the arrays of one batch or tile (bytes)."""
        return 10**6 * (self.memory_mb or profile_of(self.place).memory_mb)

    def shared(self, processes: int) -> "Device":
        """The device for one of several processes, with an equal part of the memory."""
        return replace(self, memory_mb=max(1, self.budget // processes // 10**6))

    @property
    def has_float64(self) -> bool:
        """Whether the device supports double precision."""
        return self.kind != "mps"

    @property
    def reference(self) -> torch.device:
        """Device of double-precision reference values: this one if it can, else the CPU."""
        return self.place if self.has_float64 else torch.device("cpu")

    def synchronise(self) -> None:
        """Wait until all work given to the device is done."""
        if self.kind == "cuda":
            torch.cuda.synchronize()
        elif self.kind == "mps":
            torch.mps.synchronize()

    def describe(self) -> dict[str, Any]:
        """Document for `Device.from_description`."""
        return {
            "device": self.kind,
            "name": self.name,
            "training": self.rounding or str(self.training).removeprefix("torch."),
            "geometry": str(self.geometry).removeprefix("torch."),
        }

    @classmethod
    def from_description(
        cls, description: dict[str, Any], memory_mb: int | None = None
    ) -> "Device":
        """Inverse of `describe`.

        Args:
            description: as `describe` returns it.
            memory_mb: as for `resolve`.

        Raises:
            DeviceError: the device is absent (the document is from another machine).
        """
        kind = description["device"]
        _require(kind)
        formats = (description["training"], description["geometry"])
        return _with_formats(kind, description["name"], *formats, memory_mb)


def resolve(
    device: Literal["auto", "cpu", "cuda", "mps"],
    precision: PrecisionParameters,
    memory_mb: int | None = None,
) -> Device:
    """Choose the device and its formats.

    Args:
        device: a device, or `auto` for the first of cuda, mps, cpu that is present.
        precision: formats of training and geometry; `auto` geometry is float64, on mps float32.
        memory_mb: memory for the arrays of one batch or tile; None: that of the profile.

    Raises:
        DeviceError: the device is absent, or has no float64 although it is requested.
    """
    kind: DeviceKind = (
        next(k for k in ("cuda", "mps", "cpu") if _present(k)) if device == "auto" else device
    )
    _require(kind)
    geometry = precision.geometry
    if geometry == "auto":
        geometry = profile_of(torch.device(kind)).geometry
    if kind == "mps" and "float64" in (precision.training, geometry):
        raise DeviceError(
            "device mps has no float64: set precision.training and precision.geometry to float32"
        )
    if precision.training == "tf32" and kind != "cuda":
        raise DeviceError(f"device {kind} has no tf32: set precision.training to float32")
    return _with_formats(kind, _name(kind), precision.training, geometry, memory_mb)


def _with_formats(
    kind: DeviceKind, name: str, training: str, geometry: str, memory_mb: int | None
) -> Device:
    rounded = training in get_args(Rounding)
    return Device(
        kind,
        name,
        torch.float32 if rounded else getattr(torch, training),
        getattr(torch, geometry),
        cast(Rounding, training) if rounded else None,
        memory_mb,
    )


def environment(device: Device) -> dict[str, Any]:
    """Conditions of a timing: device, processor, threads, versions; no dates, no host names."""
    threads = torch.get_num_threads()
    return {**device.describe(), **machine(), "torch": str(torch.__version__), "threads": threads}


def on_device(
    array: Shaped[np.ndarray, "*shape"], device: torch.device, dtype: torch.dtype
) -> Float[Tensor, "*shape"]:
    """Tensor on a device from an array on the host.

    It is cast before it is moved, as a device without float64 cannot hold a double.
    """
    return torch.from_numpy(array).to(dtype).to(device)


@contextmanager
def one_thread() -> Iterator[None]:
    """Context in which torch operations on the CPU use one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def unless_out_of_memory(work: Callable[[], T], instead: str) -> T | None:
    """Result of a function; None if the GPU ran out of memory, which is freed then.

    Work is divided by the memory free at that time; other processes may take some of it later.

    Args:
        work: function that returns anything but None.
        instead: description of the fallback, for the log.
    """
    try:
        return work()
    except torch.OutOfMemoryError as error:
        _LOG.warning("%s; %s", str(error).splitlines()[0], instead)
    if torch.cuda.is_initialized():
        # outside of the except block, where the error no longer holds the arrays
        gc.collect()
        torch.cuda.empty_cache()
    return None


def _present(kind: str) -> bool:
    if kind == "cuda":
        return torch.cuda.is_available()
    if kind == "mps":
        return torch.backends.mps.is_available()
    return True


def _require(kind: str) -> None:
    if not _present(kind):
        present = [k for k in ("cpu", "cuda", "mps") if _present(k)]
        raise DeviceError(
            f"device {kind!r} is absent on this machine, which has {', '.join(present)}; "
            "set device to one of these, or to auto"
        )


def _name(kind: str) -> str:
    if kind == "cuda":
        return torch.cuda.get_device_name()
    return processor()
