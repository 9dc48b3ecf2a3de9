"""Time and memory over the number of geodesics, in one process and in several.

`python -m benchmarks.scaling --out scaling.json` (`make scale`): all pairs of 100 stations of an
untrained metric at ever more wavelengths, with first velocity and all features, in tiles that are
thrown away. A model with constants that are taken from single tiles beforehand predicts every time:

    seconds = start + first rows * seconds a fresh row
        + (tiles * overhead + rows * seconds a row) / cores at work + tiles * seconds a task

Overhead is what a tile of one wavelength takes, seconds a row are what a whole tile takes beyond
that. Start and fresh rows are what the first tile of a new process takes beyond a later one, of one
wavelength and of all: its memory is new. Tasks are those of Dask, from tiles without work.
"""

import math
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated, Any, NamedTuple

import torch
import typer

from benchmarks.geometry import CPU, Table, markdown
from geonode.config import EngineParameters
from geonode.devices.device import environment, one_thread, resolve
from geonode.engine.local import LOCAL, Engine, open_engine
from geonode.geodesics.panels import Panels
from geonode.geometry.metric import SIZES, Metric
from geonode.geometry.perceptron import Perceptron
from geonode.parameters_file import read_parameters
from geonode.progress import Progress, bar
from geonode.storage.document import write_document

PARAMETERS = Path("params.yaml")
STATIONS, COLUMNS, GAUSS_NODES = 100, 48, 3
PAIRS = STATIONS * (STATIONS - 1)
BYTES_PER_ROW = 6 * 8  # written: first velocity and five features
OPERATIONS_PER_ROW = 5
CALIBRATIONS = 15  # single tiles of either size
STARTS = 3  # processes whose first tile is timed


class Tile(NamedTuple):
    """Some of the wavelengths, counted from the first; none is a tile without work."""

    first: int
    columns: int


class Found(NamedTuple):
    """What there is to say of a tile."""

    rows: int
    sum_of_v0: float
    resident_mb: float


def joined(columns: int) -> Callable[[Tile, Progress], Found]:
    """Joins all stations at the wavelengths of a tile, of so many in all."""
    network = Perceptron.initial(SIZES, [(0,)]).to(CPU, torch.float64)
    metric, stations = Metric(network), torch.linspace(-1, 1, STATIONS, dtype=torch.float64)
    panels = Panels.between(stations[None], GAUSS_NODES)

    def join(tile: Tile, report: Progress) -> Found:
        rows, total = PAIRS * tile.columns, 0.0
        if tile.columns:
            places = torch.arange(tile.first, tile.first + tile.columns, dtype=torch.float64)
            wavelengths = 2 * places / max(columns - 1, 1) - 1
            with one_thread():
                known = panels.evaluate(metric, wavelengths).stations()[0]
                total = float(known.every_path()[0].sum())
        report(1)
        return Found(rows, total, _peak_mb())

    return join


def tiles_of(columns: int) -> list[Tile]:
    """Tiles of `COLUMNS` wavelengths, the last one of what is left."""
    firsts = range(0, columns, COLUMNS)
    return [Tile(first, min(COLUMNS, columns - first)) for first in firsts]


class Costs(NamedTuple):
    """Constants of the model, in seconds."""

    tile: float
    row: float
    task: float = 0.0
    start: float = 0.0
    fresh_row: float = 0.0

    @classmethod
    def measured(cls) -> "Costs":
        """From single tiles in this process."""
        join = joined(COLUMNS)

        def seconds(tile: Tile) -> float:
            taken = []
            for _ in range(CALIBRATIONS):
                start = time.perf_counter()
                join(tile, lambda _: None)
                taken.append(time.perf_counter() - start)
            return median(taken)

        narrow, whole = seconds(Tile(0, 1)), seconds(Tile(0, COLUMNS))
        more = PAIRS * (COLUMNS - 1)
        row = (whole - narrow) / more
        once, all_once = (
            median(one_process(columns)[0] for _ in range(STARTS)) for columns in (1, COLUMNS)
        )
        fresh = max((all_once - once) / more - row, 0.0)
        return cls(narrow - PAIRS * row, row, 0.0, max(once - narrow - PAIRS * fresh, 0.0), fresh)

    def predict(self, columns: int, cores: int = 1) -> float:
        """Seconds for so many wavelengths."""
        tiles = len(tiles_of(columns))
        first = self.start + PAIRS * min(columns, COLUMNS) * self.fresh_row
        work = tiles * self.tile + PAIRS * columns * self.row
        return first + tiles * self.task + work / cores


def run(engine: Engine, tiles: list[Tile], columns: int) -> tuple[float, int, float]:
    """Seconds and rows of all tiles, and the largest memory of a process that worked (MB)."""
    found: list[Found] = []
    with bar(f"{PAIRS * columns:,} geodesics", len(tiles)) as report:
        start = time.perf_counter()
        engine.work(partial(joined, columns), tiles, lambda _, one: found.append(one), report)
        seconds = time.perf_counter() - start
    return seconds, sum(one.rows for one in found), max(one.resident_mb for one in found)


def one_process(columns: int) -> tuple[float, int, float]:
    """Run in a process of its own, whose memory is that of this work."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(run, (LOCAL, tiles_of(columns), columns))


@contextmanager
def workers(count: int) -> Iterator[tuple[Engine, float]]:
    """A cluster of so many processes, and the seconds that one of its tasks costs."""
    parameters = EngineParameters(kind="dask", scheduler=None, workers=count)
    with TemporaryDirectory() as folder, open_engine(parameters, Path(folder)) as engine:
        run(engine, [Tile(0, 1)] * count, COLUMNS)  # what every process does once
        idle = [Tile(0, 0)] * 200
        yield engine, run(engine, idle, COLUMNS)[0] / len(idle)


def line(
    name: str, columns: int, measured: tuple[float, int, float], predicted: float
) -> dict[str, Any]:
    """One of the file and of the table."""
    seconds, rows, memory = measured
    return {
        "processes": name,
        "geodesics": rows,
        "tiles": len(tiles_of(columns)),
        "seconds": seconds,
        "predicted": predicted,
        "predicted / measured": predicted / seconds,
        "a second": rows / seconds,
        "MB a process": memory,
    }


def study(most: float, of_workers: float, counts: list[int], cores: int) -> tuple[Costs, Table]:
    """Constants, and all runs with their predictions.

    Args:
        most: geodesics of the largest run in one process; from 1e5 on by tens.
        of_workers: geodesics of the runs with workers.
        counts: of workers.
        cores: of the machine.
    """
    costs, table = Costs.measured(), []
    for power in range(5, round(math.log10(most)) + 1):
        columns = math.ceil(10**power / PAIRS)
        table.append(line("1", columns, one_process(columns), costs.predict(columns)))
    columns = math.ceil(of_workers / PAIRS)
    for count in counts:
        with workers(count) as (engine, task):
            warm = costs._replace(task=task, start=0.0, fresh_row=0.0)
            told = warm.predict(columns, min(count, cores))
            measured = run(engine, tiles_of(columns), columns)
            table.append(line(f"{count} workers", columns, measured, told))
    return costs, table


def _peak_mb() -> float:
    unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss: bytes on macOS, else KiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def main(
    most: Annotated[float, typer.Option(help="Geodesics of the largest run.")] = 1e9,
    of_workers: Annotated[float, typer.Option(help="Geodesics of the runs with workers.")] = 3e8,
    counts: Annotated[str, typer.Option(help="Of workers, with commas between.")] = "1,2,4",
    out: Annotated[Path | None, typer.Option(help="JSON file for everything measured.")] = None,
) -> None:
    """Time ever more geodesics, and compare with what a model predicts."""
    machine = environment(resolve("cpu", read_parameters(PARAMETERS).precision))
    chosen = [int(count) for count in counts.split(",") if count]
    with one_thread():
        costs, table = study(most, of_workers, chosen, machine["cores"])
    typer.echo(f"seconds a tile {costs.tile:.2e}, a row {costs.row:.2e}\n")
    typer.echo(markdown(table))
    if out is not None:
        write_document(out, {"machine": machine, "costs": costs._asdict(), "runs": table})


if __name__ == "__main__":
    typer.run(main)
