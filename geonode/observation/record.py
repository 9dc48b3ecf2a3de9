"""What a stage took when it ran: kept beside what it made, so that nobody has to run it again.

Timings of a stage stay true as long as what it made does. They say of which machine and engine
they are, and whether the stage did all of its work in one go.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from geonode.errors import CorruptArtifactError
from geonode.observation.machine import machine
from geonode.observation.usage import resident_memory
from geonode.storage.document import read_document, write_document

_IMPORTED = time.perf_counter()
_STAT = Path("/proc/self/stat")
_STARTED = 22 - 3  # field 22, the first one after the name being the third (man 5 proc_pid_stat)


@dataclass(frozen=True)
class Record:
    """What a stage took.

    Attributes:
        seconds: from the start of its process to the end of its work.
        peak_mb: largest resident memory; None where it is not told (all systems but Linux).
        device_peak_mb: most that torch had allocated on a CUDA device; None if it used none.
        whole: whether all work was done in this run, and nothing was recorded beside it.
        conditions: machine and engine.
    """

    seconds: float
    peak_mb: float | None
    device_peak_mb: float | None
    whole: bool
    conditions: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> "Record":
        """The record that a stage has written.

        Raises:
            MissingArtifactError, CorruptArtifactError: there is none, or it is damaged.
        """
        try:
            return cls(**read_document(path))
        except TypeError as error:
            raise CorruptArtifactError(path, f"is sealed but no record ({error})") from error


def conditions(engine: dict[str, Any]) -> dict[str, Any]:
    """What a record of this machine and an engine says of both.

    Args:
        engine: the block `engine` of the parameters.
    """
    return {"machine": machine(), "engine": engine}


@contextmanager
def recorded(path: Path, engine: dict[str, Any], *, whole: bool) -> Iterator[None]:
    """Write down, after the body, what this process took until then. A failure leaves no record.

    Args:
        path: of the record.
        engine: the block `engine` of the parameters.
        whole: whether the body does all of its work anew and alone.
    """
    yield
    peak = resident_memory().peak
    record = Record(
        seconds=_seconds(),
        peak_mb=None if peak is None else peak / 1e6,
        device_peak_mb=_device_peak_mb(),
        whole=whole,
        conditions=conditions(engine),
    )
    write_document(path, asdict(record))


def _seconds() -> float:
    """Since this process began; where the system does not tell, since this module was imported."""
    try:
        told = _STAT.read_text(encoding="utf-8").rpartition(")")[2].split()
        started = int(told[_STARTED]) / os.sysconf("SC_CLK_TCK")
        return time.clock_gettime(time.CLOCK_BOOTTIME) - started
    except OSError:
        return time.perf_counter() - _IMPORTED


def _device_peak_mb() -> float | None:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    return float(torch.cuda.max_memory_allocated()) / 1e6
