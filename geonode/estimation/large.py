"""Batch sizes within the free memory, and number formats of large results."""

import re
from pathlib import Path

import numpy as np
from jaxtyping import Float

from geonode.errors import ArtifactError
from geonode.parameter_types import Format

SHARE = 0.25
"""Share of the free memory that all batches in hand may take."""

ASSUMED_FREE = 2**32
"""Free memory (bytes) to assume where the operating system does not report it."""

_MEMORY, _LIMIT = Path("/proc/meminfo"), Path("/sys/fs/cgroup/memory.max")


def batch_size(bytes_of_one: int, most: int, at_once: int) -> int:
    """Number of items in a batch: at most `most`, fewer where memory is short, at least one.

    Args:
        bytes_of_one: memory of one item while it is computed.
        most: largest number of items.
        at_once: number of batches that are computed at the same time.
    """
    return max(1, min(most, int(SHARE * free_memory()) // (at_once * bytes_of_one)))


def free_memory() -> int:
    """Free memory of the machine (bytes), or the limit of its container where that is less."""
    try:
        found = re.search(r"MemAvailable: *(\d+) kB", _MEMORY.read_text(encoding="ascii"))
    except OSError:
        found = None
    free = ASSUMED_FREE if found is None else 1024 * int(found[1])
    try:
        return min(free, int(_LIMIT.read_text(encoding="ascii")))
    except (OSError, ValueError):  # no container, or one without a limit
        return free


def in_format(
    values: Float[np.ndarray, "*size"], number: Format, where: str
) -> Float[np.ndarray, "*size"]:
    """Numbers converted to the format in which they are stored.

    Args:
        values: numbers in double precision.
        number: the format.
        where: their name in the error message.

    Raises:
        ArtifactError: a number exceeds the largest of the format.
    """
    with np.errstate(over="ignore"):  # infinite results are refused below
        kept = values.astype(number)
    beyond = np.isfinite(values) & ~np.isfinite(kept)
    if beyond.any():
        raise ArtifactError(
            f"{where}: found {values[beyond][0]:.6g}, expected at most {np.finfo(number).max:.6g}, "
            f"the largest number of {number}; take a larger format with --cache-dtype"
        )
    return kept
