"""Profiles of devices: sizes of batches, memory and program options."""

from dataclasses import dataclass

import torch

from geonode.compute.kernels.available import usable
from geonode.machine import usable_cores

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
    """Sizes and options of computations on a device.

    Attributes:
        batch_rows: network rows of the models of a batch.
        batches: batches trained at the same time, each in its own thread; one except on a CPU.
        tiles: grids of models, or their geodesics, computed at the same time, each in its own
            thread.
        memory_mb: memory for the arrays of one batch or tile, unless the parameter `memory_mb` is
            set.
        captured: whether training steps are captured as a CUDA graph if possible.
        kernels: whether the kernels of this package are used.
    """

    batch_rows: int
    batches: int
    tiles: int
    memory_mb: int
    captured: bool
    kernels: bool


def profile_of(place: torch.device) -> Profile:
    """Profile of a device."""
    cpu, cuda = (place.type == kind for kind in ("cpu", "cuda"))
    cores = usable_cores()
    return Profile(
        batch_rows=CPU_BATCH_ROWS if cpu else ACCELERATOR_BATCH_ROWS,
        batches=cores if cpu else 1,
        tiles=cores if cpu else CARD_TILES if cuda else 1,
        memory_mb=_memory_mb(place),
        captured=cuda,
        kernels=usable(place),
    )


def _memory_mb(place: torch.device) -> int:
    if place.type == "cuda":
        card = torch.cuda.get_device_properties(place.index or 0)
        return int(CARD_SHARE * card.total_memory / 1e6)
    return CPU_MEMORY_MB if place.type == "cpu" else UNIFIED_MEMORY_MB
