"""Error and cost of every way to a symbol, a grid, a lookup and a geodesic, on learned metrics.

    python -m benchmarks.geometry

after `dvc repro` prints the tables of docs/geometry.md. Errors are against the network in float64;
times are medians on one thread.
"""

import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import typer

from benchmarks.symbols import SYMBOLS
from geonode.config import ChristoffelParameters
from geonode.devices.device import one_thread
from geonode.evaluation.timing import Quartiles, time_calls
from geonode.geodesics.problem import BoundaryValueProblem
from geonode.geodesics.quadrature import initial_velocity
from geonode.geodesics.solvers.closed_form import ClosedForm
from geonode.geodesics.solvers.initial_value import DormandPrince, Integrator, RungeKutta
from geonode.geodesics.solvers.methods import METHODS, Settings, rows_of
from geonode.geodesics.verification import grid_geodesic_errors
from geonode.geometry.field import NetworkField
from geonode.geometry.grid import Grid, uniform_nodes
from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.lookup import hermite
from geonode.geometry.metric import Metric
from geonode.geometry.sources import GridSource, grid_source
from geonode.geometry.stored import STORAGE, write_grids
from geonode.parameters_file import read_parameters
from geonode.spectra.series import Series, read_series
from stages.paths import METRIC, PARAMETERS, SPECTRA

CPU = torch.device("cpu")
NODES = 2000
Table = list[dict[str, Any]]


def symbols(metric: Metric, points: int, repeats: int) -> Table:
    """Three ways to the Christoffel symbol, in both formats, against autodiff in float64."""
    generator = torch.Generator().manual_seed(0)
    shape = (metric.network.models, points)
    x, w = 2 * torch.rand(2, *shape, generator=generator, dtype=torch.float64) - 1
    truth = SYMBOLS["autodiff"](metric, x, w)[1]
    table = []
    for dtype in (torch.float64, torch.float32):
        rows = x.to(dtype), w.to(dtype)
        network = Metric(metric.network.to(CPU, dtype))
        # rounding the points is no error of the method
        exact = SYMBOLS["autodiff"](metric, *(part.double() for part in rows))[1]
        for name, method in SYMBOLS.items():
            error = (method(network, *rows)[1] - exact).abs().max() / truth.abs().max()
            seconds = timed(partial(method, network, *rows), repeats).median
            table.append(
                {
                    "method": name,
                    "format": str(dtype).removeprefix("torch."),
                    "relative error": float(error),
                    "us a point": 1e6 * seconds / x.numel(),
                }
            )
    return table


def grids(
    parameters: ChristoffelParameters, metric: Metric, wavelengths: torch.Tensor, folds: int
) -> Table:
    """Both sources of grids, and how far they are apart."""
    nodes = uniform_nodes(NODES, CPU, torch.float64)
    metric = Metric(metric.network[:folds])
    made, table = {}, []
    for name in ("direct", "chebyshev"):
        start = time.perf_counter()
        source = grid_source(parameters.model_copy(update={"method": name}), metric, wavelengths)
        made[name] = [source.grid(model, nodes) for model in range(folds)]
        seconds = (time.perf_counter() - start) / folds
        pairs = list(zip(made[name], made["direct"], strict=True))
        table.append(
            {
                "method": name,
                "network calls": source.calls,
                "ln sqrt(g), from direct": max(largest(a.log_sqrt - b.log_sqrt) for a, b in pairs),
                "symbol, from direct": max(largest(a.symbol - b.symbol) for a, b in pairs),
                "seconds a model": seconds,
            }
        )
    return table


def lookups(source: GridSource, points: int, repeats: int) -> Table:
    """Lookups in coarse and fine grids of one model, in both formats."""
    generator = torch.Generator().manual_seed(0)
    x = (2 * torch.rand(points, generator=generator, dtype=torch.float64) - 1).sort().values
    table = []
    for resolution, dtype in ((100, torch.float64), (NODES, torch.float64), (NODES, torch.float32)):
        grid = source.grid(0, uniform_nodes(resolution, CPU, torch.float64)).to(
            torch.empty(0, dtype=dtype)
        )
        exact = source.grid(0, x.to(dtype).double())
        columns = torch.arange(grid.log_sqrt.shape[1])
        at = x.to(dtype).expand(len(columns), -1)
        log_sqrt, symbol = hermite(grid, at, columns)
        seconds = timed(partial(hermite, grid, at, columns), repeats).median
        table.append(
            {
                "nodes": resolution,
                "format": str(dtype).removeprefix("torch."),
                "ln sqrt(g)": largest(log_sqrt.T - exact.log_sqrt),
                "symbol": largest(symbol.T - exact.symbol),
                "ns a lookup": 1e9 * seconds / at.numel(),
            }
        )
    return table


def storage(source: GridSource, learned: LearnedMetrics, series: Series, metric: Metric) -> Table:
    """Size of the artifact and error of the geodesics, by the format of the stored grid."""
    wavelengths = torch.from_numpy(series.wavelengths)
    table = []
    for name in STORAGE:
        errors: list[tuple[float, float]] = []

        def check(model: int, grid: Grid, errors: list[tuple[float, float]] = errors) -> None:
            found = grid_geodesic_errors(metric[model], grid, wavelengths, rows=64, seed=model)
            errors.append((largest(found.v0), largest(found.endpoint)))

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "grids.zarr"
            nodes = uniform_nodes(NODES, CPU, torch.float64)
            write_grids(path, source, nodes, learned, series, storage=name, check=check)
            size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        v0, endpoint = (max(part) for part in zip(*errors, strict=True))
        table.append({"format": name, "MB": size / 1e6, "v0": v0, "endpoint": endpoint})
    return table


def methods(
    source: GridSource,
    metric: Metric,
    learned: LearnedMetrics,
    series: Series,
    scipy_rows: int,
) -> Table:
    """Every way to solve the boundary value problem, on all folds of the first member.

    Judged by the network: v0 against quadrature of its sqrt(g). One by one, scipy is given the
    first rows of every fold only.
    """
    wavelengths = torch.from_numpy(series.wavelengths)
    nodes = uniform_nodes(NODES, CPU, torch.float64)
    folds = len(learned.charts)
    positions = torch.from_numpy(learned.positions(series.concentrations))
    cases = []
    for fold in range(folds):
        problem = BoundaryValueProblem.all_pairs(positions[fold])
        _, start, end = rows_of(ClosedForm(source.grid(fold, nodes)), problem)
        w = wavelengths.repeat(len(problem.source))
        field = NetworkField(metric[fold], w)
        cases.append((source.grid(fold, nodes), problem, initial_velocity(field, start, end)))
    table = []
    for name, method in METHODS.items():
        errors, rows, iterations, evaluations, missed, seconds = [], 0, 0.0, 0.0, 0, 0.0
        for grid, whole, exact in cases:
            problem, part, truth = whole, grid, exact.reshape(len(whole.source), -1)
            if name == "scipy":
                some = (whole.source[:scipy_rows], whole.target[:scipy_rows])
                problem = BoundaryValueProblem(whole.stations, *some)
                columns = torch.tensor([len(wavelengths) // 3])
                part, truth = grid.at_wavelengths(columns), truth[:scipy_rows, columns]
            start_time = time.perf_counter()
            solution = method(ClosedForm(part), problem, Settings(1e-6))
            seconds += time.perf_counter() - start_time
            errors.append(largest(solution.v0 - truth))
            rows += solution.v0.numel()
            iterations += float(solution.iterations.sum())
            evaluations += float(solution.evaluations.sum())
            missed += int((~solution.converged).sum())
        table.append(
            {
                "method": name,
                "rows": rows,
                "unconverged": missed,
                "v0": max(errors),
                "iterations": iterations / rows,
                "evaluations": evaluations / rows,
                "us a row": 1e6 * seconds / rows,
            }
        )
    return table


def integrators(metric: Metric, series: Series, rows: int) -> Table:
    """Both integrators on the network, from velocities by quadrature."""
    generator = torch.Generator().manual_seed(0)
    start, end = 2 * torch.rand(2, rows, generator=generator, dtype=torch.float64) - 1
    columns = torch.randint(len(series.axis), (rows,), generator=generator)
    field = NetworkField(metric[0], torch.from_numpy(series.wavelengths)[columns])
    velocity = initial_velocity(field, start, end)
    first, last = field(torch.stack([start, end], dim=1))[0].unbind(1)
    known: list[tuple[str, Integrator]] = [
        *((f"rk4, {steps} steps", RungeKutta(steps)) for steps in (20, 50, 100)),
        *((f"dopri5, {tol:g}", DormandPrince(tol)) for tol in (1e-5, 1e-7)),
    ]
    table = []
    for name, integrator in known:
        begin = time.perf_counter()
        arrival = integrator(field, start, velocity)
        seconds = time.perf_counter() - begin
        table.append(
            {
                "integrator": name,
                "endpoint": largest(arrival.position - end),
                "sensitivity": largest(arrival.sensitivity / torch.exp(first - last) - 1),
                "evaluations": int(arrival.evaluations.max()),
                "us a row": 1e6 * seconds / rows,
            }
        )
    return table


def timed(call: Callable[[], object], repeats: int) -> Quartiles:
    """Seconds of a call."""
    return time_calls(call, repeats, lambda: None)


def largest(errors: torch.Tensor) -> float:
    """Largest magnitude."""
    return float(errors.abs().max())


def markdown(table: Table) -> str:
    """A table as Markdown: counts whole, sizes to three digits, errors to two."""

    def cell(value: Any) -> str:
        if isinstance(value, float) and value < 1000:
            return f"{value:.3g}" if value >= 0.01 or not value else f"{value:.1e}"
        return f"{value:,.0f}" if isinstance(value, int | float) else str(value)

    lines: Iterable[Iterable[str]] = [
        table[0],
        ["---"] * len(table[0]),
        *([cell(value) for value in row.values()] for row in table),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(repeats: int = 5, points: int = 2000, scipy_rows: int = 6) -> None:
    """Print the tables of docs/geometry.md."""
    parameters = read_parameters(PARAMETERS).christoffel
    series = read_series(SPECTRA)
    learned = LearnedMetrics.read(METRIC)
    metric = learned.metric(CPU)
    wavelengths = torch.from_numpy(series.wavelengths)
    with one_thread(), torch.no_grad():
        source = grid_source(parameters, metric, wavelengths)
        for title, make in (
            ("Christoffel symbols", lambda: symbols(metric, points, repeats)),
            ("Grids", lambda: grids(parameters, metric, wavelengths, len(learned.charts))),
            ("Lookups", lambda: lookups(source, points, repeats)),
            ("Storage", lambda: storage(source, learned, series, metric)),
            ("Initial value problem", lambda: integrators(metric, series, points)),
            (
                "Boundary value problem",
                lambda: methods(source, metric, learned, series, scipy_rows),
            ),
        ):
            typer.echo(f"\n{title}\n\n{markdown(make())}")


if __name__ == "__main__":
    typer.run(main)
