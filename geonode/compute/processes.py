"""Independent work in several processes: jobs as they finish, and the engine of the parameters."""

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import cache, partial
from importlib.util import find_spec
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.connection import Connection
from multiprocessing.forkserver import ensure_running
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from geonode.compute.engine import LOCAL, Engine, Found, Recipe, Tile, itself
from geonode.config import EngineParameters
from geonode.errors import EngineError, remedy
from geonode.machine import usable_cores
from geonode.progress import Progress, silent
from geonode.storage.atomic import scratch_folder
from geonode.terminal import log_to_stderr
from geonode.usage import WORKERS

MOST_ON_ACCELERATOR = 12
"""Processes that share an accelerator: each keeps about half a gigabyte of it for itself."""


def processes_for(jobs: int, device: str) -> int:
    """Number of processes for some jobs: one for every usable core, or fewer.

    All jobs use one kind of device.
    """
    cores = usable_cores()
    most = cores if device == "cpu" else min(cores, MOST_ON_ACCELERATOR)
    return max(1, min(most, jobs))


def import_early(module: str) -> None:
    """Start the process that workers are forked from, which imports a module beside this one.

    Raises:
        EngineError: it cannot be started.
    """
    if sys.platform == "linux" and usable_cores() > 1:
        get_context("forkserver").set_forkserver_preload([module])
        with _starting():
            ensure_running()


def finished(
    work: Callable[[Tile, Progress], Found],
    jobs: Iterable[Tile],
    processes: int,
    report: Progress,
) -> Iterator[tuple[Tile, Found]]:
    """Yield every job with its result, in the order in which they finish.

    Args:
        work: function of a module; it, the jobs and the results are pickled.
        jobs: jobs, started in this order. They may be computed while those before them run.
        processes: number of processes, with one thread each; 1: this process.
        report: called with units of finished work of all jobs.

    Raises:
        EngineError: a process died, or none can be started.
        Exception: raised by `work`.
    """
    if processes == 1:
        for job in jobs:
            yield job, work(job, report)
        return
    with _pool(partial(itself, work), work.__module__, processes, report) as submit:
        running: dict[Future[Found], Tile] = {}
        for job in jobs:
            running[submit(job)] = job
            for future in [one for one in running if one.done()]:
                yield running.pop(future), future.result()
        for future in as_completed(running):
            yield running[future], future.result()


class Processes(Engine):
    """Engine that runs tiles in processes of this machine, with one thread each."""

    def work(
        self,
        recipe: Recipe[Tile, Found],
        tiles: Sequence[Tile],
        take: Callable[[Tile, Found], object],
        report: Progress = silent,
        cores: int | None = None,
    ) -> None:
        """Run every tile, see `Engine`; a single one in this process."""
        processes = min(cores or 1, len(tiles))
        if processes <= 1:
            super().work(recipe, tiles, take, report, cores)
            return
        function: Any = recipe
        while isinstance(function, partial):
            function = function.args[0] if function.func is partial else function.func
        with _pool(recipe, function.__module__, processes, report) as submit:
            for tile, future in [(tile, submit(tile)) for tile in tiles]:
                take(tile, future.result())


@contextmanager
def open_engine(
    parameters: EngineParameters, scratch: Path, *, processes: bool = False
) -> Iterator[Engine]:
    """Context with the engine of the block `engine`.

    Args:
        parameters: the block `engine` of the parameters.
        scratch: path for `scratch_folder`, for files that several processes share.
        processes: whether a local engine has processes instead of threads. Training on a CPU needs
            them, as only one thread at a time runs Python.

    Raises:
        EngineError: Dask is not installed, or the cluster does not answer.
        ArtifactError: the folder cannot be made, or another process uses it.
    """
    if parameters.kind == "dask":
        if find_spec("distributed") is None:
            raise EngineError(
                "engine.kind dask: found no package distributed; "
                'pip install "geonode-spectra[cluster]"'
            )
        from geonode.compute.cluster import open_cluster  # noqa: PLC0415 - it needs Dask

        with open_cluster(parameters.scheduler, parameters.workers, scratch) as engine:
            yield engine
    elif processes and usable_cores() > 1:
        with scratch_folder(scratch) as folder:
            yield Processes(folder)
    else:
        yield LOCAL


@contextmanager
def _pool(
    recipe: Recipe[Any, Any], module: str, processes: int, report: Progress
) -> Iterator[Callable[[Any], Future[Any]]]:
    """Context with a function that starts a job; when it ends, also by an error, all have ended."""
    # On Linux they are forked from one process that has imported the module of their work. That one
    # uses neither threads nor devices of torch, which no fork survives.
    context = get_context("forkserver" if sys.platform == "linux" else "spawn")
    context.set_forkserver_preload([module])
    level = logging.getLogger("geonode").level
    with _starting():
        # Not a queue, whose lock would stay locked if its owner died.
        units, given = context.Pipe(duplex=False)
        pool = ProcessPoolExecutor(processes, context, _begin, (recipe, given, level))

    def submit(job: Any) -> Future[Any]:
        with _starting():
            future = pool.submit(_work, job)
        WORKERS.running = frozenset(child.pid for child in active_children() if child.pid)
        return future

    follower = Thread(target=_follow, args=(units, report), daemon=True)
    follower.start()
    others = active_children()
    try:
        yield submit
    except BaseException as error:
        # A pool that broke, or was interrupted, while it started a process waits for it for ever.
        for process in active_children():
            if process not in others:
                process.kill()
        if not isinstance(error, BrokenProcessPool):
            raise
        raise EngineError(
            "a worker process died, perhaps for want of memory or of open files; close other "
            "programs, raise `ulimit -n` or allow fewer cores, and start again"
        ) from error
    finally:
        WORKERS.end()
        pool.shutdown(cancel_futures=True)
        given.close()  # the last end that could be written to
        follower.join()


@contextmanager
def _starting() -> Iterator[None]:
    """Context in which processes may start, and a refusal of the system is an error."""
    try:
        yield
    except OSError as error:
        raise EngineError(
            f"processes cannot be started: {error}"
            f"{remedy(error) or '; mount /dev/shm and set TMPDIR to a short path'}; or use one "
            "core: taskset -c 0"
        ) from error


def _follow(units: Connection, report: Progress) -> None:
    """Report units of finished work until all processes have ended."""
    with units, suppress(EOFError):
        while True:
            report(units.recv())


_WORK: list[Callable[[Any], Any]] = []  # of a worker process: its only function of a job or tile


def _begin(recipe: Recipe[Any, Any], units: Connection, level: int) -> None:
    """Prepare a worker process: one thread, as other processes use the other cores."""
    from geonode.compute.threads import take_one_core  # noqa: PLC0415 - it imports torch

    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it at once
    Thread(target=_end_with_parent, daemon=True).start()
    take_one_core()
    if level != logging.NOTSET:  # else the program of the user decides what is logged
        log_to_stderr(level)
    one_at_a_time = Lock()

    def report(done: int) -> None:
        with one_at_a_time:  # of this process; so few bytes are not mixed with those of others
            units.send(done)

    followed = cache(recipe)  # called by the first job, whose error it may be
    _WORK.append(lambda job: followed()(job, report))


def _end_with_parent() -> None:
    """End this process when the one that waits for its results is killed."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _work(job: Any) -> Any:
    return _WORK[0](job)
