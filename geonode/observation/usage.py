"""Resources used by a piece of work: time, processor, memory and GPU."""

import logging
import os
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

_LOG = logging.getLogger(__name__)
_STATUS = Path("/proc/self/status")


GROWTH = 0.2
"""Relative growth of memory after the first tenth of the work that gives no warning."""

START_UP = 100_000_000
"""Absolute growth (bytes) that gives no warning: caches of allocators, and threads that start
later. Short trainings of one or four members on 2 to 16 threads, without leaks, grew by at most 47
MB."""


class Resident(NamedTuple):
    """Resident memory of this process, now and at its peak (bytes); None if not reported."""

    now: int | None
    peak: int | None


class Usage:
    """Resources used by some work of this process, from the making of this object on.

    Args:
        total: units of the work.

    Attributes:
        first: memory without mapped files after a tenth of the work (bytes); None before, and if
            not reported.
    """

    def __init__(self, total: int) -> None:
        self._total, self._done = total, 0
        self._one_at_a_time = threading.Lock()
        self._wall, self._processor = time.perf_counter(), time.process_time()
        self.first: int | None = None

    def count(self, units: int) -> None:
        """Count units of finished work; callable from any thread."""
        with self._one_at_a_time:
            before, self._done = self._done, self._done + units
            if 10 * before < self._total <= 10 * self._done:
                self.first = own_memory()

    def log(self, label: str) -> None:
        """Log the resources used so far at DEBUG."""
        seconds = time.perf_counter() - self._wall
        busy = time.process_time() - self._processor
        cores = os.cpu_count() or 1
        resident = resident_memory()
        _LOG.debug(
            "%s: %s units in %.3f s, %s a second; CPU %.0f%% of %d cores; "
            "resident memory %s, at its peak %s%s",
            label,
            f"{self._done:,}",
            seconds,
            f"{self._done / seconds:,.1f}",
            100 * busy / seconds / cores,
            cores,
            _megabytes(resident.now),
            _megabytes(resident.peak),
            _gpu(),
        )

    def warn(self, label: str) -> None:
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
    """Resident memory of this process without mapped files (bytes); None except on Linux."""
    return _size(_status().get("RssAnon"))


def resident_memory() -> Resident:
    """Resident memory of this process; None except on Linux."""
    status = _status()
    # Not ru_maxrss, which on Linux is at least the peak of the process that started this one.
    return Resident(_size(status.get("VmRSS")), _size(status.get("VmHWM")))


def _status() -> dict[str, str]:
    try:
        lines = _STATUS.read_text(encoding="utf-8").splitlines()
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
