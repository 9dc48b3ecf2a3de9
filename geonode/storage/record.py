"""Records of the time and memory of a stage: of its last run on this machine.

No two runs take the same time, so a record is no output of the stage.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from geonode.errors import CorruptArtifactError
from geonode.machine import processor_and_versions
from geonode.storage.document import read_json, write_json
from geonode.usage import resident_memory

_IMPORTED = time.perf_counter()
_STARTS: dict[str, float] = {}  # of this process
_STAT = Path("/proc/self/stat")
_STARTED = 22 - 3  # field 22, the first one after the name being the third (man 5 proc_pid_stat)


@dataclass(frozen=True)
class Record:
    """Time and memory of a stage."""

    seconds: float  # from the start of the process to the end of its work
    peak_mb: float | None  # largest resident memory, with that of workers; None except on Linux
    device_peak_mb: float | None
    """Largest memory allocated by torch on a CUDA device; None without one."""
    machine: dict[str, Any] | None = None
    imports: float | None = None  # seconds until all was imported; None if no device is asked for
    device_start: float | None = None
    """Seconds from then until the device had started; the rest is computation."""

    @classmethod
    def read(cls, path: Path) -> "Record":
        """Read the record of a stage.

        Raises:
            MissingArtifactError, ArtifactError: the file is absent or no record.
        """
        try:
            return TypeAdapter(cls).validate_python(read_json(path))
        except ValidationError as error:
            raise CorruptArtifactError(
                path, f"is no record ({error.errors()[0]['msg']})"
            ) from error


@contextmanager
def device_starts() -> Iterator[None]:
    """Context in which a stage, all of whose modules are imported, starts its device."""
    imports = _seconds()
    yield
    _STARTS.update(imports=imports, device_start=_seconds() - imports)


@contextmanager
def recorded(path: Path) -> Iterator[None]:
    """Write the record of this process after the body; none if the body fails."""
    yield
    _, peak = resident_memory()
    torch: Any = sys.modules.get("torch")
    on_device = torch is not None and torch.cuda.is_initialized()
    record = Record(
        seconds=_seconds(),
        peak_mb=None if peak is None else peak / 1e6,
        device_peak_mb=torch.cuda.max_memory_allocated() / 1e6 if on_device else None,
        machine=processor_and_versions(),
        **_STARTS,
    )
    write_json(path, asdict(record))


def _seconds() -> float:
    """Seconds since this process began, or since the import of this module if not reported."""
    try:
        fields = _STAT.read_text(encoding="utf-8").rpartition(")")[2].split()
        started = int(fields[_STARTED]) / os.sysconf("SC_CLK_TCK")
        return time.clock_gettime(time.CLOCK_BOOTTIME) - started
    except OSError:
        return time.perf_counter() - _IMPORTED
