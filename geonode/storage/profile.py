"""Profile of torch operations, as a trace.

Hundreds of thousands of small operations per second make a trace of 200 MB per second, before it is
compressed, and need five times as much memory at the end of the recording. The recording therefore
ends after some seconds of processor time of all threads together.
"""

import gzip
import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from geonode.errors import ArtifactError
from geonode.machine import one_core
from geonode.storage.atomic import replacing

CPU_SECONDS = 2.0  # of recording
LOOK = 0.01  # seconds between checks of the processor time

# All activities: torch warns if one is left out, recorded or not.
_SWITCHED_OFF = (ProfilerActivity.CPU, ProfilerActivity.CUDA, ProfilerActivity.XPU)

_LOG = logging.getLogger(__name__)


@contextmanager
def profiled(path: Path, notify: Callable[[str], None]) -> Iterator[None]:
    """Context that records the torch operations of its body, in all threads, on one core.

    With more of them, models are trained in other processes. The body must end its threads. The
    profile is also written if the body fails, and the error of the body is raised.

    Args:
        path: file to replace with a compressed trace, for https://ui.perfetto.dev.
        notify: called with a message about the file.

    Raises:
        ArtifactError: the file cannot be written.
    """
    recording = _Recording()
    try:
        with one_core():
            yield
    except BaseException:
        try:
            recording.write(path, notify)
        except ArtifactError as error:
            _LOG.warning("no profile: %s", error)
        raise
    recording.write(path, notify)


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

    def write(self, path: Path, notify: Callable[[str], None]) -> None:
        """End the recording and write it."""
        self._ended.set()
        self._watcher.join()
        ended = time.perf_counter()
        self._profiler.stop()
        with replacing(path) as temporary:
            # torch would compress it itself, as hard as it can and five times as slowly
            trace = temporary.with_name("trace.json")
            self._profiler.export_chrome_trace(str(trace))
            with trace.open("rb") as source, gzip.open(temporary, "wb", compresslevel=1) as target:
                shutil.copyfileobj(source, target)
            trace.unlink()
        covered = f"profile of {(self._stopped or ended) - self._began:.2f} s"
        if self._stopped:
            covered += f", without the next {ended - self._stopped:.2f} s"
        notify(f"{covered} -> {path}")
