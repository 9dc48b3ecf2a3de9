"""Threads: an operation takes one, and independent parts of the work take the cores.

Matrices of a series are slower with several threads, the more so beside another job, and their last
digits would depend on the number of cores. Commands and stages set this once, in the environment
that torch and BLAS read at their import (`geonode.machine.ONE_THREAD`). What a program imports from
`geonode` sets it while it computes, by `one_thread`.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import cache
from threading import local
from typing import TypeVar

import torch
from threadpoolctl import ThreadpoolController

from geonode.machine import usable_cores
from geonode.progress import Progress, silent

Result = TypeVar("Result")
Item = TypeVar("Item")

MOST_THREADS = 4
"""Of `in_threads`. Of 16, each waits for the interpreter longer than it computes."""

_HERE = local()  # of this thread: whether it is one of several


@cache
def _blas() -> ThreadpoolController:
    # It looks through all libraries, for 5 ms.
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def one_thread() -> Iterator[None]:
    """Context, or decorator, in which an operation of torch or BLAS on the CPU takes one thread.

    Afterwards there are as many as before. Where another thread of the program has set one, it is
    that one who sets them back.
    """
    before = torch.get_num_threads()
    several = any(library["num_threads"] > 1 for library in _blas().info())
    torch.set_num_threads(1)
    try:
        with _blas().limit(limits=1) if several else nullcontext():
            yield
    finally:
        if before > 1:
            torch.set_num_threads(before)


def in_threads(
    work: Callable[[Item], Result], items: Iterable[Item], report: Progress = silent
) -> list[Result]:
    """Results of a function in the order of the items, computed by one thread a core.

    Inside of itself it takes one item at a time. Items are independent of each other; `report` is
    called after every one.
    """
    cores, found = min(MOST_THREADS, usable_cores()), list[Result]()
    alone = cores == 1 or hasattr(_HERE, "inside")  # handing an item to a thread takes time
    threads = None if alone else ThreadPoolExecutor(cores, "geonode", take_one_thread)
    with threads or nullcontext():
        for result in threads.map(work, items) if threads else map(work, items):
            found.append(result)
            report(1)
    return found


def take_one_thread() -> None:
    """Let this thread, one of several, start no more, nor products of matrices in it.

    Until a thread has asked torch for its number, MKL takes that of the whole process there.
    """
    _HERE.inside = True
    torch.get_num_threads()


def take_one_core() -> None:
    """Let this process take one thread from now on, as others use the other cores."""
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    _blas().limit(limits=1)
