"""Grids and geodesics against the network itself.

A grid is looked up between its nodes and compared with float64 calls of its network.

Geodesics are checked independently of the grid that they come from. For sampled rows sqrt(g) is
integrated along the path by quadrature with float64 network calls: composite Gauss-Legendre sums
converge geometrically for an analytic metric. The endpoint that v0 leads to on the true metric is
found by a Newton step with the exact sensitivity dx(1)/dv0 = sqrt(g_s / g_1); the conserved speed
sqrt(g) x' is compared along the trajectory that v0 leads to on the grid.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from geonode.errors import GeometryError
from geonode.geometry.field import Field, NetworkField
from geonode.geometry.grid import Grid, moved
from geonode.geometry.metric import Metric
from geonode.geometry.problem import BoundaryValueProblem, Solution
from geonode.geometry.solvers.closed_form import ClosedForm

CHECK_WAVELENGTHS = 32
EDGE = (0.25, 0.5, 0.75)
"""Fractions of the first and last cells at which a grid is always checked: slopes of the symbol are
one-sided there, and its errors largest."""

TIMES = 17
# Over the whole chart, 48 nodes integrate sqrt(g) of Xavier networks of gain 2 to 1e-14.
PANELS, NODES = 4, 12


class CheckedGrid(NamedTuple):
    """Outcome of the check of a grid.

    Attributes:
        log_sqrt, symbol: looked-up minus direct values, on the CPU.
        lowest, highest: range of g over all concentrations and wavelengths (chart units).
        variance: of g; nodes count by the length of chart that they stand for.
        roughness: mean squared Christoffel symbol, 0 for a flat metric and the same for every
            multiple of a metric; what `metric.smoothness_weight` penalises.
    """

    log_sqrt: Float[Tensor, "position wavelength"]
    symbol: Float[Tensor, "position wavelength"]
    lowest: float
    highest: float
    variance: float
    roughness: float


@dataclass(frozen=True)
class GridCheck:
    """Comparison of the grid of a model with float64 calls of its network.

    Attributes:
        metric: the metrics of the grids in float64.
        wavelengths: charted wavelengths of the columns of the grids.
        positions: number of random positions between nodes to check, besides those in the cells at
            both ends; all at the same `CHECK_WAVELENGTHS` random wavelengths.
        tolerance: largest error of ln sqrt(g) and of the Christoffel symbol between nodes.
    """

    metric: Metric
    wavelengths: Float[Tensor, "wavelength"]
    positions: int
    tolerance: float

    def __call__(self, model: int, grid: Grid) -> CheckedGrid:
        """Check one grid, as the geodesics will see it.

        Raises:
            GeometryError: it has too few nodes for the tolerance.
        """
        like = self.metric.network.parameters[0]
        generator = torch.Generator().manual_seed(model)
        x = 2 * torch.rand(self.positions, generator=generator, dtype=torch.float64) - 1
        nodes = moved(grid.positions, like)
        ends = [a + fraction * (b - a) for a, b in (nodes[:2], nodes[-2:]) for fraction in EDGE]
        x = torch.cat([x.to(like), torch.stack(ends)])
        columns = torch.randperm(len(self.wavelengths), generator=generator)[:CHECK_WAVELENGTHS]
        part = grid.at_wavelengths(columns.to(grid.log_sqrt.device)).to(like)
        w = moved(self.wavelengths, like)[columns.to(like.device)]
        truth = self.metric[model].with_symbol(x[None], w)
        pairs = zip(part.lookup(x[None]), truth, strict=True)
        log_sqrt, symbol = ((found.T - exact[0]).cpu() for found, exact in pairs)
        error = float(torch.maximum(log_sqrt.abs(), symbol.abs()).max())
        if not error <= self.tolerance:
            # the error of the symbol is of order 3 in the width of a cell
            enough = math.ceil(len(nodes) * (error / self.tolerance) ** (1 / 3)) + 1
            raise GeometryError(
                f"christoffel.resolution: found {len(nodes)}, expected about {enough} or more: "
                f"between nodes lookups of model {model} are off by up to {error:.1e}, more than "
                f"christoffel.tolerance, {self.tolerance:g}"
            )
        g = torch.exp(2 * grid.log_sqrt)
        mean = _mean(grid.positions, g)
        return CheckedGrid(
            log_sqrt,
            symbol,
            lowest=float(g.min()),
            highest=float(g.max()),
            variance=_mean(grid.positions, (g - mean).square()),
            roughness=_mean(grid.positions, grid.symbol.square()),
        )


def error_statistics(errors: list[Float[Tensor, "..."]]) -> dict[str, float]:
    """Largest, root-mean-square, median and 99% quantile of absolute errors."""
    magnitude = torch.cat([error.abs().flatten() for error in errors])
    middle, high = torch.quantile(magnitude, magnitude.new_tensor([0.5, 0.99])).tolist()
    return {
        "max": float(magnitude.max()),
        "rms": float(magnitude.square().mean().sqrt()),
        "median": middle,
        "q99": high,
    }


def metric_statistics(members: list[CheckedGrid]) -> dict[str, float]:
    """The whole range of g of several members, and the means of its variance and roughness."""
    count = len(members)
    return {
        "lowest": min(grid.lowest for grid in members),
        "highest": max(grid.highest for grid in members),
        "variance": sum(grid.variance for grid in members) / count,
        "roughness": sum(grid.roughness for grid in members) / count,
    }


def _mean(nodes: Float[Tensor, "node"], table: Float[Tensor, "node wavelength"]) -> float:
    """Mean over the chart, by the trapezoidal rule, and over wavelengths."""
    length = nodes[-1] - nodes[0]
    return float(torch.trapezoid(table.mean(1), nodes) / length)


class NetworkErrors(NamedTuple):
    """Errors of sampled geodesics on the true metric.

    Attributes:
        endpoint: x(1) minus the target, chart units.
        drift: largest relative change of the speed sqrt(g) x' along the path.
    """

    endpoint: Float[Tensor, "row"]
    drift: Float[Tensor, "row"]


def network_errors(
    metric: Metric,
    closed_form: ClosedForm,
    problem: BoundaryValueProblem,
    solution: Solution,
    wavelengths: Float[Tensor, "wavelength"],
    *,
    rows: int,
    seed: int,
) -> NetworkErrors:
    """Check random rows of one model, of those that have converged.

    Args:
        metric: that one model, in float64.
        closed_form: of the model's grid.
        problem: what was solved.
        solution: of the problem, by any method.
        wavelengths: charted wavelengths.
        rows: number of random (pair, wavelength) to check; none if no row has converged.
        seed: seed of the choice.
    """
    like = metric.network.parameters[0]
    device = problem.source.device
    converged = solution.converged.flatten().nonzero()[:, 0]
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randint(max(len(converged), 1), (rows,), generator=generator)
    chosen = converged[chosen[: len(converged) and rows].to(device)]
    pair, column = chosen // len(wavelengths), chosen % len(wavelengths)
    start, end = (problem.stations[index[pair]] for index in (problem.source, problem.target))
    v0 = solution.v0[pair, column]
    field = NetworkField(metric, moved(wavelengths[column], like))
    first, last, given = (moved(part, like) for part in (start, end, v0))
    root_first, root_last = field(torch.stack([first, last], dim=1))[0].exp().unbind(1)
    endpoint = (given * root_first - arc_length(field, first, last)) / root_last

    # position and velocity x' = l / sqrt(g) on the grid, every row in a column of its own
    grid = closed_form.grid.at_wavelengths(column)
    arc, length = ClosedForm(grid).arc_length, v0 * grid.log_sqrt_at(start[:, None])[:, 0].exp()
    times = torch.linspace(0, 1, TIMES, dtype=start.dtype).to(device)
    x, root = arc.inverse(arc.at(start).diagonal() + times[:, None] * length)
    speed = moved((length / root).T, like) * field(moved(x.T, like))[0].exp()
    drift = (speed / speed[:, :1] - 1).abs().amax(1)
    return NetworkErrors(endpoint, drift)


def arc_length(
    field: Field, start: Float[Tensor, "row"], end: Float[Tensor, "row"]
) -> Float[Tensor, "row"]:
    """Signed integral of sqrt(g) from start to end: the speed l of the geodesic.

    Args:
        field: the metric along every row.
        start: chart positions.
        end: chart positions.
    """
    points, weights = np.polynomial.legendre.leggauss(NODES)
    fractions = (np.arange(PANELS)[:, None] + (1 + points) / 2).ravel() / PANELS
    nodes, shares = (
        torch.tensor(part, dtype=start.dtype, device=start.device)
        for part in (fractions, np.tile(weights / (2 * PANELS), PANELS))
    )
    span = end - start
    root = torch.exp(field(start[:, None] + span[:, None] * nodes)[0])
    return span * (root @ shares)
