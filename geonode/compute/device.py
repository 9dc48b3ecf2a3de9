"""A device with its number formats, and what is done on it."""

import gc
import logging
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, get_args

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from geonode.compute.choice import DeviceKind, choose
from geonode.compute.profile import profile_of
from geonode.config import PrecisionParameters
from geonode.errors import ArtifactError, DeviceError
from geonode.storage.document import read_json
from geonode.storage.record import device_starts

Rounding = Literal["tf32", "bfloat16"]
Value = TypeVar("Value")

CPU = torch.device("cpu")

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Device:
    """Device and its number formats."""

    kind: DeviceKind
    name: str
    """Kind and name of the device."""
    training: torch.dtype  # format of networks in training, their losses and their gradients
    geometry: torch.dtype  # format of grids and geodesics
    rounding: Rounding | None = None
    """Format to which factors of products are rounded in training; None for none."""
    memory_mb: int | None = None
    """Memory for the arrays of one batch or tile; None: that of the profile."""

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
    def reference(self) -> torch.device:
        """Device of double-precision values: this one, or the CPU where it has none, as mps."""
        return CPU if self.kind == "mps" else self.place

    def synchronise(self) -> None:
        """Wait until all work given to the device is done."""
        if self.kind == "cuda":
            torch.cuda.synchronize()
        elif self.kind == "mps":
            torch.mps.synchronize()

    def describe(self) -> dict[str, Any]:
        """Description of the device and its formats, as `choose` returns it."""
        return {
            "device": self.kind,
            "name": self.name,
            "training": self.rounding or str(self.training).removeprefix("torch."),
            "geometry": str(self.geometry).removeprefix("torch."),
        }

    @staticmethod
    def read(path: Path, memory_mb: int | None = None) -> "Device":
        """Device that was chosen by the stage `probe`.

        `memory_mb` is that of `Device`.

        Raises:
            MissingArtifactError, ArtifactError: the file is absent, or describes no device.
            DeviceError: the device is absent (the file is from another machine).
        """
        found = read_json(path)
        try:
            with device_starts():
                formats = {name: found[name] for name in ("training", "geometry")}
                device = resolve(found["device"], PrecisionParameters(**formats), memory_mb)
                torch.empty(1, device=device.place)
                device.synchronise()
            return replace(device, name=str(found["name"]))
        except (KeyError, ValueError) as error:
            reason = " ".join(f"{error!r:.80}".split())
            raise ArtifactError(
                f"{path}: describes no device ({reason}), expected a file of probe; run `dvc repro`"
            ) from error


def resolve(device: str, precision: PrecisionParameters, memory_mb: int | None = None) -> Device:
    """Choose the device and its formats.

    Arguments are those of `choose`; for `memory_mb` see `Device`.

    Raises:
        DeviceError: as `choose`, or torch does not start the device.
    """
    chosen = choose(device, precision)
    kind, name, training = chosen["device"], chosen["name"], chosen["training"]
    if kind == "cuda" and not torch.cuda.is_available():
        raise DeviceError(
            f"device 'cuda': found {name}, which torch {torch.__version__} does not start; install "
            "its driver or torch anew, or set device to cpu"
        )
    rounded = training in get_args(Rounding)
    return Device(
        cast(DeviceKind, kind),
        name,
        torch.float32 if rounded else getattr(torch, training),
        getattr(torch, chosen["geometry"]),
        cast(Rounding, training) if rounded else None,
        memory_mb,
    )


def on_device(
    array: Shaped[np.ndarray, "*shape"], device: torch.device, dtype: torch.dtype
) -> Float[Tensor, "*shape"]:
    """Tensor on a device from an array on the host.

    It is cast before it is moved, as a device without float64 cannot store a double.
    """
    return torch.from_numpy(array).to(dtype).to(device)


def all_alike(place: torch.device) -> list[torch.device]:
    """The GPUs of this machine that round as its first one, or another device alone."""
    if place.type != "cuda":
        return [place]
    count = torch.cuda.device_count()
    names = [torch.cuda.get_device_properties(card).name for card in range(count)]
    return [torch.device("cuda", card) for card in range(count) if names[card] == names[0]]


def moved(value: Value, place: torch.device) -> Value:
    """Data class, tuple or dict, of any depth, whose tensors are on a device.

    Its tensors and arrays lie in one piece, as those that are read from a file: products of others
    round differently.
    """
    found: Any = value
    if isinstance(value, Tensor):
        found = value.to(place).contiguous()
    elif isinstance(value, np.ndarray):
        found = np.ascontiguousarray(value)
    elif isinstance(value, dict):
        found = {key: moved(one, place) for key, one in value.items()}
    elif isinstance(value, tuple):
        parts = (moved(one, place) for one in value)
        found = type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    elif is_dataclass(value) and not isinstance(value, type):
        names = (one.name for one in fields(value))
        found = replace(value, **{name: moved(getattr(value, name), place) for name in names})
    return cast("Value", found)


def unless_out_of_memory(work: Callable[[], Value], instead: str) -> Value | None:
    """Result of a function; None if the GPU ran out of memory, which is freed then.

    Work is divided by the memory free at that time; other processes may take some of it later.
    `instead` is the log line of the fallback; `work` must not return None.
    """
    try:
        return work()
    except torch.OutOfMemoryError as error:
        _LOG.warning("%s; %s", str(error).splitlines()[0], instead)
    if torch.cuda.is_initialized():
        # outside of the except block, where the error no longer keeps the arrays
        gc.collect()
        torch.cuda.empty_cache()
    return None
