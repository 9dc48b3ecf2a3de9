"""Large work: how much of it is in hand at once, and in which format its results are kept."""

import re
from pathlib import Path

import numpy as np
from jaxtyping import Float

from geonode.config import Format
from geonode.errors import ArtifactError

SHARE = 0.25
"""Of the free memory, that all that is in hand at once may take."""

UNTOLD = 2**32
"""Bytes that are taken to be free where the operating system does not say."""

_MEMORY, _LIMIT = Path("/proc/meminfo"), Path("/sys/fs/cgroup/memory.max")


def batch_size(bytes_of_one: int, most: int, at_once: int) -> int:
    """As many as are wanted, fewer where memory is short, and one at least.

    Args:
        bytes_of_one: that one of them takes while it is computed.
        most: that are wanted.
        at_once: batches in hand.
    """
    return max(1, min(most, int(SHARE * free_memory()) // (at_once * bytes_of_one)))


def free_memory() -> int:
    """Bytes that this machine has free, or that its container may have where that is less."""
    try:
        found = re.search(r"MemAvailable: *(\d+) kB", _MEMORY.read_text(encoding="ascii"))
    except OSError:
        found = None
    free = UNTOLD if found is None else 1024 * int(found[1])
    try:
        return min(free, int(_LIMIT.read_text(encoding="ascii")))
    except (OSError, ValueError):  # no container, or one without a limit
        return free


def in_format(
    values: Float[np.ndarray, "*size"], number: Format, where: str
) -> Float[np.ndarray, "*size"]:
    """Numbers in the format in which they are kept.

    Args:
        values: in double precision.
        number: the format.
        where: what they are, for the message.

    Raises:
        ArtifactError: one is beyond the largest number of the format.
    """
    with np.errstate(over="ignore"):  # what comes of it is refused
        kept = values.astype(number)
    beyond = np.isfinite(values) & ~np.isfinite(kept)
    if beyond.any():
        raise ArtifactError(
            f"{where}: found {values[beyond][0]:.6g}, expected at most {np.finfo(number).max:.6g}, "
            f"the largest number of {number}; take a larger format with --cache-dtype"
        )
    return kept
