"""Devices of this machine, and the profile of each: sizes of batches, memory, program options."""

import importlib
from dataclasses import dataclass
from typing import Any, get_args

import torch

from geonode.compute.choice import DeviceKind, choose
from geonode.compute.kernels.available import usable
from geonode.config import PrecisionParameters
from geonode.errors import DeviceError
from geonode.machine import processor_and_versions, usable_cores

# Rows of all networks of a batch: few enough for the cache of a CPU, enough to keep an accelerator
# busy.
CPU_BATCH_ROWS = 3_000
ACCELERATOR_BATCH_ROWS = 4_000_000

# Grids or geodesics of several models at once on a GPU: it is free while a tile is read or stored.
CARD_TILES = 4

# Memory for the arrays of one batch or tile (MB). That of a GPU is shared with the arrays of all
# models, with the cache of torch, and with other processes.
CPU_MEMORY_MB = 1_000
UNIFIED_MEMORY_MB = 2_000  # where a device shares the memory of the machine
CARD_SHARE = 0.5


@dataclass(frozen=True)
class Profile:
    """Sizes and options of computations on a device."""

    batch_rows: int  # network rows of the models of a batch
    batches: int  # batches trained at the same time, each in its own thread; one except on a CPU
    tiles: int
    """Grids of models, or their geodesics, computed at the same time, each in its own thread."""
    memory_mb: int
    """Memory for the arrays of one batch or tile, unless the parameter `memory_mb` is set."""
    captured: bool  # whether training steps are captured as a CUDA graph if possible
    kernels: bool  # whether the kernels of this package are used


def profile_of(place: torch.device) -> Profile:
    """Profile of a device."""
    cpu, cuda = (place.type == kind for kind in ("cpu", "cuda"))
    cores, memory_mb = usable_cores(), CPU_MEMORY_MB if cpu else UNIFIED_MEMORY_MB
    if cuda:
        card = torch.cuda.get_device_properties(place.index or 0)
        memory_mb = int(CARD_SHARE * card.total_memory / 1e6)
    return Profile(
        batch_rows=CPU_BATCH_ROWS if cpu else ACCELERATOR_BATCH_ROWS,
        batches=cores if cpu else 1,
        tiles=cores if cpu else CARD_TILES if cuda else 1,
        memory_mb=memory_mb,
        captured=cuda,
        kernels=usable(place),
    )


@dataclass(frozen=True)
class Present:
    """Device of this machine."""

    kind: DeviceKind  # value of the parameter `device`
    name: str  # name of the processor or GPU
    memory_bytes: int | None  # memory of the GPU; None where memory is that of the machine
    automatic: bool  # whether `auto` chooses it
    training: str  # default format of networks in training
    geometry: str  # default format of grids and geodesics
    profile: Profile  # profile of the device


def present() -> list[Present]:
    """Devices of this machine, with every GPU; all but maps use the first one only."""
    default, found = PrecisionParameters(), []
    taken = choose("auto", default)["device"]
    for kind in get_args(DeviceKind):
        try:
            about = choose(kind, default)
        except DeviceError:
            continue
        cards: list[tuple[str, int | None]] = [(about["name"], None)]
        if kind == "cuda":
            properties = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
            cards = [(card.name, card.total_memory) for card in properties]
        for place, (name, memory) in enumerate(cards):
            automatic, profile = kind == taken and place == 0, profile_of(torch.device(kind, place))
            formats = about["training"], about["geometry"]
            found.append(Present(kind, name, memory, automatic, *formats, profile))
    return found


def machine() -> dict[str, Any]:
    """Processor, cores, threads and versions; `triton` may be why it cannot be imported."""
    try:
        triton = str(importlib.import_module("triton").__version__)
    except ImportError as error:
        triton = f"cannot be imported ({error})"
    return {**processor_and_versions(), "threads": torch.get_num_threads(), "triton": triton}
