"""What suits a device: how much is computed at once, and in which way."""

import os
from dataclasses import dataclass
from typing import Literal

import torch

from geonode.devices.kernels.available import usable

# Rows of all networks of a batch: on a CPU their activations stay in cache, an accelerator is kept
# busy.
CPU_BATCH_ROWS = 1_500
ACCELERATOR_BATCH_ROWS = 4_000_000

# MB that the arrays of what is computed at once may take. What a card has is shared with the arrays
# of all models, with what torch keeps to use again, and with other processes.
CPU_MEMORY_MB = 1_000
UNIFIED_MEMORY_MB = 2_000  # where a device shares the memory of the machine
CARD_SHARE = 0.5

LARGE_WORKSPACES = (9, 10)  # major versions of cards: Hopper and Blackwell


@dataclass(frozen=True)
class Profile:
    """How to compute on a device.

    Attributes:
        batch_rows: network rows of the models that are trained side by side.
        batches: trained at once, each in a thread of its own; more than one on a CPU alone.
        memory_mb: that the arrays of what is computed at once may take, unless the parameter
            `memory_mb` says otherwise.
        captured: whether the steps of a training are captured as one graph, where they can be.
        kernels: whether kernels of this package are used.
        workspace_mb: that the library of matrix products keeps for every stream and every thread
            that it was used in.
        geometry: format of grids and geodesics where the parameters leave the choice.
    """

    batch_rows: int
    batches: int
    memory_mb: int
    captured: bool
    kernels: bool
    workspace_mb: float
    geometry: Literal["float32", "float64"]


def profile_of(place: torch.device) -> Profile:
    """What suits a device."""
    cpu, cuda, mps = (place.type == kind for kind in ("cpu", "cuda", "mps"))
    return Profile(
        batch_rows=CPU_BATCH_ROWS if cpu else ACCELERATOR_BATCH_ROWS,
        batches=(os.cpu_count() or 1) if cpu else 1,
        memory_mb=_memory_mb(place),
        captured=cuda,
        kernels=usable(place),
        workspace_mb=_workspace_mb(place),
        geometry="float32" if mps else "float64",
    )


def _workspace_mb(place: torch.device) -> float:
    """As torch chooses it for cuBLAS (aten/src/ATen/cuda/CublasHandlePool.cpp)."""
    if place.type != "cuda":
        return 0.0
    large = torch.cuda.get_device_properties(place.index or 0).major in LARGE_WORKSPACES
    return 32 * 2**20 / 1e6 if large else (2 * 4096 + 8 * 16) * 1024 / 1e6


def _memory_mb(place: torch.device) -> int:
    if place.type == "cuda":
        card = torch.cuda.get_device_properties(place.index or 0)
        return int(CARD_SHARE * card.total_memory / 1e6)
    return CPU_MEMORY_MB if place.type == "cpu" else UNIFIED_MEMORY_MB
