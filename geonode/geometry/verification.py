"""Grids and geodesics against the network itself.

A grid is looked up between its nodes and compared with float64 calls of its network.

Geodesics are checked independently of the grid that they come from. For sampled rows sqrt(g) is
integrated along the path by quadrature with float64 network calls: composite Gauss-Legendre sums
converge geometrically for an analytic metric. The endpoint that v0 leads to on the true metric is
found by a Newton step with the exact sensitivity dx(1)/dv0 = sqrt(g_s / g_1); the conserved speed
sqrt(g) x' is compared along the trajectory that v0 leads to on the grid.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from geonode.errors import GeometryError
from geonode.geometry.field import Field
from geonode.geometry.grid import Grid, matched
from geonode.geometry.metric import Metric
from geonode.geometry.problem import BoundaryValueProblem, Solution
from geonode.geometry.solvers.closed_form import ClosedForm

CHECK_WAVELENGTHS = 32
EDGE_FRACTIONS = (0.25, 0.5, 0.75)
"""Fractions of the first and last cells at which a grid is always checked: slopes of the symbol are
one-sided there, and its errors largest."""

CHECK_POSITIONS = 64
"""Random positions between nodes at which a grid is checked, besides those."""

CHECKED_TIMES = 17
# Over the whole chart, 48 nodes integrate sqrt(g) of Xavier networks of gain 2 to 1e-14.
PANELS, NODES = 4, 12


def grid_errors(
    metric: Metric,
    wavelengths: Float[Tensor, "wavelength"],
    tolerance: float,
    model: int,
    grid: Grid,
) -> tuple[float, float]:
    """Compare a grid, as the geodesics will see it, with its network at some random wavelengths.

    Args:
        metric: the metrics of all models in float64.
        wavelengths: charted wavelengths of the columns of the grid.
        tolerance: largest error of ln sqrt(g) and of the Christoffel symbol between nodes.
        model: index of the metric of the grid.
        grid: as it is stored.

    Returns:
        Largest absolute errors of ln sqrt(g) and of the symbol.

    Raises:
        GeometryError: it has too few nodes for the tolerance.
    """
    like = metric.network.parameters[0]
    generator = torch.Generator().manual_seed(model)
    x = 2 * torch.rand(CHECK_POSITIONS, generator=generator, dtype=torch.float64) - 1
    nodes = matched(grid.positions, like)
    cells = (nodes[:2], nodes[-2:])
    ends = [a + fraction * (b - a) for a, b in cells for fraction in EDGE_FRACTIONS]
    x = torch.cat([x.to(like), torch.stack(ends)])
    columns = torch.randperm(len(wavelengths), generator=generator)[:CHECK_WAVELENGTHS]
    part = grid.at_wavelengths(columns.to(grid.log_sqrt.device)).to(like)
    w = matched(wavelengths, like)[columns.to(like.device)]
    truth = metric[model].with_symbol(x[None], w)
    pairs = zip(part.lookup(x[None]), truth, strict=True)
    log_sqrt, symbol = (float((found.T - exact[0]).abs().max()) for found, exact in pairs)
    error = max(log_sqrt, symbol)
    if not error <= tolerance:
        # the error of the symbol is of order 3 in the width of a cell
        enough = math.ceil(len(nodes) * (error / tolerance) ** (1 / 3)) + 1
        raise GeometryError(
            f"christoffel.resolution: found {len(nodes)}, expected about {enough} or more: "
            f"between nodes lookups of model {model} are off by up to {error:.1e}, more than "
            f"christoffel.tolerance, {tolerance:g}"
        )
    return log_sqrt, symbol


class NetworkErrors(NamedTuple):
    """Errors of sampled geodesics on the true metric."""

    endpoint: Float[Tensor, "row"]  # x(1) minus the target, chart units
    drift: Float[Tensor, "row"]  # largest relative change of the speed sqrt(g) x' along the path


def network_errors(
    metric: Metric,
    grid: Grid,
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
        grid: of the model.
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
    field = Field(metric.at_rows, matched(wavelengths[column], like))
    first, last, given = (matched(part, like) for part in (start, end, v0))
    root_first, root_last = field(torch.stack([first, last], dim=1))[0].exp().unbind(1)
    endpoint = (given * root_first - arc_length(field, first, last)) / root_last

    # position and velocity x' = l / sqrt(g) on the grid, every row in a column of its own
    grid = grid.at_wavelengths(column)
    arc, length = ClosedForm(grid).arc_length, v0 * grid.lookup(start[:, None])[0][:, 0].exp()
    times = torch.linspace(0, 1, CHECKED_TIMES, dtype=start.dtype).to(device)
    x, root = arc.inverse(arc.at(start).diagonal() + times[:, None] * length)
    speed = matched((length / root).T, like) * field(matched(x.T, like))[0].exp()
    drift = (speed / speed[:, :1] - 1).abs().amax(1)
    return NetworkErrors(endpoint, drift)


def arc_length(
    field: Field, start: Float[Tensor, "row"], end: Float[Tensor, "row"]
) -> Float[Tensor, "row"]:
    """Signed integral of sqrt(g) from start to end: the speed l of the geodesic.

    Start and end are chart positions of every row.
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
