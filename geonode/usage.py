"""Resources used by a piece of work: time, memory and GPU."""

import logging
import os
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

_LOG = logging.getLogger(__name__)
_PROCESSES = Path("/proc")

GROWTH = 0.2
"""Relative growth of memory after the first tenth of the work that gives no warning."""

SECONDS = 2.0
"""From one look at the memory of steady work to the next."""

START_UP = 200_000_000
"""Absolute growth (bytes) that gives no warning: caches of allocators, and threads that start
later. Short trainings of one or four members on 2 to 16 threads, without leaks, grew by at most 47
MB, geodesics of seven folds on two threads by 108."""


class Resident(NamedTuple):
    """Resident memory, now and at its peak (bytes); None if not reported."""

    now: int | None
    peak: int | None


class Workers:
    """Processes that work for this one, whose use counts as its own; on Linux alone.

    Attributes:
        running: their numbers. It is replaced, never changed: another thread may go through it.
    """

    def __init__(self) -> None:
        self.running: frozenset[int] = frozenset()
        self._peak = 0

    def end(self) -> None:
        """Keep the peak of the running ones, which are about to end."""
        self._peak = self.peak
        self.running = frozenset()

    @property
    def peak(self) -> int:
        """Sum of the peaks of resident memory of those that ran at the same time (bytes)."""
        sizes = (_size(_status(process).get("VmHWM")) for process in self.running)
        return max(self._peak, sum(size or 0 for size in sizes))


WORKERS = Workers()


class Usage:
    """Resources used by some work, from the making of this object on; with those of workers.

    Memory of steady work that grows by more than `GROWTH` and `START_UP` is warned of when it is
    seen, once.

    Args:
        total: units of the work.
        steady: name of work that is all alike; None: its memory may grow.

    Attributes:
        first: `own_memory` after a tenth of the work; None before, and if not reported.
        last: `own_memory` when it was last looked at, at the end too.
    """

    def __init__(self, total: int, steady: str | None = None) -> None:
        self._total, self._done, self._steady = total, 0, steady
        self._looked = time.monotonic()
        self._one_at_a_time = threading.Lock()
        self._began = time.perf_counter()
        self.first: int | None = None
        self.last: int | None = None

    def count(self, units: int) -> None:
        """Count units of finished work; callable from any thread."""
        with self._one_at_a_time:
            before, self._done = self._done, self._done + units
            if 10 * before < self._total <= 10 * self._done:
                self.first = own_memory()
            # at the end, but not later, when workers have ended
            is_end, now = before < self._total <= self._done, time.monotonic()
            if is_end or (self.first is not None and now > self._looked + SECONDS):
                self.last, self._looked = own_memory(), now
                self._warn()

    def log(self, label: str) -> None:
        """Log the resources used so far at DEBUG."""
        seconds = time.perf_counter() - self._began
        _LOG.debug(
            "%s: %s units in %.3f s, %s a second; %s",
            label,
            f"{self._done:,}",
            seconds,
            f"{self._done / seconds:,.1f}",
            memory_in_use(),
        )

    def _warn(self) -> None:
        if self._steady is None or self.first is None or self.last is None:
            return
        if self.last - self.first > max(GROWTH * self.first, START_UP):
            _LOG.warning(
                "%s: memory grew from %s after a tenth of the work to %s after %.0f%% of it; "
                "look whether it goes on growing",
                self._steady,
                _megabytes(self.first),
                _megabytes(self.last),
                100 * self._done / self._total,
            )
            self._steady = None


def memory_in_use() -> str:
    """Resident memory of this process and its workers, and that of its GPU, in words."""
    now, peak = map(_megabytes, resident_memory())
    return f"resident memory {now}, at its peak {peak}{_gpu()}"


def own_memory() -> int | None:
    """Resident memory without mapped files, of the largest of this process and its workers (bytes).

    None except on Linux.
    """
    processes = (os.getpid(), *WORKERS.running)
    found = (_size(_status(process).get("RssAnon")) for process in processes)
    return max((size for size in found if size is not None), default=None)


def resident_memory() -> Resident:
    """Resident memory of this process and its workers; None except on Linux."""
    own, *others = (_status(process) for process in (os.getpid(), *WORKERS.running))
    # Not ru_maxrss, which on Linux is at least the peak of the process that started this one.
    now, peak = _size(own.get("VmRSS")), _size(own.get("VmHWM"))
    of_others = sum(_size(status.get("VmRSS")) or 0 for status in others)
    return Resident(
        None if now is None else now + of_others, None if peak is None else peak + WORKERS.peak
    )


def _status(process: int) -> dict[str, str]:
    try:
        lines = (_PROCESSES / str(process) / "status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    return dict(line.split(":", 1) for line in lines)


def _size(text: str | None) -> int | None:
    """Bytes of a text such as "  1680 kB", in units of 1024."""
    return None if text is None else 1024 * int(text.split()[0])


def _megabytes(size: int | None) -> str:
    return "not measured" if size is None else f"{size / 1e6:,.0f} MB"


def _gpu() -> str:
    """Memory and utilisation of the CUDA device, if this process uses one."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return ""
    try:
        utilisation = f"{torch.cuda.utilization()}%"
    except Exception:  # an error of pynvml, which may be absent, so that it cannot be named
        utilisation = "not measured"
    return (
        f"; CUDA memory {_megabytes(torch.cuda.memory_allocated())}, "
        f"at its peak {_megabytes(torch.cuda.max_memory_allocated())}, utilisation {utilisation}"
    )
