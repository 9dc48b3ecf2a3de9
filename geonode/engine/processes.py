"""Independent jobs in several processes of this machine, yielded as they finish."""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from multiprocessing.context import BaseContext
from multiprocessing.queues import SimpleQueue
from threading import Thread, current_thread, main_thread
from typing import TypeVar

from threadpoolctl import threadpool_limits

from geonode.errors import EngineError
from geonode.observation.machine import usable_cores
from geonode.progress import Progress

Job = TypeVar("Job")
Found = TypeVar("Found")


MOST_ON_ACCELERATOR = 12
"""Processes that share an accelerator: each keeps about half a gigabyte of it for itself."""


def processes_for(jobs: int, device: str) -> int:
    """Number of processes for some jobs: as many as processor cores that may be used, or fewer.

    Args:
        jobs: their number.
        device: kind of the device that all of them use.
    """
    cores = usable_cores()
    most = cores if device == "cpu" else min(cores, MOST_ON_ACCELERATOR)
    return max(1, min(most, jobs))


def prepare(module: str) -> BaseContext:
    """Way to start the processes of `finished`, called early to gain time.

    On Linux they are forked from one process, which begins at once to import what they need. It
    uses neither threads nor devices of torch, as these do not survive a fork. Elsewhere every
    process starts anew.

    Args:
        module: module of the function that they are to run.
    """
    if sys.platform != "linux":
        return get_context("spawn")
    from multiprocessing import forkserver  # noqa: PLC0415 - not everywhere

    context = get_context("forkserver")
    context.set_forkserver_preload([module])
    if usable_cores() > 1:  # else there will be no other process
        with _not_interrupted():
            forkserver.ensure_running()
    return context


@contextmanager
def _not_interrupted() -> Iterator[None]:
    """Context in which processes are started that ignore Ctrl-C; only the main thread can do it."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def finished(
    work: Callable[[Job, Progress], Found],
    jobs: Sequence[Job],
    processes: int,
    report: Progress,
) -> Iterator[tuple[Job, Found]]:
    """Yield every job with its result, in the order in which they finish.

    Args:
        work: function of a module; it, the jobs and the results are pickled.
        jobs: jobs, started in this order.
        processes: number of processes, with one thread each; 1: this process.
        report: called with units of finished work of all jobs.

    Raises:
        EngineError: a process died.
        Exception: raised by `work`.
    """
    if processes == 1:
        for job in jobs:
            yield job, work(job, report)
        return
    context = prepare(work.__module__)
    units: SimpleQueue[int | None] = context.SimpleQueue()
    pool = ProcessPoolExecutor(processes, context, _begin, (units,))
    try:
        with _reported(units, report):
            running = {pool.submit(_work, work, job): job for job in jobs}
            for future in as_completed(running):
                yield running[future], future.result()
    except BrokenProcessPool as error:
        raise EngineError(
            "a worker process died, perhaps for want of memory; close other programs or allow "
            "fewer cores, and start again"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _reported(units: "SimpleQueue[int | None]", report: Progress) -> Iterator[None]:
    """Context in which progress that other processes put into a queue is reported."""

    def follow() -> None:
        while (done := units.get()) is not None:
            report(done)

    thread = Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        units.put(None)
        thread.join()


_UNITS: list["SimpleQueue[int | None]"] = []  # of a worker process: its queue for progress


def _begin(units: "SimpleQueue[int | None]") -> None:
    """Prepare a worker process: one thread, as other processes use the other cores."""
    import torch  # noqa: PLC0415 - only where there is work

    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it at once
    Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    threadpool_limits(1)
    _UNITS.append(units)


def _end_with_parent() -> None:
    """End this process when the one that waits for its results is killed."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _work(work: Callable[[Job, Progress], Found], job: Job) -> Found:
    return work(job, _UNITS[0].put)
