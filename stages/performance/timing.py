"""Timing of repeated calls."""

import time
from collections.abc import Callable
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
    call()
    synchronise()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        synchronise()
        seconds.append(time.perf_counter() - start)
    return Quartiles.of(seconds)
