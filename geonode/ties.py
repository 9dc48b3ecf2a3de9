"""Ties: numbers that rounding may have parted are equal, and the first of equals is taken.

Processors round sums in another order, by their vector instructions and by what else is in a batch.
A decision between computed numbers therefore takes those for equal that differ by less than
`EQUAL` of their size. Options stand in the order of preference: the lower concentration, the
simpler method, fewer components, the shorter wavelength first.
"""

import numpy as np
from jaxtyping import Float, Int

EQUAL = 1e-9
"""Largest difference of equal numbers, relative to their size."""


def first_smallest(
    values: Float[np.ndarray, "*rest option"], size: float | None = None
) -> Int[np.ndarray, "*rest"]:
    """Place of the smallest of numbers; of equal ones the first.

    Args:
        values: numbers, none NaN.
        size: of which `EQUAL` is the largest difference of equal ones; None: the smallest number.
    """
    least = values.min(axis=-1, keepdims=True)
    margin = EQUAL * (np.where(np.isfinite(least), np.abs(least), 0.0) if size is None else size)
    return np.asarray(np.argmax(values <= least + margin, axis=-1))


def first_largest(
    values: Float[np.ndarray, "*rest option"], size: float | None = None
) -> Int[np.ndarray, "*rest"]:
    """Place of the largest of numbers; of equal ones the first, as of `first_smallest`."""
    return first_smallest(-values, size)
