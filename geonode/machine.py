"""Conditions of a timing on this machine: processor, system and versions."""

import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import cache_from_source, find_spec
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


def usable_cores() -> int:
    """Number of processor cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


@contextmanager
def one_core() -> Iterator[bool]:
    """Context in which this thread, and those it starts, have one core; not on macOS and Windows.

    Yields:
        Whether it is so.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield False
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield True
    finally:
        os.sched_setaffinity(0, before)


def processor() -> str:
    """Name of the processor of this machine."""
    try:
        lines = _PROCESSORS.read_text(encoding="utf-8").splitlines()
        return next(
            line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")
        )
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def compiled_anew(package: str) -> str | None:
    """What to do about a package that Python compiles at every import; None: it does not.

    It happens where pip or uv has not compiled it, as in many container images, and Python may not
    keep what it compiles.
    """
    found = find_spec(package)
    assert found is not None
    assert found.origin is not None
    folder, kept = Path(found.origin).parent, Path(cache_from_source(found.origin))
    if kept.exists():
        return None
    if sys.dont_write_bytecode:
        remedy = f"unset PYTHONDONTWRITEBYTECODE, or run python -m compileall -q {folder}"
    elif not os.access(next(path for path in kept.parents if path.exists()), os.W_OK):
        remedy = "set PYTHONPYCACHEPREFIX to a folder that can be written"
    else:
        return None
    return f"every stage compiles {package} anew, which takes seconds; {remedy}"
