"""Solved geodesics against the network itself: independent of the grid they came from.

For sampled rows sqrt(g) is integrated along the path by composite Gauss-Legendre quadrature with
float64 network calls. The endpoint that v0 leads to on the true metric is found by a Newton step
with the exact sensitivity dx(1)/dv0 = sqrt(g_s / g_1); the conserved speed sqrt(g) x' is compared
along the trajectory that the grid gives.
"""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from geonode.geodesics.closed_form import ClosedForm, Geodesics
from geonode.geodesics.problem import BoundaryValueProblem
from geonode.geometry.grid import moved
from geonode.geometry.metric import Metric

PANELS, NODES, TIMES = 16, 8, 17


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
    geodesics: Geodesics,
    wavelengths: Float[Tensor, "wavelength"],
    *,
    rows: int,
    seed: int,
) -> NetworkErrors:
    """Check random rows of one model.

    Args:
        metric: that one model, in float64.
        closed_form: of the model's grid.
        problem: what was solved.
        geodesics: its solution.
        wavelengths: charted wavelengths.
        rows: how many random (pair, wavelength) to check.
        seed: of the choice.
    """
    like = metric.network.parameters[0]
    generator = torch.Generator().manual_seed(seed)
    pair = torch.randint(len(problem.source), (rows,), generator=generator).to(like.device)
    column = torch.randint(len(wavelengths), (rows,), generator=generator).to(like.device)
    ends = moved(problem.stations, like)
    start = ends[problem.source.to(like.device)][pair]
    end = ends[problem.target.to(like.device)][pair]
    w = moved(wavelengths, like)[column]

    points, weights = np.polynomial.legendre.leggauss(NODES)
    edges = torch.linspace(0, 1, PANELS + 1, dtype=like.dtype, device=like.device)
    half = 0.5 / PANELS
    fractions = ((edges[:-1] + half)[:, None] + half * torch.tensor(points).to(like)).flatten()
    quadrature = (half * torch.tensor(weights).to(like)).repeat(PANELS)
    path = start[:, None] + (end - start)[:, None] * fractions
    length = (end - start) * (_root(metric, path, w) @ quadrature)
    v0 = moved(geodesics.v0, like)[pair, column]
    root_start, root_end = _root(metric, torch.stack([start, end], dim=1), w).T
    endpoint = (v0 * root_start - length) / root_end

    stations = problem.stations
    times = torch.linspace(0, 1, TIMES, dtype=stations.dtype, device=stations.device)
    x, velocity = _sampled_trajectories(closed_form, problem, geodesics, pair, column, times)
    speed = _root(metric, moved(x, like), w) * moved(velocity, like)
    drift = (speed / speed[:, :1] - 1).abs().amax(1)
    return NetworkErrors(endpoint, drift)


def _root(
    metric: Metric, positions: Float[Tensor, "row point"], wavelengths: Float[Tensor, "row"]
) -> Float[Tensor, "row point"]:
    """sqrt(g) on the network."""
    w = wavelengths[:, None].expand_as(positions).reshape(1, -1)
    return metric.at_points(positions.reshape(1, -1), w)[0].exp().reshape(positions.shape)


def _sampled_trajectories(
    closed_form: ClosedForm,
    problem: BoundaryValueProblem,
    geodesics: Geodesics,
    pair: Int[Tensor, "row"],
    column: Int[Tensor, "row"],
    times: Float[Tensor, "time"],
) -> tuple[Float[Tensor, "row time"], Float[Tensor, "row time"]]:
    """Position and velocity x' = l / sqrt(g) of some rows, as the grid has them."""
    pair, column = pair.to(problem.source.device), column.to(problem.source.device)
    row_by_row = ClosedForm(closed_form.grid.at_wavelengths(column)).arc_length
    speed = geodesics.speed[pair, column]
    start = row_by_row.at(problem.stations)[problem.source[pair], torch.arange(len(pair))]
    x, root = row_by_row.inverse(start + times[:, None] * speed)
    return x.T, (speed / root).T
