"""Time and memory over the number of geodesics, in one process and in several.

`python -m benchmarks.scaling` (`make scale`): all pairs of 100 stations of an untrained metric at
ever more wavelengths, with first velocity and all features, in tiles that are thrown away. The
prediction is the median time of a single tile, times their number, over the processes at work.
"""

import math
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch
import typer

from benchmarks.geometry import CPU, Table, markdown
from geonode.config import EngineParameters
from geonode.devices.device import one_thread
from geonode.engine.local import LOCAL, Engine, open_engine
from geonode.geodesics.panels import Panels
from geonode.geometry.metric import SIZES, Metric
from geonode.geometry.perceptron import Perceptron
from geonode.progress import Progress, bar

STATIONS, COLUMNS, GAUSS_NODES = 100, 48, 3
PAIRS = STATIONS * (STATIONS - 1)
SINGLE_TILES = 15  # whose median predicts all
MOST, OF_WORKERS = 1e9, 3e8  # geodesics of the largest run in one process, and of several
WORKERS = (1, 2, 4)


def joining(columns: int) -> Callable[[int, Progress], float]:
    """Function that joins all stations at the wavelengths of a tile, of so many in all.

    It returns the largest resident memory of its process until then (MB).
    """
    network = Perceptron.initial(SIZES, [(0,)]).to(CPU, torch.float64)
    metric, stations = Metric(network), torch.linspace(-1, 1, STATIONS, dtype=torch.float64)
    panels = Panels.between(stations[None], GAUSS_NODES)

    def join(tile: int, report: Progress) -> float:
        places = torch.arange(columns, dtype=torch.float64)[tile * COLUMNS :][:COLUMNS]
        with one_thread():
            panels.evaluate(metric, 2 * places / columns - 1).stations()[0].every_path()
        report(1)
        unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss: bytes on macOS, else KiB
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6

    return join


def run(engine: Engine, columns: int) -> tuple[float, float]:
    """Seconds of all tiles, and the largest memory of a process that worked (MB)."""
    memory: list[float] = []
    tiles = range(math.ceil(columns / COLUMNS))
    with bar(f"{PAIRS * columns:,} geodesics", len(tiles)) as report:
        start = time.perf_counter()
        engine.work(partial(joining, columns), tiles, lambda _, one: memory.append(one), report)
        return time.perf_counter() - start, max(memory)


def one_process(columns: int) -> tuple[float, float]:
    """Run in a process of its own, whose memory is that of this work."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(run, (LOCAL, columns))


@contextmanager
def cluster(workers: int) -> Iterator[Engine]:
    """A cluster of so many processes, in each of which a tile has been joined."""
    parameters = EngineParameters(kind="dask", scheduler=None, workers=workers)
    with TemporaryDirectory() as folder, open_engine(parameters, Path(folder)) as engine:
        run(engine, workers * COLUMNS)
        yield engine


def line(
    name: str, columns: int, measured: tuple[float, float], predicted: float
) -> dict[str, Any]:
    """One of the table."""
    seconds, memory = measured
    return {
        "processes": name,
        "geodesics": PAIRS * columns,
        "seconds": seconds,
        "predicted": predicted,
        "predicted / measured": predicted / seconds,
        "a second": PAIRS * columns / seconds,
        "MB a process": memory,
    }


def study(most: float, of_workers: float, workers: Sequence[int]) -> Table:
    """All runs with their predictions.

    Args:
        most: geodesics of the largest run in one process; from 1e5 on by tens.
        of_workers: geodesics of the runs with workers.
        workers: how many, in every such run.
    """
    a_column = median(run(LOCAL, COLUMNS)[0] for _ in range(SINGLE_TILES)) / COLUMNS
    table = []
    for power in range(5, round(math.log10(most)) + 1):
        columns = math.ceil(10**power / PAIRS)
        table.append(line("1", columns, one_process(columns), columns * a_column))
    columns = math.ceil(of_workers / PAIRS)
    for count in workers:
        with cluster(count) as engine:
            predicted = columns * a_column / min(count, os.cpu_count() or 1)
            table.append(line(f"{count} workers", columns, run(engine, columns), predicted))
    return table


def main() -> None:
    """Time ever more geodesics, and compare with what a single tile predicts."""
    typer.echo(markdown(study(MOST, OF_WORKERS, WORKERS)))


if __name__ == "__main__":
    typer.run(main)
