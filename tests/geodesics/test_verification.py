from dataclasses import replace

import pytest
import torch

from geonode.geodesics.problem import BoundaryValueProblem
from geonode.geodesics.solvers.closed_form import ClosedForm
from geonode.geodesics.verification import grid_geodesic_errors, network_errors
from geonode.geometry.grid import Grid
from geonode.geometry.metric import Metric
from geonode.geometry.sources import DirectSource
from tests.geometry.closed_forms import nodes, random_metric
from tests.geometry.precision import NoWideningMove

METRIC = random_metric(61, 2.0)
WAVELENGTHS = torch.tensor([-0.8, 0.1, 0.7], dtype=torch.float64)
STATIONS = torch.tensor([-1.0, -0.4, 0.3, 1.0], dtype=torch.float64)


def direct_grid(metric, wavelengths, positions):
    return DirectSource(metric, wavelengths).grid(0, positions)


@pytest.fixture(scope="module")
def grid():
    return direct_grid(METRIC, WAVELENGTHS, nodes(2000))


def check(grid, problem, rows=50, column=None):
    """Errors on the network of random rows, or of rows at one wavelength."""
    wavelengths = WAVELENGTHS.to(problem.stations)
    if column is not None:
        grid = grid.at_wavelengths(torch.tensor([column]))
        wavelengths = wavelengths[[column]]
    closed_form = ClosedForm(grid)
    solved = closed_form.solve(problem, 1.0)
    return network_errors(METRIC, closed_form, problem, solved, wavelengths, rows=rows, seed=0)


def roots(x, column):
    """sqrt(g) of the network."""
    return METRIC.log_sqrt(x[None], WAVELENGTHS[[column]])[0, :, 0].exp()


def test_an_exact_grid_has_no_errors(grid):
    errors = check(grid, BoundaryValueProblem.all_pairs(STATIONS))
    assert errors.endpoint.shape == errors.drift.shape == (50,)
    assert errors.endpoint.abs().max() <= 1e-11
    assert errors.drift.max() <= 1e-10


@pytest.mark.parametrize(("source", "target"), [(0, 3), (3, 0), (1, 2), (2, 0)])
@pytest.mark.parametrize("column", range(3))
def test_a_known_error_of_the_grid_has_the_predicted_effect(grid, source, target, column):
    """With ln sqrt(g) + e x the endpoint moves by e times the integral of sqrt(g) (x - x_s) over
    sqrt(g) at the target, and the speed drifts by e |x_t - x_s|, both to first order in e.
    """
    e = 1e-4
    wrong = Grid(grid.positions, grid.log_sqrt + e * grid.positions[:, None], grid.symbol + e)
    problem = BoundaryValueProblem(STATIONS, torch.tensor([source]), torch.tensor([target]))
    errors = check(wrong, problem, rows=3, column=column)
    a, b = STATIONS[source], STATIONS[target]
    x = torch.linspace(float(a), float(b), 4001, dtype=torch.float64)
    root = roots(x, column)
    moved = e * torch.trapezoid(root * (x - a), x) / root[-1]
    assert float(errors.endpoint[0]) == pytest.approx(float(moved), rel=0.01)
    assert float(errors.drift[0]) == pytest.approx(e * abs(float(b - a)), rel=0.01)
    torch.testing.assert_close(errors.endpoint, errors.endpoint[:1].expand(3), rtol=1e-9, atol=0)


def test_a_scaled_metric_has_the_same_geodesics(grid):
    scaled = Grid(grid.positions, grid.log_sqrt + 0.7, grid.symbol)
    errors = check(scaled, BoundaryValueProblem.all_pairs(STATIONS))
    assert errors.endpoint.abs().max() <= 1e-11
    assert errors.drift.max() <= 1e-10


def test_the_grid_of_another_metric_is_seen():
    other = direct_grid(random_metric(62, 2.0), WAVELENGTHS, nodes(300))
    errors = check(other, BoundaryValueProblem.all_pairs(STATIONS))
    assert errors.endpoint.abs().max() > 1e-2
    assert errors.drift.max() > 1e-2


def test_a_grid_too_coarse_for_its_metric_is_seen():
    sharp = random_metric(61, 4.0)
    grid = direct_grid(sharp, WAVELENGTHS, nodes(20))
    problem = BoundaryValueProblem.all_pairs(STATIONS)
    closed_form = ClosedForm(grid)
    solved = closed_form.solve(problem, 1.0)
    errors = network_errors(sharp, closed_form, problem, solved, WAVELENGTHS, rows=50, seed=0)
    assert errors.endpoint.abs().max() > 1e-4
    assert errors.drift.max() > 1e-3


def test_float32_geodesics_are_checked_in_float64_to_rounding(grid):
    single = Grid(grid.positions.float(), grid.log_sqrt.float(), grid.symbol.float())
    problem = BoundaryValueProblem.all_pairs(STATIONS.float())
    with NoWideningMove():
        errors = check(single, problem)
    assert errors.endpoint.dtype == errors.drift.dtype == torch.float64
    assert errors.endpoint.abs().max() <= 1e-6
    assert errors.drift.max() <= 1e-6


def test_rows_that_have_not_converged_are_left_out(grid):
    problem = BoundaryValueProblem.all_pairs(STATIONS)
    closed_form = ClosedForm(grid)
    solved = closed_form.solve(problem, 1.0)
    missed = solved.v0 + torch.where(torch.arange(12)[:, None] % 2 == 0, 0.1, 0.0)
    status = (missed != solved.v0).to(torch.uint8)
    partly = replace(solved, v0=missed, status=status)
    errors = network_errors(METRIC, closed_form, problem, partly, WAVELENGTHS, rows=40, seed=0)
    assert errors.endpoint.shape == (40,)
    assert errors.endpoint.abs().max() <= 1e-11
    trusted = replace(partly, status=0 * status)
    errors = network_errors(METRIC, closed_form, problem, trusted, WAVELENGTHS, rows=40, seed=0)
    assert errors.endpoint.abs().max() > 1e-2


def test_nothing_is_checked_where_nothing_has_converged(grid):
    problem = BoundaryValueProblem.all_pairs(STATIONS)
    closed_form = ClosedForm(grid)
    solved = closed_form.solve(problem, 1.0)
    missed = replace(solved, status=torch.ones_like(solved.status))
    errors = network_errors(METRIC, closed_form, problem, missed, WAVELENGTHS, rows=50, seed=0)
    assert errors.endpoint.shape == errors.drift.shape == (0,)


def test_geodesics_between_random_positions_of_an_exact_grid(grid):
    errors = grid_geodesic_errors(METRIC, grid, WAVELENGTHS, rows=200, seed=0)
    assert errors.v0.shape == errors.endpoint.shape == (200,)
    assert errors.v0.abs().max() <= 1e-10
    assert errors.endpoint.abs().max() <= 1e-10
    other = grid_geodesic_errors(METRIC, grid, WAVELENGTHS, rows=200, seed=1)
    assert not torch.equal(other.v0, errors.v0)


def test_a_known_error_of_the_grid_reaches_velocities_between_random_positions(grid):
    """With ln sqrt(g) + e x and the flat network the velocity is exactly (exp(e d) - 1) / e."""
    flat = METRIC.network.detached()
    for part in flat.parameters[:2]:
        part.zero_()
    e, metric = 1e-3, Metric(flat)
    level = metric.log_sqrt(torch.zeros(1, 1).double(), torch.zeros(1).double())[0]
    x = grid.positions[:, None]
    tilted = Grid(grid.positions, (level + e * x).expand(-1, 3), e + 0 * x.expand(-1, 3))
    errors = grid_geodesic_errors(metric, tilted, WAVELENGTHS, rows=100, seed=0)
    # v0 is off by e d^2 / 2 and, as sqrt(g) is the same everywhere, so is the endpoint
    assert 0.8 * e / 2 < errors.v0.max() <= 1.01 * e * 4 / 2
    assert (errors.v0 > 0).all()
    torch.testing.assert_close(errors.endpoint, errors.v0, rtol=1e-9, atol=1e-14)
