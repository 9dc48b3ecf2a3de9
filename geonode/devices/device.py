"""The choice of a device and of its precisions, made once and written down.

A device that was named and is absent is an error; only `auto` chooses. The choice is a small
document (`Device.describe`) that every later stage reads, so that one run never mixes devices.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, get_args

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from geonode.config import PrecisionParameters
from geonode.devices.profile import profile_of
from geonode.errors import DeviceError
from geonode.observation.machine import machine, processor

Kind = Literal["cpu", "cuda", "mps"]
Rounding = Literal["tf32", "bfloat16", "float16"]
FORMATS = {"bfloat16": torch.bfloat16, "float16": torch.float16}  # tf32 is a way of multiplying


@dataclass(frozen=True)
class Device:
    """A device and its formats.

    Attributes:
        kind, name: which device.
        training: format of networks in training, their losses and their gradients.
        geometry: that of grids and geodesics.
        rounding: to what the factors of their products are rounded in training; None: not at all.
        memory_mb: that the arrays of what is computed at once may take; None: as the profile says.
    """

    kind: Kind
    name: str
    training: torch.dtype
    geometry: torch.dtype
    rounding: Rounding | None = None
    memory_mb: int | None = None

    @property
    def products(self) -> torch.dtype:
        """Format in which layers of networks in training are multiplied."""
        return FORMATS.get(self.rounding or "", self.training)

    @property
    def place(self) -> torch.device:
        """The device as torch knows it: where networks are trained and grids are computed."""
        return torch.device(self.kind)

    @property
    def budget(self) -> int:
        """Bytes that the arrays of what is computed at once may take."""
        return 10**6 * (self.memory_mb or profile_of(self.place).memory_mb)

    def shared(self, processes: int) -> "Device":
        """The device for one of several processes, with an equal part of the memory."""
        return replace(self, memory_mb=max(1, self.budget // processes // 10**6))

    @property
    def has_float64(self) -> bool:
        """Whether double precision exists on the device."""
        return self.kind != "mps"

    @property
    def reference(self) -> torch.device:
        """Where double-precision reference values are computed: here if possible, or on the CPU."""
        return self.place if self.has_float64 else torch.device("cpu")

    def synchronise(self) -> None:
        """Wait until all work given to the device is done."""
        if self.kind == "cuda":
            torch.cuda.synchronize()
        elif self.kind == "mps":
            torch.mps.synchronize()

    def describe(self) -> dict[str, Any]:
        """The document that `Device.from_description` reads."""
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
        """The device that `describe` wrote down.

        Args:
            description: as `describe` returns it.
            memory_mb: as for `resolve`.

        Raises:
            DeviceError: this machine does not have it (the document came from another).
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
        memory_mb: that the arrays of what is computed at once may take; None: as the profile says.

    Raises:
        DeviceError: the device is absent, or has no float64 although it was asked for.
    """
    kind: Kind = (
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
    kind: Kind, name: str, training: str, geometry: str, memory_mb: int | None
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
    """What a timing depends on: device, processor, threads, versions. No dates, no host names."""
    threads = torch.get_num_threads()
    return {**device.describe(), **machine(), "torch": str(torch.__version__), "threads": threads}


def on_device(
    array: Shaped[np.ndarray, "*shape"], device: torch.device, dtype: torch.dtype
) -> Float[Tensor, "*shape"]:
    """A tensor on a device, from an array on the host.

    Cast before it is moved: a device without float64 cannot take a double to cast it.
    """
    return torch.from_numpy(array).to(dtype).to(device)


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch operations on the CPU do not fan out over cores, whichever thread calls them."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


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
