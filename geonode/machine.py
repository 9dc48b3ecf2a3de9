"""Conditions of a timing on this machine: processor, system and versions."""

import os
import platform
from importlib.metadata import version
from pathlib import Path

ONE_THREAD = dict.fromkeys(
    ("MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
)
"""Environment in which an operation of torch (which obeys the first) or BLAS takes one thread."""

_PROCESSORS = Path("/proc/cpuinfo")


def processor_and_versions() -> dict[str, str | int | None]:
    """Processor, cores, system and versions, without dates and host names or importing torch."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": version("torch"),
    }


def usable_cores() -> int:
    """Number of processor cores that this process may use, at most OMP_NUM_THREADS if it is set."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    most = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(cores, int(most))) if most.isdecimal() else cores


def processor() -> str:
    """Name of the processor of this machine."""
    try:
        lines = _PROCESSORS.read_text(encoding="utf-8").splitlines()
        return next(
            line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")
        )
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
