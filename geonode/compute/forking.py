"""Ways to start the processes of `geonode.compute.processes`, without its imports.

They are found before a command imports torch, so that other processes import it at the same time.
"""

import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.context import BaseContext
from threading import current_thread, main_thread

from geonode.config import EngineParameters
from geonode.machine import usable_cores

MOST_ON_ACCELERATOR = 12
"""Processes that share an accelerator: each keeps about half a gigabyte of it for itself."""

_LOG = logging.getLogger(__name__)


def processes_for(jobs: int, device: str) -> int:
    """Number of processes for some jobs: as many as processor cores that may be used, or fewer.

    Args:
        jobs: their number.
        device: kind of the device that all of them use.
    """
    cores = usable_cores()
    most = cores if device == "cpu" else min(cores, MOST_ON_ACCELERATOR)
    return max(1, min(most, jobs))


def processes_for_tiles(
    parameters: EngineParameters, device: str, *modules: str
) -> BaseContext | None:
    """Way to start the processes of a local engine; None: threads are as good or better.

    Threads that train wait for each other, as only one at a time runs Python. Elsewhere than on
    Linux processes would have to import torch anew.

    Args:
        parameters: the block `engine` of the parameters.
        device: kind of the device.
        modules: as for `prepare`.
    """
    alone = device != "cpu" or usable_cores() == 1 or sys.platform != "linux"
    return None if alone or parameters.kind != "local" else prepare(*modules)


def prepare(*modules: str) -> BaseContext:
    """Way to start the processes of `finished`, called early to gain time.

    On Linux they are forked from one process, which begins at once to import what they need. It
    uses neither threads nor devices of torch, as these do not survive a fork. Elsewhere every
    process starts anew.

    Args:
        modules: modules of what they are to run.
    """
    if sys.platform != "linux":
        return get_context("spawn")
    from multiprocessing import forkserver  # noqa: PLC0415 - not everywhere

    context = get_context("forkserver")
    context.set_forkserver_preload(list(modules))
    if usable_cores() == 1:  # there will be no other process
        return context
    try:
        with _not_interrupted():
            forkserver.ensure_running()
    except OSError as error:  # such as a path of the socket that is too long
        _LOG.warning("%s: every process imports torch anew; set TMPDIR to a short path", error)
        return get_context("spawn")
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
