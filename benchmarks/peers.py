"""Geodesics by other solvers of differential equations and by geonode, at equal accuracy.

    pip install -e ".[peers]"
    python -m benchmarks.peers --out peers.json

The same rows (pair of stations, wavelength) of x'' = -G(x, w) x'^2 in float64, in one process on
one core. Every solver runs at the loosest setting of its ladder that reaches the same largest error
over all rows; the truth is quadrature of sqrt(g) on the network. Choosing the setting warms up and
compiles, and is not counted; then all solvers take turns, so that what else the machine does falls
on all alike. A solver that is not installed is listed as such.
"""

import math
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from jaxtyping import Float, Int
from torch import Tensor
from torchdiffeq import odeint

from benchmarks.geometry import CPU, NODES, Table, largest, markdown
from geonode.config import Parameters
from geonode.devices.device import environment, one_thread, resolve
from geonode.evaluation.timing import Quartiles
from geonode.geodesics.expanded import expanded_stations
from geonode.geodesics.problem import BoundaryValueProblem
from geonode.geodesics.quadrature import initial_velocity
from geonode.geodesics.solvers.closed_form import ClosedForm
from geonode.geodesics.solvers.methods import rows_of
from geonode.geodesics.solvers.shooting import GUESS
from geonode.geodesics.stations import Stations
from geonode.geometry.field import Field, NetworkField
from geonode.geometry.grid import Grid, uniform_nodes
from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.lookup import hermite
from geonode.geometry.metric import FLOOR, SIZES, Metric
from geonode.geometry.perceptron import Perceptron
from geonode.geometry.sources import ChebyshevSource, grid_source
from geonode.parameters_file import read_parameters
from geonode.progress import bar
from geonode.storage.document import write_document
from stages.paths import METRIC, PARAMETERS

LEVELS = 6
SEED, GAIN = 0, 2.0  # of the network where none has been trained
TOLERANCES = tuple(10.0**-digits for digits in range(3, 11))
GAUSS_NODES = 8  # in every gap between levels
FEW_NODES = (6.0, 12.0, 25.0, 50.0, 100.0, 200.0, 400.0, 800.0)
SHOTS = 8
BATCH = 2000  # rows on the network at once: more of them no longer fit in cache
RESAMPLES = 10_000
INITIAL, BOUNDARY = "initial value", "boundary value"

Symbol = Callable[[Any, Any], Any]
"""G of one position and one wavelength, scalars of jax."""


@dataclass(frozen=True)
class Rows:
    """Boundary value problems, one a row, and their geometry.

    Attributes:
        field: ln sqrt(g) and G, for solvers in torch.
        wavelengths: chart units, for solvers in jax.
        start, end: chart positions.
    """

    field: Field
    wavelengths: Float[Tensor, "row"]
    start: Float[Tensor, "row"]
    end: Float[Tensor, "row"]

    def __getitem__(self, chosen: Int[Tensor, "chosen"]) -> "Rows":
        """Some of the rows."""
        parts = (self.wavelengths, self.start, self.end)
        return Rows(self.field[chosen], *(part[chosen] for part in parts))


Integrator = Callable[[Rows, Float[Tensor, "row"], float], Float[Tensor, "row"]]
"""(rows, first velocities, tolerance) to x(1); NaN where the solver gave up."""


@dataclass(frozen=True)
class Peer:
    """A solver of others.

    Attributes:
        name: package and method.
        packages: what must be installed.
        make: the integrator, from G for jax.
        on_grid: whether it can read geonode's grid too, being in torch.
        note: how it is used.
        compiled: the integrator for timing, which a C++ compiler makes anew for every tolerance and
            number of rows: so the tolerance is chosen without, and nothing is shot with it.
    """

    name: str
    packages: tuple[str, ...]
    make: Callable[[Symbol], Integrator]
    on_grid: bool
    note: str
    compiled: Callable[[Symbol], Integrator] | None = None

    def missing(self) -> str | None:
        """Why it cannot be run here."""
        absent = [name for name in self.packages if find_spec(name) is None]
        if absent:
            return f"not installed: {', '.join(absent)}"
        if self.compiled and not (shutil.which("c++") or shutil.which("g++")):
            return "not run: no C++ compiler"
        return None


def by_torchdiffeq(symbol: Symbol) -> Integrator:  # noqa: ARG001 - torch has the field
    """Dormand and Prince; rows given together share steps, and the worst of them decides."""

    def integrate(rows: Rows, velocity: Tensor, tolerance: float) -> Tensor:
        def equation(time: Tensor, state: Tensor) -> Tensor:  # noqa: ARG001
            position, speed = state
            return torch.stack([speed, -rows.field(position[:, None])[1][:, 0] * speed.square()])

        times = torch.tensor([0.0, 1.0], dtype=torch.float64)
        options = {"norm": lambda errors: errors.abs().max(), "step_t": times[-1:]}
        how: dict[str, Any] = {"rtol": tolerance, "atol": tolerance, "options": options}
        path = odeint(equation, torch.stack([rows.start, velocity]), times, method="dopri5", **how)
        end: Tensor = path[-1, 0]
        return end

    return integrate


def by_torchode(method: str, compiled: bool, symbol: Symbol) -> Integrator:  # noqa: ARG001
    """One batch in which every row takes its own steps."""
    import torchode  # noqa: PLC0415 - optional

    @cache
    def solver(tolerance: float) -> Callable[..., Any]:
        # compiling makes a constant of the tolerance, and nothing of the solver as a module, which
        # has no forward
        controller = torchode.IntegralController(atol=tolerance, rtol=tolerance)
        made = torchode.AutoDiffAdjoint(getattr(torchode, method)(), controller)
        solve: Callable[..., Any] = made.to(torch.float64).solve
        return torch.compile(solve) if compiled else solve

    def integrate(rows: Rows, velocity: Tensor, tolerance: float) -> Tensor:
        def equation(time: Tensor, state: Tensor) -> Tensor:  # noqa: ARG001
            position, speed = state[:, :1], state[:, 1:]
            return torch.cat([speed, -rows.field(position)[1] * speed.square()], dim=1)

        zero = torch.zeros_like(rows.start)
        state = torch.stack([rows.start, velocity], dim=1)
        problem = torchode.InitialValueProblem(state, t_start=zero, t_end=zero + 1)
        with torch.no_grad():
            solved = solver(tolerance)(problem, term=torchode.ODETerm(equation))
        return torch.where(solved.status == 0, solved.ys[:, -1, 0], torch.nan)

    return integrate


def by_diffrax(method: str, symbol: Symbol) -> Integrator:
    """One row under jax.vmap, so that every row takes its own steps, all of it under jax.jit."""
    import diffrax  # noqa: PLC0415 - optional
    import jax  # noqa: PLC0415 - optional

    jax.config.update("jax_enable_x64", True)

    def equation(time: Any, state: Any, w: Any) -> Any:  # noqa: ARG001
        position, speed = state
        return speed, -symbol(position, w) * speed**2

    term, solver = diffrax.ODETerm(equation), getattr(diffrax, method)()

    def one_row(position: Any, velocity: Any, w: Any, tolerance: Any) -> Any:
        solved = diffrax.diffeqsolve(
            term,
            solver,
            t0=0.0,
            t1=1.0,
            dt0=None,
            y0=(position, velocity),
            args=w,
            stepsize_controller=diffrax.PIDController(rtol=tolerance, atol=tolerance),
            throw=False,
        )
        arrived = solved.result == diffrax.RESULTS.successful
        return jax.numpy.where(arrived, solved.ys[0][-1], jax.numpy.nan)

    all_rows = jax.jit(jax.vmap(one_row, in_axes=(0, 0, 0, None)))

    def integrate(rows: Rows, velocity: Tensor, tolerance: float) -> Tensor:
        parts = (part.numpy() for part in (rows.start, velocity, rows.wavelengths))
        return torch.from_numpy(np.array(all_rows(*parts, tolerance)))

    return integrate


SHARED, OWN = "steps shared by a batch, worst row decides", "steps of every row"
JITTED = f"{OWN}; jax.jit, jax.vmap"
PEERS = (
    Peer("torchdiffeq dopri5", ("torchdiffeq",), by_torchdiffeq, True, SHARED),
    *(
        Peer(f"torchode {name}", ("torchode",), partial(by_torchode, method, False), True, OWN)
        for name, method in (("dopri5", "Dopri5"), ("tsit5", "Tsit5"))
    ),
    Peer(
        "torchode tsit5, compiled",
        ("torchode",),
        partial(by_torchode, "Tsit5", False),
        False,
        f"{OWN}; torch.compile",
        compiled=partial(by_torchode, "Tsit5", True),
    ),
    *(
        Peer(f"diffrax {name}", ("diffrax", "jax"), partial(by_diffrax, method), False, JITTED)
        for name, method in (("dopri5", "Dopri5"), ("tsit5", "Tsit5"))
    ),
)


def in_jax(metric: Metric) -> Symbol:
    """G of a metric network by the same weights in jax, by its forward derivative."""
    network = metric.network
    weights = [
        (weight[0].numpy(), bias[0, 0].numpy())
        for weight, bias in zip(network.weights, network.biases, strict=True)
    ]

    def symbol(x: Any, w: Any) -> Any:
        import jax  # noqa: PLC0415 - optional

        def log_sqrt(x: Any) -> Any:
            hidden = jax.numpy.stack([x, w])
            for weight, bias in weights[:-1]:
                hidden = jax.numpy.tanh(hidden @ weight + bias)
            value = (hidden @ weights[-1][0] + weights[-1][1])[0]
            return 0.5 * jax.numpy.log(jax.nn.softplus(value) + FLOOR)

        return jax.jvp(log_sqrt, (x,), (jax.numpy.ones_like(x),))[1]

    return symbol


def in_batches(integrate: Integrator) -> Integrator:
    """The same in parts of nearly equal size, so that compilers meet two sizes at most."""

    def integrate_all(rows: Rows, velocity: Tensor, tolerance: float) -> Tensor:
        parts = torch.arange(len(velocity)).tensor_split(math.ceil(len(velocity) / BATCH))
        return torch.cat([integrate(rows[part], velocity[part], tolerance) for part in parts])

    return integrate_all


def shoot(
    integrate: Integrator, rows: Rows, tolerance: float, error: float
) -> Float[Tensor, "row"]:
    """First velocities from start to end, by Newton's method with the exact sensitivity.

    Guess and sensitivity are those of `geonode.geodesics.solvers.shooting`. Half the error is left
    to the integrator. A row that has arrived is not shot again.

    Args:
        integrate: the solver.
        rows: what to join.
        tolerance: of the solver.
        error: largest |x(1) - target|, chart units.
    """
    points = rows.start[:, None] + (rows.end - rows.start)[:, None] * torch.tensor(
        [0.0, *(fraction for fraction, _ in GUESS)], dtype=torch.float64
    )
    log_sqrt = rows.field(points)[0]
    weights = torch.tensor([weight for _, weight in GUESS], dtype=torch.float64)
    velocity = (rows.end - rows.start) * (torch.exp(log_sqrt[:, 1:] - log_sqrt[:, :1]) @ weights)
    running = torch.arange(len(velocity))
    for _ in range(SHOTS):
        part = rows[running]
        reached = integrate(part, velocity[running], tolerance)
        miss = reached - part.end
        sensitivity = torch.exp(log_sqrt[running, 0] - part.field(reached[:, None])[0][:, 0])
        missed = ~(miss.abs() <= error / 2)
        running = running[missed]
        if not len(running):
            break
        velocity[running] -= (miss / sensitivity)[missed]
    return velocity


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
        make_stations: the same without a grid, from an expansion to a tolerance.
        rows: on the network; wavelengths fastest.
        velocity: x'(0).
        sensitivity: of x(1) to x'(0).
    """

    problem: BoundaryValueProblem
    symbol: Symbol
    grid: Grid
    make_grid: Callable[[int], Grid]
    make_stations: Callable[[float], Stations]
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

        def make_stations(tolerance: float) -> Stations:
            source = ChebyshevSource.of(
                metric, w, tolerance=tolerance, largest_degree=parameters.christoffel.largest_degree
            )
            return expanded_stations(source, 0, problem.stations, w, GAUSS_NODES)

        grid = make_grid(NODES)
        _, start, end = rows_of(ClosedForm(grid), problem, hermite)
        every = w.repeat(len(problem.source))
        rows = Rows(NetworkField(metric, every), every, start, end)
        known = truth(rows, wavelengths)
        return cls(problem, in_jax(metric), grid, make_grid, make_stations, rows, *known)

    def on_grid(self) -> Rows:
        """The same rows, read from the grid."""
        field, _, _ = rows_of(ClosedForm(self.grid), self.problem, hermite)
        return replace(self.rows, field=field)


def truth(rows: Rows, at_once: int) -> tuple[Float[Tensor, "row"], Float[Tensor, "row"]]:
    """First velocities by quadrature, and the sensitivity d x(1) / d x'(0) of the end to them.

    Args:
        rows: what to join.
        at_once: rows that are held in memory together; each calls the field at 48 positions.
    """
    velocities, sensitivities = [], []
    for chosen in torch.arange(len(rows.start)).split(at_once):
        part = rows[chosen]
        velocities.append(initial_velocity(part.field, part.start, part.end))
        ends = part.field(torch.stack([part.start, part.end], dim=1))[0]
        sensitivities.append(torch.exp(ends[:, 0] - ends[:, 1]))
    return torch.cat(velocities), torch.cat(sensitivities)


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
            "geonode expanded_stations",
            "network",
            "expansion, quadrature between levels, solution with all features",
            "tolerance",
            TOLERANCES,
            lambda tolerance: case.make_stations(tolerance).every_path()[0].flatten(),
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
    """What goes into the file: one line a solver, with nothing where it was not run."""
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


@contextmanager
def one_core() -> Iterator[bool]:
    """This thread, and those it starts, on one core; yields whether the system can do that.

    XLA starts threads of its own, as many as there are cores to run on.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield False
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield True
    finally:
        os.sched_setaffinity(0, before)


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
