"""Error and cost of every way to a symbol, a grid, a lookup and a geodesic, on learned metrics.

    python -m benchmarks.geometry

after `dvc repro` prints the tables of docs/geometry.md. Errors are against the network in float64;
times are medians on one thread.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
import typer
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import softplus

from benchmarks import scipy_bvp
from benchmarks.performance.timing import time_calls
from geonode.compute.device import one_thread
from geonode.config import Parameters
from geonode.geometry.field import GridField, NetworkField
from geonode.geometry.grid import Grid, moved, uniform_nodes
from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.metric import FLOOR, Metric
from geonode.geometry.problem import BoundaryValueProblem
from geonode.geometry.solvers.closed_form import ClosedForm
from geonode.geometry.solvers.methods import METHODS, rows_of
from geonode.geometry.sources import ChebyshevSource
from geonode.geometry.verification import initial_velocity
from geonode.parameters_file import read_parameters
from geonode.spectra.series import Series, read_series
from stages.paths import METRIC, PARAMETERS, SPECTRA

CPU = torch.device("cpu")
NODES = 2000
REPEATS, POINTS = 5, 2000  # timed calls, and random positions
SCIPY_ROWS = 6  # geodesics of a fold at one wavelength: it solves them one by one
ROWS = 128  # nodes in one call of the network, so that memory does not grow with the grid
FORMATS = {"float64": torch.float64, "float32": torch.float32}
Rows = Float[Tensor, "model row"]
Table = list[dict[str, Any]]


def log_sqrt_at(metric: Metric, positions: Rows, wavelengths: Rows) -> Rows:
    """Ln sqrt(g) without a derivative."""
    value = metric.network(torch.stack([positions, wavelengths], dim=-1)).squeeze(-1)
    return 0.5 * torch.log(softplus(value) + FLOOR)


def autodiff(metric: Metric, positions: Rows, wavelengths: Rows) -> Rows:
    """Christoffel symbol by `torch.func`: the derivative of one row, mapped over all rows."""

    def one_row(x: Tensor, w: Tensor) -> Tensor:
        along = partial(log_sqrt_at, metric, wavelengths=w[:, None])
        slope: Tensor = torch.func.jvp(along, (x[:, None],), (torch.ones_like(x)[:, None],))[1]
        return slope[:, 0]

    return torch.func.vmap(one_row, in_dims=1, out_dims=1)(positions, wavelengths)


def finite_difference(metric: Metric, positions: Rows, wavelengths: Rows) -> Rows:
    """Christoffel symbol by central differences with the step eps^(1/3).

    That step balances the error h^2 / 6 of the third derivative against eps / h of rounding, so
    about two thirds of the digits are right. Source: W. H. Press et al., Numerical Recipes, 3rd
    ed., section 5.7.
    """
    step = torch.finfo(positions.dtype).eps ** (1 / 3)
    below, above = positions - step, positions + step  # not exactly 2 h apart
    low, high = (log_sqrt_at(metric, x, wavelengths) for x in (below, above))
    return (high - low) / (above - below)


SYMBOLS: dict[str, Callable[[Metric, Rows, Rows], Rows]] = {
    "analytic": lambda metric, x, w: metric.at_points(x, w)[1],
    "autodiff": autodiff,
    "finite_difference": finite_difference,
}


@dataclass(frozen=True)
class Bench:
    """Learned metrics of a series, by the blocks `christoffel` and `geodesics` of parameters."""

    parameters: Parameters
    learned: LearnedMetrics
    series: Series

    @cached_property
    def metric(self) -> Metric:
        """All metrics in float64."""
        return self.learned.metric(CPU)

    @cached_property
    def wavelengths(self) -> Float[Tensor, "wavelength"]:
        """Charted wavelengths of the series."""
        return torch.from_numpy(self.series.wavelengths)

    @cached_property
    def source(self) -> ChebyshevSource:
        """Source of grids, as in the pipeline."""
        return chebyshev(self.parameters, self.metric, self.wavelengths)

    def random(self, *shape: int) -> Float[Tensor, "..."]:
        """Chart positions, always the same."""
        generator = torch.Generator().manual_seed(0)
        return 2 * torch.rand(*shape, generator=generator, dtype=torch.float64) - 1

    def seconds(self, call: Callable[[], object]) -> float:
        """Median time of a call."""
        return time_calls(call, REPEATS, lambda: None).median

    def symbols(self) -> Table:
        """Three ways to the Christoffel symbol, in both formats, against autodiff in float64."""
        x, w = self.random(2, self.metric.network.models, POINTS)
        table = []
        for name, dtype in FORMATS.items():
            rows = x.to(dtype), w.to(dtype)
            network = Metric(self.metric.network.to(CPU, dtype))
            # rounding the points is no error of the method
            exact = autodiff(self.metric, *(part.double() for part in rows))
            for way, method in SYMBOLS.items():
                error = largest(method(network, *rows) - exact) / largest(exact)
                seconds = self.seconds(partial(method, network, *rows))
                point = 1e6 * seconds / x.numel()
                table.append(
                    {"method": way, "format": name, "relative error": error, "us a point": point}
                )
        return table

    def grids(self) -> Table:
        """Grids of the first member from the network and from its expansion."""
        nodes, folds = uniform_nodes(NODES, CPU, torch.float64), len(self.learned.charts)
        metric = Metric(self.metric.network[:folds])
        start = time.perf_counter()
        exact = [direct(metric[fold], self.wavelengths, nodes) for fold in range(folds)]
        middle = time.perf_counter()
        source = chebyshev(self.parameters, metric, self.wavelengths)
        made = [source.grid(fold, nodes) for fold in range(folds)]
        end = time.perf_counter()
        return [
            {
                "way": name,
                "network calls": calls,
                "ln sqrt(g), from direct": max(
                    largest(a.log_sqrt - b.log_sqrt) for a, b in zip(grids, exact, strict=True)
                ),
                "symbol, from direct": max(
                    largest(a.symbol - b.symbol) for a, b in zip(grids, exact, strict=True)
                ),
                "seconds a model": seconds / folds,
            }
            for name, calls, grids, seconds in (
                ("direct", NODES * len(self.wavelengths), exact, middle - start),
                ("chebyshev", source.calls, made, end - middle),
            )
        ]

    def lookups(self) -> Table:
        """Lookups in the grid of one model, in both formats."""
        x = self.random(POINTS).sort().values
        grid = self.source.grid(0, uniform_nodes(NODES, CPU, torch.float64))
        table = []
        for name, dtype in FORMATS.items():
            part = grid.to(torch.empty(0, dtype=dtype))
            at = x.to(dtype).expand(len(self.wavelengths), -1)
            exact = self.source.grid(0, at[0].double())
            log_sqrt, symbol = part.lookup(at)
            table.append(
                {
                    "format": name,
                    "ln sqrt(g)": largest(log_sqrt.T - exact.log_sqrt),
                    "symbol": largest(symbol.T - exact.symbol),
                    "ns a lookup": 1e9 * self.seconds(partial(part.lookup, at)) / at.numel(),
                }
            )
        return table

    def methods(self) -> Table:
        """Every way to solve the boundary value problem, on all folds of the first member.

        Judged by the network: v0 against quadrature of its sqrt(g).
        """
        stations = torch.from_numpy(self.learned.positions(self.series.concentrations))
        nodes = uniform_nodes(NODES, CPU, torch.float64)
        cases = [
            (self.metric[fold], self.source.grid(fold, nodes), BoundaryValueProblem.all_pairs(x))
            for fold, x in enumerate(stations)
        ]
        return [self.method(name, cases) for name in METHODS] + [self.scipy(cases)]

    def method(
        self, name: str, cases: Iterable[tuple[Metric, Grid, BoundaryValueProblem]]
    ) -> dict[str, Any]:
        """One way to solve the boundary value problem."""
        errors, rows, iterations, evaluations, missed, seconds = [], 0, 0, 0, 0, 0.0
        for metric, grid, problem in cases:
            begin = time.perf_counter()
            solution = METHODS[name](ClosedForm(grid), problem, self.parameters.geodesics)
            seconds += time.perf_counter() - begin
            _, start, end = rows_of(ClosedForm(grid), problem)
            exact = initial_velocity(
                NetworkField(metric, self.wavelengths.repeat(len(problem.source))), start, end
            )
            errors.append(largest(solution.v0.flatten() - exact))
            rows += solution.v0.numel()
            iterations += int(solution.iterations.sum())
            evaluations += int(solution.evaluations.sum())
            missed += int((~solution.converged).sum())
        return {
            "method": name,
            "rows": rows,
            "unconverged": missed,
            "v0": max(errors),
            "iterations": iterations / rows,
            "evaluations": evaluations / rows,
            "us a row": 1e6 * seconds / rows,
        }

    def scipy(self, cases: Iterable[tuple[Metric, Grid, BoundaryValueProblem]]) -> dict[str, Any]:
        """The boundary value problem by scipy, which is given some rows of every case."""
        column, errors, evaluations, seconds = len(self.wavelengths) // 3, [], 0, 0.0
        for metric, grid, problem in cases:
            columns = torch.full((SCIPY_ROWS,), column)
            start, end = (
                problem.stations[index[:SCIPY_ROWS]] for index in (problem.source, problem.target)
            )
            begin = time.perf_counter()
            v0, asked = scipy_bvp.velocities(
                GridField(grid, columns), start, end, tolerance=self.parameters.geodesics.tolerance
            )
            seconds, evaluations = seconds + time.perf_counter() - begin, evaluations + asked
            field = NetworkField(metric, self.wavelengths[columns])
            errors.append(v0 - initial_velocity(field, start, end))
        found = torch.cat(errors)
        rows = len(found)
        return {
            "method": "scipy",
            "rows": rows,
            "unconverged": int(found.isnan().sum()),
            "v0": largest(found.nan_to_num()),
            "iterations": None,
            "evaluations": evaluations / rows,
            "us a row": 1e6 * seconds / rows,
        }


def chebyshev(
    parameters: Parameters, metric: Metric, wavelengths: Float[Tensor, "wavelength"]
) -> ChebyshevSource:
    """Expansions by the block `christoffel` of the parameters."""
    block = parameters.christoffel
    tolerance, degree = block.expansion_tolerance, block.largest_degree
    return ChebyshevSource.of(metric, wavelengths, tolerance=tolerance, largest_degree=degree)


def direct(
    metric: Metric, wavelengths: Float[Tensor, "wavelength"], positions: Float[Tensor, "node"]
) -> Grid:
    """The grid of one metric by calls of its network alone: slow, and right for any metric."""
    like = metric.network.parameters[0]
    parts = [
        metric.with_symbol(moved(rows, like)[None], moved(wavelengths, like))
        for rows in positions.split(ROWS)
    ]
    log_sqrt, symbol = (torch.cat([part[i][0] for part in parts]).to(positions) for i in (0, 1))
    return Grid(positions, log_sqrt, symbol)


def largest(errors: Float[Tensor, "..."]) -> float:
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


def main() -> None:
    """Print the tables of docs/geometry.md."""
    bench = Bench(read_parameters(PARAMETERS), LearnedMetrics.read(METRIC), read_series(SPECTRA))
    with one_thread(), torch.no_grad():
        for title, make in (
            ("Christoffel symbols", bench.symbols),
            ("Grids", bench.grids),
            ("Lookups", bench.lookups),
            ("Boundary value problem", bench.methods),
        ):
            typer.echo(f"\n{title}\n\n{markdown(make())}")


if __name__ == "__main__":
    typer.run(main)
