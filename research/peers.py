"""Geodesics by other solvers of differential equations and by geonode, at equal accuracy.

    pip install -e ".[peers]"
    taskset -c 0 python -m research.peers

The same boundary value problems (pair of stations, wavelength) of x'' = -G(x, w) x'^2 in float64,
on a metric that the pipeline has learned, in one process on one core, or on a GPU. Every solver
runs at the loosest setting of its ladder that reaches the same largest error over all rows; the
truth is quadrature of sqrt(g) on the network. Choosing the setting warms up and compiles, and is
not counted; then all solvers take turns, so that what else the machine does falls on all alike. A
solver that is not installed, or not for the device, is listed as such.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

import pandas as pd
import torch
import typer
from jaxtyping import Float
from torch import Tensor

from geonode.compute.device import resolve
from geonode.compute.threads import one_thread
from geonode.config import Parameters
from geonode.geometry.chebyshev import ChebyshevSource
from geonode.geometry.field import Field
from geonode.geometry.grid import uniform_nodes
from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.metric import Metric
from geonode.geometry.panels import Panels
from geonode.geometry.problem import BoundaryValueProblem
from geonode.geometry.solvers.closed_form import ClosedForm
from geonode.parameters_file import read_parameters
from geonode.progress import bar
from research.peer_solvers import (
    PEERS,
    Rows,
    collocate,
    in_jax,
    shoot,
    truth,
)
from stages.paths import METRIC, PARAMETERS
from stages.performance.timing import Quartiles

LEVELS = 6
NODES = 2000.0  # of a grid
TOLERANCES = tuple(10.0**-digits for digits in range(3, 11))
GAUSS_NODES = (2.0, 3.0, 4.0, 6.0, 8.0, 12.0)  # in every gap between levels
FAILURES = (AssertionError, ImportError, MemoryError, RuntimeError)  # of a package of others
SCIPY_SHARE = 307  # it solves one row in so many, as it takes milliseconds for each


@dataclass(frozen=True)
class Case:
    """All ordered pairs of stations at all wavelengths, and the truth about them."""

    by_grid: Callable[[float], Float[Tensor, "row"]]
    """First velocities from the network on, by a grid of so many nodes."""
    by_quadrature: Callable[[float], Float[Tensor, "row"]]
    """The same without a grid, with so many nodes in every gap."""
    rows: Rows  # on the network; wavelengths fastest
    velocity: Float[Tensor, "row"]  # x'(0)
    sensitivity: Float[Tensor, "row"]  # of x(1) to x'(0)

    @classmethod
    def of(cls, metric: Metric, wavelengths: int, parameters: Parameters) -> "Case":
        """Stations and wavelengths evenly spaced over the whole chart of a metric in float64."""
        place = metric.network.weights[0].device
        problem = BoundaryValueProblem.all_pairs(uniform_nodes(LEVELS, place, torch.float64))
        w = uniform_nodes(wavelengths, place, torch.float64)

        def by_grid(nodes: float) -> Tensor:
            source = ChebyshevSource.of(metric, w)
            grid = source.grid(0, uniform_nodes(int(nodes), place, torch.float64))
            return ClosedForm(grid).solve(problem, parameters.geodesics.tolerance).v0.flatten()

        def by_quadrature(nodes: float) -> Tensor:
            panels = Panels.between(problem.stations[None], int(nodes))
            return panels.evaluate(metric, w).stations()[0].every_path()[0].flatten()

        ends = (
            problem.stations[index].repeat_interleave(wavelengths)
            for index in (problem.source, problem.target)
        )
        every = w.repeat(len(problem.source))
        rows = Rows(Field(metric.at_rows, every), in_jax(metric), every, *ends)
        return cls(by_grid, by_quadrature, rows, *truth(rows))

    def error(self, v0: Float[Tensor, "part"], share: int = 1) -> float:
        """Largest miss of the ends to which first velocities lead, one row in so many (chart)."""
        misses = (v0 - self.velocity[::share]) * self.sensitivity[::share]
        return float(misses.abs().max())


@dataclass(frozen=True)
class Entry:
    """One line of the table: a solver, and what is known of it."""

    solver: str
    note: str
    """Names."""
    ladder: tuple[float, ...]  # settings, loosest first
    solve: Callable[[float], Float[Tensor, "part"]]
    """Solver from a setting to the first velocities of the rows."""
    share: int = 1  # one row in so many is solved, and seconds are multiplied by it
    setting: float | None = None  # that suffices; None if there is none
    error: float | None = None  # reached with it
    seconds: tuple[float, ...] = ()  # of every counted call

    def chosen(self, case: Case, error: float) -> "Entry":
        """The entry at its loosest setting that reaches the error, or why there is none."""
        least = float("inf")
        for setting in self.ladder:
            try:
                answer = self.solve(setting)
            except FAILURES as failure:
                reason = (str(failure).splitlines() or [type(failure).__name__])[0]
                return replace(self, note=f"failed: {reason}")
            reached = case.error(answer, self.share)
            if reached <= error:
                return replace(self, setting=setting, error=reached)
            least = min(least, reached)
        return replace(self, note=f"no setting suffices: best error {least:.1e}")

    def timed(self) -> "Entry":
        """The entry with one more counted call."""
        if self.setting is None:
            return self
        begin = time.perf_counter()
        self.solve(self.setting).cpu()  # which waits for a GPU
        seconds = self.share * (time.perf_counter() - begin)
        return replace(self, seconds=(*self.seconds, seconds))


def entries_of(case: Case, error: float) -> list[Entry]:
    """Every solver; the first is what others are compared with."""
    entries = [
        Entry("geonode", "grid", (NODES,), case.by_grid),
        Entry("geonode", "quadrature between levels", GAUSS_NODES, case.by_quadrature),
    ]
    for name, integrate in PEERS.items():
        by_peer = partial(shoot, integrate, case.rows, error)
        entries.append(Entry(name, "dopri5, exact Newton", TOLERANCES, by_peer))
    if case.rows.start.is_cpu:
        some = case.rows[torch.arange(0, len(case.velocity), SCIPY_SHARE)]
        entries.append(
            Entry(
                "scipy",
                f"solve_bvp, one row in {SCIPY_SHARE}, alone",
                TOLERANCES,
                lambda tolerance: collocate(some.field, some.start, some.end, tolerance)[0],
                SCIPY_SHARE,
            )
        )
    return entries


def take_turns(case: Case, entries: list[Entry], error: float, repeats: int) -> list[Entry]:
    """Choose every setting, then time all that suffice, one after the other, again and again."""
    with bar("peers", len(entries) * (1 + repeats)) as report:
        ready = []
        for entry in entries:
            ready.append(entry.chosen(case, error))
            report(1)
        for _ in range(repeats):
            for index, one in enumerate(ready):
                ready[index] = one.timed()
                report(1)
    return ready


def results(ready: list[Entry]) -> pd.DataFrame:
    """One line a solver, empty where it was not run; ratios are of medians, to the first solver."""
    reference = pd.Series(ready[0].seconds).median()
    table = [
        {
            "solver": one.solver,
            "setting": one.setting,
            "error": one.error,
            **dict(zip(("s", "q25", "q75"), Quartiles.of(list(one.seconds)), strict=True)),
            "ratio": pd.Series(one.seconds).median() / reference,
            "note": one.note,
        }
        if one.seconds
        else {"solver": one.solver, "note": one.note}
        for one in ready
    ]
    return pd.DataFrame(table)


def main(
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    wavelengths: Annotated[
        int, typer.Option(min=2, help="Number of wavelengths, 30 geodesics each.")
    ] = 601,
    error: Annotated[
        float, typer.Option(help="Largest miss of an end point (the chart is 2 wide).")
    ] = 1e-6,
    repeats: Annotated[int, typer.Option(min=1, help="Timed calls of every solver.")] = 5,
) -> None:
    """Time geodesics by torchdiffeq, torchode, diffrax, scipy and geonode at equal accuracy."""
    learned, parameters = LearnedMetrics.read(METRIC), read_parameters(PARAMETERS)
    here = resolve(device, parameters.precision)
    metric = learned.metric(here.reference)[len(learned.charts) - 1]  # of all levels
    with one_thread(), torch.no_grad():
        case = Case.of(metric, wavelengths, parameters)
        ready = take_turns(case, entries_of(case, error), error, repeats)
    about = f"{len(case.velocity):,} rows, largest error {error:g}, {repeats} turns"
    table = results(ready).to_string(index=False, na_rep="", float_format="{:.3g}".format)
    typer.echo(f"{about}\n\n{table}")


if __name__ == "__main__":
    typer.run(main)
