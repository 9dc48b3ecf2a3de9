"""Timing of repeated calls."""

from collections.abc import Callable
from timeit import repeat
from typing import NamedTuple

import numpy as np


class Quartiles(NamedTuple):
    """Median, first and third quartile of repeated measurements."""

    median: float
    q25: float
    q75: float

    @classmethod
    def of(cls, values: list[float]) -> "Quartiles":
        """Quartiles of at least one value."""
        return cls(*np.percentile(values, (50, 25, 75)).tolist())

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.q25:.2f} to {self.q75:.2f})"


def time_calls(
    call: Callable[[], object], repeats: int, synchronise: Callable[[], None]
) -> Quartiles:
    """Seconds of repeated calls, after one warm-up call.

    Args:
        call: function to time.
        repeats: number of calls.
        synchronise: waits until the device has finished.
    """

    def waited_for() -> None:
        call()
        synchronise()

    waited_for()
    return Quartiles.of(repeat(waited_for, number=1, repeat=repeats))
