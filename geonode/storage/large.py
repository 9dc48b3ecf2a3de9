"""Sizes of batches, and number formats of large results."""

import numpy as np
from jaxtyping import Float

from geonode.errors import ArtifactError
from geonode.parameter_types import Format

MEMORY = 2**30
"""Memory for all batches in hand (bytes)."""


def batch_size(bytes_of_one: int, most: int, at_once: int) -> int:
    """Number of items in a batch: at most `most`, fewer if they are large, at least one.

    Args:
        bytes_of_one: memory of one item while it is computed.
        most: largest number of items.
        at_once: number of batches that are computed at the same time.
    """
    return max(1, min(most, MEMORY // (at_once * bytes_of_one)))


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
