"""Time and memory over the number of geodesics.

`python -m benchmarks.scaling` (`make scale`): all pairs of 100 stations of an untrained metric at
ever more wavelengths, with first velocity and all features, in tiles that are thrown away. The
prediction is the median time of a single tile, times their number.
"""

import math
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from statistics import median

import torch
import typer

from benchmarks.geometry import CPU, Table, markdown
from geonode.compute.device import one_thread
from geonode.compute.engine import LOCAL
from geonode.geometry.metric import SIZES, Metric
from geonode.geometry.panels import Panels
from geonode.geometry.perceptron import Perceptron
from geonode.progress import Progress, bar

STATIONS, COLUMNS, GAUSS_NODES = 100, 48, 3
PAIRS = STATIONS * (STATIONS - 1)
SINGLE_TILES = 15  # whose median predicts all
MOST = 1e9  # geodesics of the largest run


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


def run(columns: int) -> tuple[float, float]:
    """Seconds of all tiles, and the largest memory of the process (MB)."""
    memory: list[float] = []
    tiles = range(math.ceil(columns / COLUMNS))
    with bar(f"{PAIRS * columns:,} geodesics", len(tiles)) as report:
        start = time.perf_counter()
        LOCAL.work(partial(joining, columns), tiles, lambda _, one: memory.append(one), report)
        return time.perf_counter() - start, max(memory)


def alone(columns: int) -> tuple[float, float]:
    """Run in a process of its own, whose memory is that of this work."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(run, (columns,))


def study(most: float) -> Table:
    """All runs with their predictions.

    Args:
        most: geodesics of the largest run; from 1e5 on by tens.
    """
    a_column = median(run(COLUMNS)[0] for _ in range(SINGLE_TILES)) / COLUMNS
    table = []
    for power in range(5, round(math.log10(most)) + 1):
        columns = math.ceil(10**power / PAIRS)
        seconds, memory = alone(columns)
        table.append(
            {
                "geodesics": PAIRS * columns,
                "seconds": seconds,
                "predicted": columns * a_column,
                "predicted / measured": columns * a_column / seconds,
                "a second": PAIRS * columns / seconds,
                "MB": memory,
            }
        )
    return table


def main() -> None:
    """Time ever more geodesics, and compare with what a single tile predicts."""
    typer.echo(markdown(study(MOST)))


if __name__ == "__main__":
    typer.run(main)
