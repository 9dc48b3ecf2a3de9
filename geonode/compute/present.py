"""Devices of this machine, with their default formats and profiles."""

import importlib
from dataclasses import dataclass
from typing import Any, get_args

import torch

from geonode.compute.choice import DeviceKind
from geonode.compute.device import resolve
from geonode.compute.profile import Profile, profile_of
from geonode.config import PrecisionParameters
from geonode.errors import DeviceError
from geonode.machine import machine as processor_and_versions

_DEFAULT = PrecisionParameters(training="float32", geometry="auto")


@dataclass(frozen=True)
class Present:
    """Device of this machine.

    Attributes:
        kind: value of the parameter `device`.
        name: name of the processor or GPU.
        memory_bytes: memory of the GPU; None where memory is that of the machine.
        automatic: whether `auto` chooses it.
        training: default format of networks in training.
        geometry: default format of grids and geodesics.
        profile: profile of the device.
    """

    kind: DeviceKind
    name: str
    memory_bytes: int | None
    automatic: bool
    training: str
    geometry: str
    profile: Profile


def present() -> list[Present]:
    """Devices of this machine, with every GPU; computations use the first GPU only."""
    taken = resolve("auto", _DEFAULT).kind
    found = []
    for kind in get_args(DeviceKind):
        try:
            device = resolve(kind, _DEFAULT)
        except DeviceError:
            continue
        cards: list[tuple[str, int | None]] = [(device.name, None)]
        if kind == "cuda":
            properties = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
            cards = [(card.name, card.total_memory) for card in properties]
        formats = device.describe()
        for place, (name, memory) in enumerate(cards):
            automatic = kind == taken and place == 0
            profile = profile_of(torch.device(kind, place))
            training, geometry = formats["training"], formats["geometry"]
            found.append(Present(kind, name, memory, automatic, training, geometry, profile))
    return found


def machine() -> dict[str, Any]:
    """Processor, cores, threads and versions; `triton` is None where it cannot be imported."""
    return {**processor_and_versions(), "threads": torch.get_num_threads(), "triton": _triton()}


def _triton() -> str | None:
    try:
        return str(importlib.import_module("triton").__version__)
    except ImportError:
        return None
