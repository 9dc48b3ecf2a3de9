"""What a timing depends on beside the program: processor, system and versions."""

import os
import platform
from importlib.metadata import version
from pathlib import Path

_PROCESSORS = Path("/proc/cpuinfo")


def machine() -> dict[str, str | int | None]:
    """Processor, cores, system and versions. No dates, no host names; torch is not imported."""
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
