"""Resident memory of a process and its workers, and the memory of its GPU."""

import os
import sys
from pathlib import Path

_PROCESSES = Path("/proc")


class Workers:
    """Processes that work for this one, whose use counts as its own; on Linux alone."""

    def __init__(self) -> None:
        self.running: frozenset[int] = frozenset()
        """Their numbers. It is replaced, never changed: another thread may go through it."""
        self._peak = 0

    def end(self) -> None:
        """Keep the peak of the running ones, which are about to end."""
        self._peak = self.peak
        self.running = frozenset()

    @property
    def peak(self) -> int:
        """Sum of the peaks of resident memory of those that ran at the same time (bytes)."""
        sizes = (_size(process, "VmHWM") for process in self.running)
        return max(self._peak, sum(size or 0 for size in sizes))


WORKERS = Workers()


def memory_in_use() -> str:
    """Resident memory of this process and its workers, and that of its GPU, in words."""
    now, peak = map(_megabytes, resident_memory())
    text = f"resident memory {now}, at its peak {peak}"
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        now = _megabytes(torch.cuda.memory_allocated())
        text += f"; CUDA memory {now}, at its peak {_megabytes(torch.cuda.max_memory_allocated())}"
    return text


def resident_memory() -> tuple[int | None, int | None]:
    """Resident memory of this process and its workers, now and at its peak (bytes).

    None except on Linux.
    """
    # Not ru_maxrss, which on Linux is at least the peak of the process that started this one.
    now, peak = (_size(os.getpid(), name) for name in ("VmRSS", "VmHWM"))
    of_others = sum(_size(process, "VmRSS") or 0 for process in WORKERS.running)
    if now is None or peak is None:
        return None, None
    return now + of_others, peak + WORKERS.peak


def _size(process: int, name: str) -> int | None:
    """Bytes of an entry such as "VmRSS:  1680 kB", in units of 1024."""
    try:
        lines = (_PROCESSES / str(process) / "status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    found = dict(line.split(":", 1) for line in lines).get(name)
    return None if found is None else 1024 * int(found.split()[0])


def _megabytes(size: int | None) -> str:
    return "not measured" if size is None else f"{size / 1e6:,.0f} MB"
