"""Geodesics by other solvers of differential equations and by geonode, at equal accuracy.

    pip install -e ".[peers]"
    python -m benchmarks.peers --out peers.json

The same rows (pair of stations, wavelength) of x'' = -G(x, w) x'^2 in float64, in one process on
one core. Every solver runs at the loosest setting of its ladder that reaches the same largest error
over all rows; the truth is quadrature of sqrt(g) on the network. Choosing the setting warms up and
compiles, and is not counted; then all solvers take turns, so that what else the machine does falls
on all alike. A solver that is not installed is listed as such.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from jaxtyping import Float
from torch import Tensor

from benchmarks.geometry import CPU, NODES, Table, largest, markdown
from benchmarks.peer_solvers import (
    PEERS,
    Integrator,
    Peer,
    Rows,
    Symbol,
    in_batches,
    in_jax,
    one_core,
    shoot,
    truth,
)
from geonode.config import Parameters
from geonode.devices.device import environment, one_thread, resolve
from geonode.evaluation.timing import Quartiles
from geonode.geodesics.panels import Panels
from geonode.geodesics.problem import BoundaryValueProblem
from geonode.geodesics.solvers.closed_form import ClosedForm
from geonode.geodesics.solvers.methods import rows_of
from geonode.geodesics.stations import Stations
from geonode.geometry.field import NetworkField
from geonode.geometry.grid import Grid, uniform_nodes
from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.lookup import hermite
from geonode.geometry.metric import SIZES, Metric
from geonode.geometry.perceptron import Perceptron
from geonode.geometry.sources import grid_source
from geonode.parameters_file import read_parameters
from geonode.progress import bar
from geonode.storage.document import write_document
from stages.paths import METRIC, PARAMETERS

LEVELS = 6
SEED, GAIN = 0, 2.0  # of the network where none has been trained
TOLERANCES = tuple(10.0**-digits for digits in range(3, 11))
GAUSS_NODES = (2.0, 3.0, 4.0, 6.0, 8.0, 12.0)  # in every gap between levels
FEW_NODES = (6.0, 12.0, 25.0, 50.0, 100.0, 200.0, 400.0, 800.0)
RESAMPLES = 10_000
INITIAL, BOUNDARY = "initial value", "boundary value"


@dataclass(frozen=True)
class Entry:
    """One line of the table.

    Attributes:
        problem, solver, geometry, note: names.
        ladder: settings, loosest first, of what `setting` names; none if it cannot be run.
        solve: from a setting to the answer of every row.
        error: largest error of an answer, as a miss of the end point, chart units.
        compiled: what takes the place of `solve` once the setting is chosen.
    """

    problem: str
    solver: str
    geometry: str
    note: str
    setting: str
    ladder: tuple[float, ...]
    solve: Callable[[float], Float[Tensor, "row"]]
    error: Callable[[Float[Tensor, "row"]], float]
    compiled: Callable[[float], Float[Tensor, "row"]] | None = None


@dataclass(frozen=True)
class Ready:
    """An entry at the setting that suffices.

    Attributes:
        reached: its error; None if no setting suffices.
        warm_up: seconds of the first call at all, which imports and compiles.
        seconds: of every counted call.
    """

    entry: Entry
    value: float | None = None
    reached: float | None = None
    warm_up: float | None = None
    seconds: tuple[float, ...] = ()


def choose(entry: Entry, error: float) -> Ready:
    """The loosest setting that reaches the error, and why if there is none."""
    warm_up, least = None, float("inf")
    for value in entry.ladder:
        begin = time.perf_counter()
        try:
            answer = entry.solve(value)
        except (AssertionError, MemoryError, RuntimeError) as failure:  # of a package of others
            reason = (str(failure).splitlines() or [type(failure).__name__])[0]
            return Ready(replace(entry, note=f"failed: {reason}"))
        warm_up = warm_up or time.perf_counter() - begin
        reached = entry.error(answer)
        if reached <= error and entry.compiled is not None:
            faster = replace(entry, ladder=(value,), solve=entry.compiled, compiled=None)
            return choose(faster, error)
        if reached <= error:
            return Ready(entry, value, reached, warm_up)
        least = min(least, reached)
    if entry.ladder:
        entry = replace(entry, note=f"no setting suffices: best error {least:.1e}")
    return Ready(entry)


def take_turns(entries: list[Entry], error: float, repeats: int) -> list[Ready]:
    """Choose every setting, then time all that suffice, one after the other, again and again."""
    with bar("peers", len(entries) * (1 + repeats)) as report:
        ready = []
        for entry in entries:
            ready.append(choose(entry, error))
            report(1)
        for _ in range(repeats):
            for index, one in enumerate(ready):
                if one.value is not None:
                    begin = time.perf_counter()
                    one.entry.solve(one.value)
                    seconds = time.perf_counter() - begin
                    ready[index] = replace(one, seconds=(*one.seconds, seconds))
                report(1)
    return ready


@dataclass(frozen=True)
class Case:
    """All ordered pairs of stations at all wavelengths, and the truth about them.

    Attributes:
        symbol: G for jax.
        grid: of the same metric, at the nodes of the pipeline.
        make_grid: the same at any number of nodes, from the network on.
        make_stations: the same without a grid, with any number of nodes in every gap.
        rows: on the network; wavelengths fastest.
        velocity: x'(0).
        sensitivity: of x(1) to x'(0).
    """

    problem: BoundaryValueProblem
    symbol: Symbol
    grid: Grid
    make_grid: Callable[[int], Grid]
    make_stations: Callable[[int], Stations]
    rows: Rows
    velocity: Float[Tensor, "row"]
    sensitivity: Float[Tensor, "row"]

    @classmethod
    def of(cls, metric: Metric, wavelengths: int, parameters: Parameters) -> "Case":
        """Stations and wavelengths evenly spaced over the whole chart."""
        problem = BoundaryValueProblem.all_pairs(torch.linspace(-1, 1, LEVELS, dtype=torch.float64))
        w = torch.linspace(-1, 1, wavelengths, dtype=torch.float64)

        def make_grid(nodes: int) -> Grid:
            source = grid_source(parameters.christoffel, metric, w)
            return source.grid(0, uniform_nodes(nodes, CPU, torch.float64))

        def make_stations(nodes: int) -> Stations:
            panels = Panels.between(problem.stations[None], nodes)
            return panels.evaluate(metric, w).stations()[0]

        grid = make_grid(NODES)
        _, start, end = rows_of(ClosedForm(grid), problem)
        every = w.repeat(len(problem.source))
        rows = Rows(NetworkField(metric, every), every, start, end)
        known = truth(rows, wavelengths)
        return cls(problem, in_jax(metric), grid, make_grid, make_stations, rows, *known)

    def on_grid(self) -> Rows:
        """Rows read from the grid."""
        field, _, _ = rows_of(ClosedForm(self.grid), self.problem)
        return replace(self.rows, field=field)


def entries_of(case: Case, peers: tuple[Peer, ...], error: float) -> list[Entry]:
    """Every solver on both problems.

    The first on the network, and the first on the grid, is what others there are compared with.
    """
    return [
        entry
        for problem in (INITIAL, BOUNDARY)
        for entry in (
            *geonode_entries(case, problem, error),
            *(entry for peer in peers for entry in peer_entries(case, peer, problem, error)),
        )
    ]


def geonode_entries(case: Case, problem: str, error: float) -> Iterator[Entry]:
    """The closed form: from the network on, from a grid in memory, and on few nodes."""

    def solve(make: Callable[[int], Grid], nodes: float) -> Tensor:
        form = ClosedForm(make(int(nodes)))
        if problem == BOUNDARY:
            return form.solve(case.problem, error).v0.flatten()
        stations, source = case.problem.stations, case.problem.source
        columns = torch.arange(form.grid.log_sqrt.shape[1])
        root = torch.exp(hermite(form.grid, stations[None], columns)[0].T)[source]
        speed = case.velocity.reshape(root.shape) * root
        return form.arc_length.inverse(form.arc_length.at(stations)[source] + speed)[0].flatten()

    judge, default = error_of(case, problem), (float(NODES),)
    for geometry, note, make, ladder in (
        ("network", "expansion, grid, integral, solution", case.make_grid, default),
        ("network", "the same on as few nodes as suffice", case.make_grid, FEW_NODES),
        ("grid in memory", "integral, solution", lambda nodes: case.grid, default),  # noqa: ARG005
    ):
        solver, how = "geonode closed_form", partial(solve, make)
        yield Entry(problem, solver, geometry, note, "nodes", ladder, how, judge)
    if problem == BOUNDARY:
        yield Entry(
            problem,
            "geonode stations",
            "network",
            "quadrature between levels, solution with all features",
            "nodes",
            GAUSS_NODES,
            lambda nodes: case.make_stations(int(nodes)).every_path()[0].flatten(),
            judge,
        )


def peer_entries(case: Case, peer: Peer, problem: str, error: float) -> Iterator[Entry]:
    """A peer on the network, and on the grid if it can read it."""
    judge, why = error_of(case, problem), peer.missing()
    if why is None and peer.compiled and problem == BOUNDARY:
        why = "not run: it would be compiled for every number of rows under way"
    geometries = {"network": case.rows}
    if peer.on_grid:
        geometries["grid in memory"] = case.on_grid()

    def solver(make: Callable[[Symbol], Integrator], rows: Rows) -> Callable[[float], Tensor]:
        @cache  # and not before it is called: the package may be absent
        def made() -> Integrator:
            integrate = make(case.symbol)
            return in_batches(integrate) if rows is case.rows else integrate

        if problem == INITIAL:
            return lambda tolerance: made()(rows, case.velocity, tolerance)
        return lambda tolerance: shoot(made(), rows, tolerance, error)

    for geometry, rows in geometries.items():
        yield Entry(
            problem,
            peer.name,
            geometry,
            why or peer.note,
            "tolerance",
            () if why else TOLERANCES,
            solver(peer.make, rows),
            judge,
            solver(peer.compiled, rows) if peer.compiled else None,
        )


def error_of(case: Case, problem: str) -> Callable[[Float[Tensor, "row"]], float]:
    """Largest miss of the end points, or of those to which first velocities lead."""
    if problem == INITIAL:
        return lambda ends: largest(ends - case.rows.end)
    return lambda v0: largest((v0 - case.velocity) * case.sensitivity)


def ratio(
    seconds: tuple[float, ...], reference: tuple[float, ...]
) -> tuple[float, tuple[float, float]]:
    """Ratio of the medians of calls that took turns, and its 95% bootstrap interval.

    Turns are resampled, not calls, for a slow moment of the machine falls on both. Source: B. Efron
    and R. J. Tibshirani, An Introduction to the Bootstrap, 1993, section 13.3.
    """
    pairs = np.array([seconds, reference])
    turns = np.random.default_rng(0).integers(len(seconds), size=(RESAMPLES, len(seconds)))
    medians = np.median(pairs[:, turns], axis=2)
    low, high = np.quantile(medians[0] / medians[1], [0.025, 0.975])
    middle = np.median(pairs, axis=1)
    return float(middle[0] / middle[1]), (float(low), float(high))


def results(ready: list[Ready], rows: int) -> Table:
    """Results for the file: one line a solver, empty where it was not run."""
    reference = {(one.entry.problem, one.entry.geometry): one.seconds for one in reversed(ready)}
    table = []
    for one in ready:
        entry, measured = one.entry, bool(one.seconds)
        first = reference[entry.problem, entry.geometry]
        quartiles = Quartiles.of(list(one.seconds)) if measured else None
        times = ratio(one.seconds, first) if measured and first else None
        table.append(
            {
                "problem": entry.problem,
                "solver": entry.solver,
                "geometry": entry.geometry,
                entry.setting: one.value,
                "error": one.reached,
                "warm_up": one.warm_up,
                "seconds": quartiles and quartiles._asdict(),
                "rows_per_second": quartiles and rows / quartiles.median,
                "ratio": times and times[0],
                "ratio_interval": times and list(times[1]),
                "calls": list(one.seconds),
                "note": entry.note,
            }
        )
    return table


def shown(line: dict[str, Any]) -> dict[str, Any]:
    """A line of the file as one of the table."""
    named = {key: line[key] for key in ("problem", "solver", "geometry")}
    name = "nodes" if "nodes" in line else "tolerance"
    seconds, interval = line["seconds"], line["ratio_interval"]
    measured = {
        "setting": seconds and f"{name} {line[name]:g}",
        "error": line["error"],
        "warm-up s": line["warm_up"],
        "s (quartiles)": seconds and "{median:.3g} ({q25:.3g} to {q75:.3g})".format(**seconds),
        "rows a s": line["rows_per_second"],
        "ratio (95%)": interval and f"{line['ratio']:.3g} ({interval[0]:.3g} to {interval[1]:.3g})",
    }
    filled = {key: "" if value is None else value for key, value in measured.items()}
    return named | filled | {"note": line["note"]}


def metric_at_hand() -> tuple[Metric, str]:
    """The metric of all levels that the pipeline learned, or else an untrained one; and which."""
    if METRIC.exists():
        learned = LearnedMetrics.read(METRIC)
        return learned.metric(CPU)[len(learned.charts) - 1], f"{METRIC}, first member, last fold"
    network = Perceptron.initial(SIZES, [(SEED,)]).to(CPU, torch.float64)
    network = Perceptron(tuple(GAIN * weight for weight in network.weights), network.biases)
    return Metric(network), f"untrained, seed {SEED}, gain {GAIN:g}"


def main(
    wavelengths: Annotated[int, typer.Option(min=2, help="How many; 30 rows each.")] = 601,
    error: Annotated[float, typer.Option(help="Largest miss of any end, chart units.")] = 1e-6,
    repeats: Annotated[int, typer.Option(min=1, help="Counted calls of every solver.")] = 5,
    out: Annotated[Path | None, typer.Option(help="JSON file for everything measured.")] = None,
) -> None:
    """Time geodesics by torchdiffeq, torchode, diffrax and geonode at equal accuracy."""
    metric, name = metric_at_hand()
    parameters = read_parameters(PARAMETERS)
    with one_core() as pinned, one_thread(), torch.no_grad():
        case = Case.of(metric, wavelengths, parameters)
        rows = len(case.velocity)
        ready = take_turns(entries_of(case, PEERS, error), error, repeats)
        machine = environment(resolve("cpu", parameters.precision)) | {"one_core": pinned}
    table = results(ready, rows)
    packages = sorted({package for peer in PEERS for package in peer.packages} | {"torch"})
    sizes = {"levels": LEVELS, "wavelengths": wavelengths, "rows": rows, "repeats": repeats}
    typer.echo(f"{rows:,} rows, metric: {name}, largest error {error:g}, {repeats} turns\n")
    typer.echo(markdown([shown(line) for line in table]))
    if out is not None:
        versions = {package: version(package) for package in packages if find_spec(package)}
        about = {"machine": machine, "versions": versions, "metric": name, "sizes": sizes}
        write_document(out, about | {"error": error, "solvers": table})


if __name__ == "__main__":
    typer.run(main)
