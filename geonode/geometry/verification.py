"""Solved geodesics against the network itself: independent of the grid they came from.

For sampled rows sqrt(g) is integrated along the path by quadrature with float64 network calls:
composite Gauss-Legendre sums converge geometrically for an analytic metric. The endpoint that v0
leads to on the true metric is found by a Newton step with the exact sensitivity
dx(1)/dv0 = sqrt(g_s / g_1); the conserved speed sqrt(g) x' is compared along the trajectory that
v0 leads to on the grid.
"""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from geonode.geometry.field import Field, NetworkField
from geonode.geometry.grid import moved
from geonode.geometry.metric import Metric
from geonode.geometry.problem import BoundaryValueProblem, Solution
from geonode.geometry.solvers.closed_form import ClosedForm

TIMES = 17
# Over the whole chart, 48 nodes integrate sqrt(g) of Xavier networks of gain 2 to 1e-14.
PANELS, NODES = 4, 12


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
        rows: how many random (pair, wavelength) to check; none if no row has converged.
        seed: of the choice.
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
