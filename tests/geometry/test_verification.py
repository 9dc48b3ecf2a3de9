import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from geonode.errors import GeometryError
from geonode.geometry.grid import Grid
from geonode.geometry.problem import BoundaryValueProblem
from geonode.geometry.solvers.closed_form import ClosedForm
from geonode.geometry.verification import (
    CHECK_WAVELENGTHS,
    GridCheck,
    arc_length,
    error_statistics,
    metric_statistics,
    network_errors,
)
from tests.geometry.closed_forms import (
    KNOWN,
    DirectSource,
    FormulaField,
    exponential,
    nodes,
    random_metric,
)
from tests.geometry.closed_forms import grid_of as exact_grid_of
from tests.geometry.precision import NoWideningMove

METRIC = random_metric(61, 2.0)
WAVELENGTHS = torch.tensor([-0.8, 0.1, 0.7], dtype=torch.float64)
STATIONS = torch.tensor([-1.0, -0.4, 0.3, 1.0], dtype=torch.float64)
PROBLEM = BoundaryValueProblem.all_pairs(STATIONS)


def grid_of(metric, resolution):
    return DirectSource(metric, WAVELENGTHS).grid(0, nodes(resolution))


GRID = grid_of(METRIC, 2000)


def check(grid, problem=PROBLEM, rows=50, column=None, change=lambda found: found):
    """Errors on the network of random rows, or of rows at one wavelength."""
    wavelengths = WAVELENGTHS.to(problem.stations)
    if column is not None:
        grid, wavelengths = grid.at_wavelengths(torch.tensor([column])), wavelengths[[column]]
    closed_form = ClosedForm(grid)
    solved = change(closed_form.solve(problem, 1.0))
    return network_errors(METRIC, closed_form, problem, solved, wavelengths, rows=rows, seed=0)


@pytest.mark.parametrize("scale", [0.0, 0.7])
def test_an_exact_grid_has_no_errors_nor_has_one_of_a_scaled_metric(scale):
    errors = check(Grid(GRID.positions, GRID.log_sqrt + scale, GRID.symbol))
    assert errors.endpoint.shape == errors.drift.shape == (50,)
    assert errors.endpoint.abs().max() <= 1e-11
    assert errors.drift.max() <= 1e-10


@pytest.mark.parametrize(("source", "target"), [(0, 3), (3, 0), (1, 2)])
@pytest.mark.parametrize("column", [0, 2])
def test_a_known_error_of_the_grid_has_the_predicted_effect(source, target, column):
    """With ln sqrt(g) + e x the endpoint moves by e times the integral of sqrt(g) (x - x_s) over
    sqrt(g) at the target, and the speed drifts by e |x_t - x_s|, both to first order in e.
    """
    e = 1e-4
    wrong = Grid(GRID.positions, GRID.log_sqrt + e * GRID.positions[:, None], GRID.symbol + e)
    problem = BoundaryValueProblem(STATIONS, torch.tensor([source]), torch.tensor([target]))
    errors = check(wrong, problem, 3, column)
    a, b = STATIONS[source], STATIONS[target]
    x = torch.linspace(float(a), float(b), 4001, dtype=torch.float64)
    root = METRIC(x[None], WAVELENGTHS[[column]])[0, :, 0].sqrt()
    moved = e * torch.trapezoid(root * (x - a), x) / root[-1]
    assert float(errors.endpoint[0]) == pytest.approx(float(moved), rel=0.01)
    assert float(errors.drift[0]) == pytest.approx(e * abs(float(b - a)), rel=0.01)
    torch.testing.assert_close(errors.endpoint, errors.endpoint[:1].expand(3), rtol=1e-9, atol=0)


def test_float32_geodesics_are_checked_in_float64_to_rounding():
    single = Grid(GRID.positions.float(), GRID.log_sqrt.float(), GRID.symbol.float())
    with NoWideningMove():
        errors = check(single, BoundaryValueProblem.all_pairs(STATIONS.float()))
    assert errors.endpoint.dtype == errors.drift.dtype == torch.float64
    assert errors.endpoint.abs().max() <= 1e-6
    assert errors.drift.max() <= 1e-6


def test_rows_that_have_not_converged_are_left_out():
    missed = torch.where(torch.arange(12)[:, None] % 2 == 0, 0.1, 0.0).expand(-1, 3)

    def partly(solution, lost):
        return replace(solution, v0=solution.v0 + missed, converged=~lost)

    errors = check(GRID, rows=40, change=lambda found: partly(found, missed != 0))
    assert errors.endpoint.shape == (40,)
    assert errors.endpoint.abs().max() <= 1e-11
    errors = check(GRID, rows=40, change=lambda found: partly(found, missed < 0))
    assert errors.endpoint.abs().max() > 1e-2
    errors = check(GRID, rows=40, change=lambda found: partly(found, missed >= 0))
    assert errors.endpoint.shape == errors.drift.shape == (0,)


# quadrature along every path

STARTS = torch.tensor([-1.0, 1.0, -0.4, 0.9, 0.2]).double()
ENDS = torch.tensor([1.0, -1.0, 0.9, -0.4, 0.201]).double()


@pytest.mark.parametrize("known", KNOWN)
def test_lengths_of_known_metrics(known):
    field = FormulaField([known] * len(STARTS))
    lengths = known.arc_length(ENDS) - known.arc_length(STARTS)
    torch.testing.assert_close(arc_length(field, STARTS, ENDS), lengths, rtol=0, atol=1e-14)


# grids

SHARP = random_metric(31, 2.0, models=3)
MANY = nodes(40)


@pytest.fixture(scope="module")
def grid():
    return DirectSource(SHARP, MANY).grid(0, nodes(400))


def check_grid(grid, positions=10, model=0, tolerance=1.0, wavelengths=MANY):
    return GridCheck(SHARP, wavelengths, positions, tolerance)(model, grid)


def test_statistics_of_errors_against_numpy():
    generator = torch.Generator().manual_seed(0)
    sizes = ((7, 5), (40,), (1, 1, 2))
    errors = [torch.randn(size, generator=generator).double() for size in sizes]
    magnitude = np.abs(np.concatenate([error.numpy().ravel() for error in errors]))
    expected = {
        "max": magnitude.max(),
        "rms": np.sqrt(np.mean(magnitude**2)),
        "median": np.median(magnitude),
        "q99": np.quantile(magnitude, 0.99),
    }
    assert error_statistics(errors) == pytest.approx(expected, rel=1e-14)
    not_a_number = error_statistics([torch.tensor([1.0, np.nan])])
    assert all(np.isnan(value) for value in not_a_number.values())


def test_an_exact_grid_has_the_errors_of_its_lookup_only(grid):
    found = check_grid(grid, 100)
    for error, bound in zip(found[:2], (1e-10, 1e-7), strict=True):
        assert error.shape == (106, CHECK_WAVELENGTHS)
        assert bound / 100 < error.abs().max() <= bound
    other = DirectSource(SHARP, MANY).grid(2, nodes(400))
    assert check_grid(other, model=2).symbol.abs().max() <= 1e-7
    with pytest.raises(GeometryError, match="lookups of model 2 are off"):
        check_grid(grid, model=2, tolerance=1e-3)


def test_errors_of_known_size_are_seen(grid):
    exact = check_grid(grid)
    wrong = check_grid(Grid(grid.positions, grid.log_sqrt + 1e-3, grid.symbol - 2e-2))
    # The cubic of ln sqrt(g) bends with its slopes, by at most 2e-2 h / 4 inside a cell.
    shift = wrong.log_sqrt - exact.log_sqrt
    np.testing.assert_allclose(shift, 1e-3, rtol=0, atol=2e-2 * (2 / 399) / 4)
    np.testing.assert_allclose(wrong.symbol - exact.symbol, -2e-2, rtol=1e-10)


@pytest.mark.parametrize("cell", [0, -1])
def test_an_error_in_a_cell_at_an_end_is_always_seen(grid, cell):
    """A random position in 399 cells misses it most of the time."""
    symbol = grid.symbol.clone()
    symbol[cell] += 1e-2
    wrong = Grid(grid.positions, grid.log_sqrt, symbol)
    assert check_grid(wrong, 1).symbol.abs().max() > 5e-3
    with pytest.raises(GeometryError, match=r"more than christoffel\.tolerance, 0\.005"):
        check_grid(wrong, 1, tolerance=5e-3)


def test_a_resolution_that_misses_the_tolerance_is_refused_and_one_that_suffices_named():
    source, tolerance = DirectSource(SHARP, MANY), 1e-6
    with pytest.raises(GeometryError, match=r"resolution: found 20, expected about \d+ ") as error:
        check_grid(source.grid(0, nodes(20)), 500, tolerance=tolerance)
    enough = int(str(error.value).split("about ")[1].split()[0])
    assert 50 < enough < 400
    check_grid(source.grid(0, nodes(round(1.3 * enough))), 500, tolerance=tolerance)
    with pytest.raises(GeometryError, match="resolution"):
        check_grid(source.grid(0, nodes(enough // 3)), 500, tolerance=tolerance)


def test_few_wavelengths_and_a_float32_grid(grid):
    few = grid.at_wavelengths(torch.arange(3))
    single = Grid(few.positions.float(), few.log_sqrt.float(), few.symbol.float())
    with NoWideningMove():
        found = check_grid(single, 20, wavelengths=MANY[:3].float())
    assert found.log_sqrt.shape == (26, 3)
    assert found.log_sqrt.dtype == torch.float64
    assert found.log_sqrt.abs().max() <= 1e-6


@pytest.mark.parametrize("a", [0.7, -1.2])
def test_statistics_of_an_exponential_against_closed_forms(a):
    found = check_grid(exact_grid_of([exponential(a)] * 40, nodes(2001)), tolerance=10.0)
    mean = math.sinh(2 * a) / (2 * a)
    assert found.lowest == pytest.approx(math.exp(-2 * abs(a)), rel=1e-14)
    assert found.highest == pytest.approx(math.exp(2 * abs(a)), rel=1e-14)
    assert found.variance == pytest.approx(math.sinh(4 * a) / (4 * a) - mean**2, rel=1e-5)
    assert found.roughness == pytest.approx(a**2, rel=1e-13)


def test_several_members_share_one_range_and_mean(grid):
    one = check_grid(grid)._replace(lowest=0.5, highest=2.0, variance=0.1, roughness=1.0)
    other = one._replace(lowest=0.7, highest=3.0, variance=0.2, roughness=3.0)
    expected = {"lowest": 0.5, "highest": 3.0, "variance": 0.15, "roughness": 2.0}
    assert metric_statistics([one, other]) == pytest.approx(expected, rel=1e-15)
