"""What a piece of work used: seconds, processor, memory, and of a GPU what can be told."""

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

_LOG = logging.getLogger(__name__)
_STATUS = Path("/proc/self/status")


GROWTH = 0.2
"""Part by which memory may grow after the first tenth of a piece of work without a warning."""

START_UP = 100_000_000
"""Bytes by which it may grow, however little it was: caches of allocators and of threads that take
their first part of the work later. Short trainings of one or four members on 2 to 16 threads, which
keep nothing, grew by at most 47 MB."""


class Resident(NamedTuple):
    """Resident memory of this process, now and at its peak (bytes); None where it is not told."""

    now: int | None
    peak: int | None


@contextmanager
def observed(label: str) -> Iterator[Callable[[int], None]]:
    """Log at DEBUG what the work inside used, once it has ended or failed.

    Yields:
        A function to call, from any thread, with the number of units done since the last call.
    """
    done, one_at_a_time = 0, threading.Lock()

    def count(units: int) -> None:
        nonlocal done
        with one_at_a_time:
            done += units

    wall, processor = time.perf_counter(), time.process_time()
    try:
        yield count
    finally:
        seconds, busy = time.perf_counter() - wall, time.process_time() - processor
        cores = os.cpu_count() or 1
        resident = resident_memory()
        _LOG.debug(
            "%s: %s units in %.3f s, %s a second; CPU %.0f%% of %d cores; "
            "resident memory %s, at its peak %s%s",
            label,
            f"{done:,}",
            seconds,
            f"{done / seconds:,.1f}",
            100 * busy / seconds / cores,
            cores,
            _megabytes(resident.now),
            _megabytes(resident.peak),
            _gpu(),
        )


class Growth:
    """Memory that this process holds for itself, files that it maps left out, during some work.

    Args:
        total: units of that work.

    Attributes:
        first: after a tenth of the work (bytes); None before, and where it is not told.
    """

    def __init__(self, total: int) -> None:
        self._total, self._done = total, 0
        self._one_at_a_time = threading.Lock()
        self.first: int | None = None

    def count(self, units: int) -> None:
        """Take note of units of work that are done; from any thread."""
        with self._one_at_a_time:
            before, self._done = self._done, self._done + units
            if 10 * before < self._total <= 10 * self._done:
                self.first = own_memory()

    def tell(self, label: str) -> None:
        """Warn at the end of the work if memory grew by more than `GROWTH` and `START_UP`."""
        last = own_memory()
        if self.first is None or last is None:
            return
        if last - self.first > max(GROWTH * self.first, START_UP):
            _LOG.warning(
                "%s: memory grew from %s after a tenth of the work to %s at its end; "
                "look whether it goes on growing in longer work",
                label,
                _megabytes(self.first),
                _megabytes(last),
            )


def own_memory() -> int | None:
    """Resident memory of this process without the files that it maps; told on Linux alone."""
    return _size(_status().get("RssAnon"))


def resident_memory() -> Resident:
    """Resident memory of this process since it began; nothing is told but on Linux."""
    told = _status()
    # Not ru_maxrss, which on Linux is at least the peak of the process that started this one.
    return Resident(_size(told.get("VmRSS")), _size(told.get("VmHWM")))


def _status() -> dict[str, str]:
    try:
        lines = _STATUS.read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    return dict(line.split(":", 1) for line in lines)


def _size(told: str | None) -> int | None:
    """Bytes that are told as "  1680 kB", which are 1024 each."""
    return None if told is None else 1024 * int(told.split()[0])


def _megabytes(size: int | None) -> str:
    return "not measured" if size is None else f"{size / 1e6:,.0f} MB"


def _gpu() -> str:
    """Memory and utilisation of the CUDA device, if this process uses one."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return ""
    try:
        utilisation = f"{torch.cuda.utilization()}%"
    except Exception:  # of pynvml, which may be absent and with it the names of its errors
        utilisation = "not measured"
    return (
        f"; CUDA memory {_megabytes(torch.cuda.memory_allocated())}, "
        f"at its peak {_megabytes(torch.cuda.max_memory_allocated())}, utilisation {utilisation}"
    )
