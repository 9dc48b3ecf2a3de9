from types import SimpleNamespace

import pytest
import torch

from geonode.geometry.problem import BoundaryValueProblem
from geonode.geometry.solvers.closed_form import ClosedForm
from tests.geometry.closed_forms import (
    KNOWN,
    DirectSource,
    exponential,
    grid_of,
    nodes,
    order,
    random_metric,
    valley,
)

STATIONS = torch.tensor([-1.0, -0.61, -0.2, 0.35, 0.36, 1.0], dtype=torch.float64)
TIMES = torch.linspace(0, 1, 21, dtype=torch.float64)
INVERTIBLE = [metric for metric in KNOWN if metric.inverse]
SMOOTH, SHARP = random_metric(41, 2.0), random_metric(41, 4.0)
NETWORK_WAVELENGTHS = torch.tensor([-0.8, 0.1, 0.7], dtype=torch.float64)
FORMATS = pytest.mark.parametrize(
    ("dtype", "bound"), [(torch.float64, 1e-10), (torch.float32, 1e-6)]
)


def solve(grid, stations=STATIONS):
    """Closed form, problem of all pairs, and what is known of its geodesics."""
    closed_form, problem = ClosedForm(grid), BoundaryValueProblem.all_pairs(stations)
    wavelengths = torch.linspace(-1, 1, grid.log_sqrt.shape[1], dtype=stations.dtype)
    solution = closed_form.solve(problem, 1e-6)
    length = closed_form.arc_length.at(stations)
    found = SimpleNamespace(**solution._asdict())
    found.speed = length[problem.target] - length[problem.source]
    found.features = closed_form.stations(stations, wavelengths).every_path(solution.v0)[1]
    return closed_form, problem, found


def expected_features(metrics, problem):
    """v0 and the four features of the path, by formula."""
    a, b = (problem.stations.double()[i] for i in (problem.source, problem.target))
    v0, features = [], []
    for metric in metrics:
        speed = metric.arc_length(b) - metric.arc_length(a)
        mean = (metric.moment(b) - metric.moment(a)) / speed
        lowest = torch.minimum(metric.log_sqrt(a), metric.log_sqrt(b))
        if metric.lowest is not None:
            at = torch.tensor(metric.lowest).double()
            inside = (torch.minimum(a, b) < at) & (at < torch.maximum(a, b))
            lowest = torch.where(inside, metric.log_sqrt(at), lowest)
        v0.append(speed / torch.exp(metric.log_sqrt(a)))
        features.append(torch.stack([b, mean, speed.abs(), speed.abs() / lowest.exp()], dim=-1))
    return torch.stack(v0, dim=1), torch.stack(features, dim=1)


@FORMATS
def test_velocity_and_features_against_closed_forms(dtype, bound):
    _, problem, solved = solve(grid_of(KNOWN, nodes(2000, dtype)), STATIONS.to(dtype))
    v0, features = expected_features(KNOWN, problem)
    # The longest path is 11 long and the fastest velocity 22: errors are relative to that size.
    assert ((solved.v0 - v0).abs() / (1 + v0.abs())).max() <= bound
    error = (solved.features[..., :4] - features).abs() / (1 + features.abs())
    # The mean of a short path in float32 is a difference of two integrals over its length of 0.01.
    apart = (problem.stations[problem.target] - problem.stations[problem.source]).abs()
    short = (apart < 0.1) & (dtype == torch.float32)
    assert error[~short].max() <= bound
    assert error[..., [0, 2, 3]].max() <= bound
    assert error[..., 1].max() <= (100 if short.any() else 1) * bound
    assert solved.converged.all()
    rounding = 8 * torch.finfo(dtype).eps
    torch.testing.assert_close(solved.features[..., 2], solved.speed.abs(), rtol=rounding, atol=0)
    wavelengths = torch.linspace(-1, 1, len(KNOWN), dtype=dtype)
    assert torch.equal(solved.features[..., 4], wavelengths.expand(30, -1))


@FORMATS
def test_trajectories_against_closed_forms(dtype, bound):
    grid = grid_of(INVERTIBLE, nodes(2000, dtype))
    closed_form, problem, solved = solve(grid, STATIONS.to(dtype))
    paths = closed_form.trajectories(problem, solved.v0, TIMES.to(dtype))
    a, b = (problem.stations.double()[i][:, None] for i in (problem.source, problem.target))
    times = TIMES.to(dtype).double()
    for i, metric in enumerate(INVERTIBLE):
        start, stop = metric.arc_length(a), metric.arc_length(b)
        expected = metric.inverse(start + times * (stop - start))
        # An error of the length moves the point by as much over sqrt(g).
        size = metric.arc_length(problem.stations.double()).diff().sum()
        condition = (size / metric.log_sqrt(expected).exp()).clamp(min=1)
        assert ((paths[:, i] - expected).abs() / condition).max() <= bound
    assert torch.equal(paths[..., 0], problem.stations[problem.source][:, None].expand(30, 4))


def test_error_falls_with_the_fourth_power_of_the_step():
    metrics, resolutions, errors = [exponential(-1.9), valley(0.1234)], [21, 41, 81, 161], []
    for resolution in resolutions:
        _, problem, solved = solve(grid_of(metrics, nodes(resolution)))
        errors.append(float((solved.v0 - expected_features(metrics, problem)[0]).abs().max()))
    assert order([1 / (n - 1) for n in resolutions], errors) == pytest.approx(4, abs=0.3)


@pytest.mark.parametrize("at", [-0.70007, 0.3551, 0.999999])
@pytest.mark.parametrize("resolution", [7, 2000])
def test_minimum_between_nodes_is_found(at, resolution):
    """The symbol of the valley is linear, so the minimum is exact on any grid."""
    _, problem, solved = solve(grid_of([valley(at)], nodes(resolution)))
    slowest = solved.speed.abs() / solved.features[..., 3]
    a, b = (problem.stations[i] for i in (problem.source, problem.target))
    inside = (torch.minimum(a, b) < at) & (at < torch.maximum(a, b))
    ends = torch.exp(torch.minimum((a - at) ** 2, (b - at) ** 2))
    expected = torch.where(inside, 1.0, ends)[:, None]
    torch.testing.assert_close(slowest, expected, rtol=1e-13, atol=0)
    assert inside.any()


@pytest.mark.parametrize(("metric", "coarse"), [(SMOOTH, 9), (SHARP, 24)])
def test_a_grid_that_is_too_coarse_is_reported(metric, coarse):
    """The residual is of the size of the true error of the endpoint, by integrating the network."""
    source = DirectSource(metric, NETWORK_WAVELENGTHS)
    _, problem, solved = solve(source.grid(0, nodes(coarse)))
    _, _, truth = solve(source.grid(0, nodes(1500)))
    roots = metric(STATIONS[None], NETWORK_WAVELENGTHS)[0].sqrt()
    endpoint = solved.v0 * roots[problem.source] - truth.speed
    endpoint = (endpoint / roots[problem.target]).abs()
    assert endpoint.max() > 1e-5
    assert 0.1 * endpoint.max() < solved.residual.abs().max() < 10 * endpoint.max()
    assert (~solved.converged).any()
    assert truth.residual.abs().max() <= 1e-9


def test_trajectories_follow_from_the_velocity():
    """A velocity that is too large by a share goes on beyond the target by that share of l."""
    grid = grid_of([exponential(0.7)], nodes(2000))
    closed_form, problem, solved = solve(grid, STATIONS[1:4])  # 1% off stays on the chart
    v0 = 1.01 * solved.v0
    known, a = exponential(0.7), problem.stations[problem.source]
    first, length = known.arc_length(a), solved.speed[:, 0]
    found = closed_form.trajectories(problem, v0, TIMES)[:, 0]
    expected = known.inverse(first[:, None] + 1.01 * length[:, None] * TIMES)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
