"""Timing of commands as a user runs them, with peak memory, and of repeated calls."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import quantiles
from typing import NamedTuple

from geonode.errors import GeonodeError

# The peak memory that Linux reports for a process is at least that of the process that started it
# (execve keeps the mark of the memory it replaces), so commands are started by a small process.
_MEASURE = """\
import json, resource, subprocess, sys, time
start = time.perf_counter()
status = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
seconds = time.perf_counter() - start
print(json.dumps([status, seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss]))
"""


class CommandTiming(NamedTuple):
    """Wall-clock seconds and largest resident memory (MB, 10^6 bytes) of one command."""

    seconds: float
    peak_mb: float


class Quartiles(NamedTuple):
    """Median, first and third quartile of repeated measurements."""

    median: float
    q25: float
    q75: float

    @classmethod
    def of(cls, values: list[float]) -> "Quartiles":
        """Quartiles of at least one value."""
        low, middle, high = quantiles(
            values * 2 if len(values) == 1 else values, n=4, method="inclusive"
        )
        return cls(middle, low, high)


def time_command(command: list[str], folder: Path, environment: dict[str, str]) -> CommandTiming:
    """Run a command to its end in a folder.

    Raises:
        GeonodeError: the command failed; the message ends with its last line on stderr.
    """
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _MEASURE, *command],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    status, seconds, peak = json.loads(run.stdout or "[1, 0, 0]")  # nothing if it did not start
    if status:
        last = run.stderr.strip().splitlines()[-1:] or [f"exit status {status}"]
        raise GeonodeError(f"{' '.join(command)} failed: {last[0]}")
    unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss: bytes on macOS, else KiB
    return CommandTiming(seconds, peak * unit / 1e6)


def time_calls(
    call: Callable[[], object], repeats: int, synchronise: Callable[[], None]
) -> Quartiles:
    """Seconds of repeated calls, after one warm-up call.

    Args:
        call: function to time.
        repeats: number of calls.
        synchronise: waits until the device has finished.
    """
    call()
    synchronise()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        synchronise()
        seconds.append(time.perf_counter() - start)
    return Quartiles.of(seconds)
