"""Conditions of a timing on this machine: processor, system and versions."""

import os
import platform
from importlib.metadata import version
from pathlib import Path

_PROCESSORS = Path("/proc/cpuinfo")


def machine() -> dict[str, str | int | None]:
    """Processor, cores, system and versions, without dates and host names or importing torch."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": version("torch"),
    }


def processor() -> str:
    """Name of the processor of this machine."""
    try:
        lines = _PROCESSORS.read_text(encoding="utf-8").splitlines()
        return next(
            line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")
        )
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
