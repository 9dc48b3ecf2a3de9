"""Recipes that a worker process can import."""

import os
import signal
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch

from geonode.errors import GeometryError


def squares(seconds=0.0):
    """Squares and the process that multiplied; as many units of work as the number."""

    def square(tile, report):
        time.sleep(seconds)
        for _ in range(tile):
            report(1)
        return tile**2, os.getpid()

    return square


def sums(opened):
    """Sum of a row of an array that was opened where this is called, and its type."""
    array = opened()
    return lambda tile, report: (float(array[tile].sum()), type(array).__name__)


def surroundings():
    """Threads, working folder, a setting of Dask that makes large arrays slow, and the process."""
    trim = os.environ.get("MALLOC_TRIM_THRESHOLD_")
    return lambda tile, report: (torch.get_num_threads(), Path.cwd(), trim, os.getpid())


def failing(bad, folder, seconds=0.05):
    """Fails at some tiles, the first of them last; the others last a while and leave a file."""

    def work(tile, report):
        if tile in bad:
            time.sleep(0.3 if tile == min(bad) else 0)
            raise GeometryError(f"tile {tile} is not well posed")
        time.sleep(seconds)
        (folder / str(tile)).touch()
        return tile

    return work


def slow(folder):
    """A tile is quick as long as the first one has not been done, and then takes a minute."""

    def work(tile, report):
        if (folder / "first").exists():
            (folder / f"slow-{os.getpid()}").touch()
            time.sleep(60)
            (folder / f"ended-{os.getpid()}").touch()
        if tile == 0:
            (folder / "first").touch()

    return work


def deadly():
    def work(tile, report):
        os.kill(os.getpid(), signal.SIGKILL)

    return work


# what every engine does with them


def assert_results_in_order_and_arrays_mapped(engine, cores=None):
    taken, reported, rows = [], [], []
    engine.work(squares, range(9), lambda *one: taken.append(one), reported.append, cores)
    engine.work(squares, [], taken.append)  # nothing to do
    shared = engine.shared(np.arange(12.0).reshape(3, 4))
    engine.work(partial(sums, shared), range(3), lambda _, row: rows.append(row), cores=cores)
    assert [(tile, square) for tile, (square, _) in taken] == [(n, n * n) for n in range(9)]
    assert sum(reported) == sum(range(9))
    assert rows == [(6.0, "memmap"), (22.0, "memmap"), (38.0, "memmap")]
    return {process for _, (_, process) in taken}
