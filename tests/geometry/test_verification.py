import pytest
import torch

from geonode.errors import GeometryError
from geonode.geometry.grid import Grid
from geonode.geometry.problem import BoundaryValueProblem
from geonode.geometry.solvers.closed_form import ClosedForm
from geonode.geometry.verification import arc_length, grid_errors, network_errors
from tests.geometry.closed_forms import KNOWN, DirectSource, field_of, nodes, random_metric
from tests.geometry.precision import NoWideningMove

METRIC = random_metric(61, 2.0)
WAVELENGTHS = torch.tensor([-0.8, 0.1, 0.7], dtype=torch.float64)
STATIONS = torch.tensor([-1.0, -0.4, 0.3, 1.0], dtype=torch.float64)
PROBLEM = BoundaryValueProblem.all_pairs(STATIONS)


GRID = DirectSource(METRIC, WAVELENGTHS).grid(0, nodes(2000))


def check(grid, problem=PROBLEM, rows=50, column=None, change=lambda found: found):
    """Errors on the network of random rows, or of rows at one wavelength."""
    wavelengths = WAVELENGTHS.to(problem.stations)
    if column is not None:
        grid, wavelengths = grid.at_wavelengths(torch.tensor([column])), wavelengths[[column]]
    solved = change(ClosedForm(grid).solve(problem, 1.0))
    return network_errors(METRIC, grid, problem, solved, wavelengths, rows=rows, seed=0)


@pytest.mark.parametrize("scale", [0.0, 0.7])
def test_an_exact_grid_has_no_errors_nor_has_one_of_a_scaled_metric(scale):
    errors = check(Grid(GRID.positions, GRID.log_sqrt + scale, GRID.symbol))
    assert errors.endpoint.shape == errors.drift.shape == (50,)
    assert errors.endpoint.abs().max() <= 1e-11
    assert errors.drift.max() <= 1e-10


@pytest.mark.parametrize(("source", "target", "column"), [(0, 3, 0), (3, 0, 2), (1, 2, 2)])
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

    def largest(lost):
        def change(solution):
            return solution._replace(v0=solution.v0 + missed, converged=~lost)

        return check(GRID, rows=40, change=change).endpoint.abs().amax()

    assert largest(missed != 0) <= 1e-11
    assert largest(missed < 0) > 1e-2
    none = check(GRID, change=lambda found: found._replace(converged=missed < 0))
    assert none.endpoint.shape == none.drift.shape == (0,)


# quadrature along every path

STARTS = torch.tensor([-1.0, 1.0, -0.4, 0.9, 0.2]).double()
ENDS = torch.tensor([1.0, -1.0, 0.9, -0.4, 0.201]).double()


@pytest.mark.parametrize("known", KNOWN)
def test_lengths_of_known_metrics(known):
    field = field_of([known] * len(STARTS))
    lengths = known.arc_length(ENDS) - known.arc_length(STARTS)
    torch.testing.assert_close(arc_length(field, STARTS, ENDS), lengths, rtol=0, atol=1e-14)


# grids

SHARP = random_metric(31, 2.0, models=3)
MANY = nodes(40)


@pytest.fixture(scope="module")
def grid():
    return DirectSource(SHARP, MANY).grid(0, nodes(400))


def check_grid(grid, model=0, tolerance=1.0, wavelengths=MANY):
    return grid_errors(SHARP, wavelengths, tolerance, model, grid)


def test_an_exact_grid_has_the_errors_of_its_lookup_only(grid):
    for error, bound in zip(check_grid(grid), (1e-10, 1e-7), strict=True):
        assert bound / 100 < error <= bound
    with pytest.raises(GeometryError, match="lookups of model 2 are off"):
        check_grid(grid, model=2, tolerance=1e-3)
    few = grid.at_wavelengths(torch.arange(3))
    single = Grid(few.positions.float(), few.log_sqrt.float(), few.symbol.float())
    with NoWideningMove():
        assert check_grid(single, wavelengths=MANY[:3].float())[0] <= 1e-6


def test_errors_of_known_size_are_seen(grid):
    log_sqrt, symbol = check_grid(Grid(grid.positions, grid.log_sqrt + 1e-3, grid.symbol - 2e-2))
    # The cubic of ln sqrt(g) bends with its slopes, by at most 2e-2 h / 4 inside a cell.
    assert log_sqrt == pytest.approx(1e-3, abs=2e-2 * (2 / 399) / 4)
    assert symbol == pytest.approx(2e-2, abs=1e-7)


@pytest.mark.parametrize("cell", [0, -1])
def test_an_error_in_a_cell_at_an_end_is_always_seen(grid, cell):
    """A random position in 399 cells misses it most of the time."""
    symbol = grid.symbol.clone()
    symbol[cell] += 1e-2
    wrong = Grid(grid.positions, grid.log_sqrt, symbol)
    with pytest.raises(GeometryError, match=r"more than christoffel\.tolerance, 0\.005"):
        check_grid(wrong, tolerance=5e-3)


def test_a_resolution_that_misses_the_tolerance_is_refused_and_one_that_suffices_named():
    source, tolerance = DirectSource(SHARP, MANY), 1e-6
    with pytest.raises(GeometryError, match=r"resolution: found 20, expected about \d+ ") as error:
        check_grid(source.grid(0, nodes(20)), tolerance=tolerance)
    enough = int(str(error.value).split("about ")[1].split()[0])
    assert 50 < enough < 400
    check_grid(source.grid(0, nodes(round(1.3 * enough))), tolerance=tolerance)
