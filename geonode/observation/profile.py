"""Profile of torch operations: a trace, and a table of the costliest operations.

Hundreds of thousands of small operations per second make a trace of 200 MB per second and need five
times as much memory at the end of the recording. The recording therefore ends after some seconds of
processor time of all threads together, and the table says what it covers.
"""

import gzip
import json
import logging
import shutil
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

from geonode.errors import ArtifactError
from geonode.storage.atomic import replacing

CPU_SECONDS = 2.0  # of recording
LOOK = 0.01  # seconds between checks of the processor time
LARGE = 10_000_000  # bytes; larger traces are compressed
COSTLIEST = 10
NAME = 120  # characters of a name; kernels have names of a thousand

# Places of the events of a trace by category; other categories are no operations.
_PLACES = {
    **dict.fromkeys(("cpu_op", "user_annotation", "cuda_runtime", "cuda_driver"), "host"),
    **dict.fromkeys(("kernel", "gpu_memcpy", "gpu_memset"), "device"),
}

# All activities: torch warns if one is left out, recorded or not.
_SWITCHED_OFF = (ProfilerActivity.CPU, ProfilerActivity.CUDA, ProfilerActivity.XPU)

_TRACE, _TABLE = "trace.json", "operations.txt"
_WRITTEN = (_TRACE, f"{_TRACE}.gz", _TABLE)
_LOG = logging.getLogger(__name__)


class Event(NamedTuple):
    """Call of an operation, on a thread of the host or a stream of a device (microseconds)."""

    place: str
    track: str
    begin: float
    end: float
    name: str


@dataclass
class _Cost:
    """Calls of an operation, and their time without and with nested calls (microseconds)."""

    calls: int = 0
    own: float = 0.0
    total: float = 0.0


@contextmanager
def profiled(folder: Path, notify: Callable[[str], None]) -> Iterator[None]:
    """Context that records the torch operations of its body, in all threads.

    The body must end its threads. The profile is also written if the body fails, and the error of
    the body is raised.

    Args:
        folder: folder to replace. It gets `trace.json`, for https://ui.perfetto.dev, or
            `trace.json.gz` if that is large, and `operations.txt`, the costliest operations.
        notify: called with a message about the written files.

    Raises:
        ArtifactError: the folder cannot be written, or holds other files.
    """
    for found in sorted(folder.iterdir()) if folder.is_dir() else ():
        if found.name not in _WRITTEN:
            raise ArtifactError(
                f"{folder}: found {found.name[:40]!r}, expected no folder or a profile; move it"
            )
    recording = _Recording()
    try:
        yield
    except BaseException:
        try:
            recording.write(folder, notify)
        except ArtifactError as error:
            _LOG.warning("no profile: %s", error)
        raise
    recording.write(folder, notify)


class _Recording:
    """Profiler that stops after a limit of processor time."""

    def __init__(self) -> None:
        activities = [ProfilerActivity.CPU]
        if torch.cuda.is_available():
            activities.append(ProfilerActivity.CUDA)
        # By default only the starting thread is profiled, and models are trained in others.
        every = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
        self._profiler = profile(activities=activities, experimental_config=every)
        self._profiler.start()
        self._began, self._stopped = time.perf_counter(), 0.0
        self._limit = time.process_time() + CPU_SECONDS
        self._ended = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def _watch(self) -> None:
        while not self._ended.wait(LOOK):
            if time.process_time() >= self._limit:
                # Not `stop`, which frees memory that running operations write to.
                self._profiler.toggle_collection_dynamic(False, _SWITCHED_OFF)
                self._stopped = time.perf_counter()
                return

    def write(self, folder: Path, notify: Callable[[str], None]) -> None:
        """End the recording and write it."""
        self._ended.set()
        self._watcher.join()
        ended = time.perf_counter()
        self._profiler.stop()
        with replacing(folder) as temporary:
            temporary.mkdir()
            trace, table = temporary / _TRACE, temporary / _TABLE
            self._profiler.export_chrome_trace(str(trace))
            events = read_events(trace)
            table.write_text(
                self._covered(ended, len(events)) + operations(events), encoding="utf-8"
            )
            if trace.stat().st_size > LARGE:
                trace = _compressed(trace)
        notify(f"profile of {len(events):,} calls -> {folder / table.name}, {trace.name}")

    def _covered(self, ended: float, count: int) -> str:
        seconds = (self._stopped or ended) - self._began
        text = f"{count:,} calls of operations of torch, in all threads, in {seconds:.2f} s"
        if self._stopped:
            text += (
                f": the first {CPU_SECONDS:g} s of processor time. Those of the next "
                f"{ended - self._stopped:.2f} s were not recorded; a smaller run shows all."
            )
        return f"{text}\nOnly operations of torch are recorded.\n"


def read_events(trace: Path) -> list[Event]:
    """Operations of a Chrome trace written by torch.

    Raises:
        ArtifactError: the file is incomplete.
    """
    try:
        with trace.open(encoding="utf-8") as file:
            content = json.load(file, object_hook=_event)
    except ValueError as error:
        raise ArtifactError(f"{trace}: torch wrote no whole trace; is the disk full?") from error
    return [event for event in content if event is not None]


def _event(content: dict[str, Any]) -> list[Event | None] | Event | None:
    """Event of a JSON object; of other objects nothing is kept, to save memory."""
    if "traceEvents" in content:
        return content["traceEvents"]
    place = _PLACES.get(content.get("cat", ""))
    if place is None:
        return None
    begin, name = content["ts"], sys.intern(content["name"])
    track = sys.intern(f"{content['pid']}/{content['tid']}")
    return Event(place, track, begin, begin + content["dur"], name)


def _compressed(trace: Path) -> Path:
    smaller = trace.with_name(f"{trace.name}.gz")
    with trace.open("rb") as source, gzip.open(smaller, "wb", compresslevel=1) as target:
        shutil.copyfileobj(source, target)
    trace.unlink()
    return smaller


def operations(events: list[Event]) -> str:
    """Tables of the costliest operations by their own time, on the host and on the device."""
    text = ""
    for place in ("host", "device"):
        costs = _costs([event for event in events if event.place == place])
        whole = sum(cost.own for cost in costs.values())
        if whole == 0:
            continue
        text += f"\n{place}, {whole / 1e3:.3f} ms\n"
        text += f"{'self ms':>12} {'share':>7} {'total ms':>12} {'calls':>10}  operation\n"
        for name in sorted(costs, key=lambda name: -costs[name].own)[:COSTLIEST]:
            cost = costs[name]
            text += f"{cost.own / 1e3:12.3f} {cost.own / whole:7.1%} {cost.total / 1e3:12.3f} "
            text += f"{cost.calls:10,}  {name[:NAME]}\n"
    return text


def _costs(events: list[Event]) -> dict[str, _Cost]:
    """Costs by operation.

    On the host, an event that begins within another of its thread was called by it. Kernels call
    nothing; they overlap only by the rounding of their times.
    """
    costs: dict[str, _Cost] = defaultdict(_Cost)
    ordered = sorted(events, key=lambda event: (event.track, event.begin, -event.end))
    for _, of_track in groupby(ordered, key=attrgetter("track")):
        callers: list[Event] = []
        for event in of_track:
            while callers and callers[-1].end <= event.begin:
                callers.pop()
            duration = event.end - event.begin
            if callers:
                costs[callers[-1].name].own -= min(event.end, callers[-1].end) - event.begin
            cost = costs[event.name]
            cost.calls += 1
            cost.own += duration
            if all(event.name != caller.name for caller in callers):
                cost.total += duration
            if event.place == "host":
                callers.append(event)
    return costs
