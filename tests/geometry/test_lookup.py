import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import CubicHermiteSpline

from geonode.geometry.grid import Grid
from geonode.geometry.lookup import hermite
from tests.geometry.closed_forms import (
    KNOWN,
    RECIPROCAL,
    constant,
    exponential,
    grid_of,
    nodes,
    order,
    stretched,
    valley,
)
from tests.geometry.precision import NoFloat64

WAVES = RECIPROCAL._replace(
    log_sqrt=lambda x: 0.3 * torch.sin(3 * x), symbol=lambda x: 0.9 * torch.cos(3 * x)
)
CURVED = (RECIPROCAL, WAVES)
MAKE = pytest.mark.parametrize("make", [nodes, stretched])


def random(rows, points=500, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    return (2 * torch.rand(rows, points, generator=generator, dtype=torch.float64) - 1).to(dtype)


def exact(metrics, positions):
    """Ln sqrt(g) and symbol of one metric for each row, in float64."""
    rows = list(zip(metrics, positions.double(), strict=True))
    return (
        torch.stack([metric.log_sqrt(x) for metric, x in rows]),
        torch.stack([metric.symbol(x) for metric, x in rows]),
    )


def errors(metrics, positions, points):
    """Largest error of ln sqrt(g) and of the symbol, of every row."""
    found = hermite(grid_of(metrics, positions), points, torch.arange(len(metrics)))
    truth = exact(metrics, points)
    return [(one - other).abs().amax(1) for one, other in zip(found, truth, strict=True)]


@MAKE
def test_orders_of_ln_sqrt_g_and_of_the_symbol(make):
    resolutions = [20, 40, 80, 160]
    steps = [1 / n for n in resolutions]
    found = [errors(CURVED, make(n + 1), random(2)) for n in resolutions]
    for quantity, expected in enumerate((4, 3)):
        for column in range(len(CURVED)):
            series = [float(error[quantity][column]) for error in found]
            assert order(steps, series) == pytest.approx(expected, abs=0.3)


def test_errors_are_those_of_the_textbook():
    # Away from the ends, where the slopes of G are one-sided.
    step, inside = 2 / 50, 0.9 * random(1)
    log_sqrt, symbol = (float(part) for part in errors([WAVES], nodes(51), inside))
    bound = step**4 / 384 * 0.3 * 3**4
    assert 0.9 * bound < log_sqrt <= bound
    # Slopes off by h^2 / 6 G''' add up to t (1 - t) (1 - 2 t) h^3 / 6 G''', at most at 0.2113.
    bound = step**3 / 6 * 0.0962251 * 0.3 * 3**4
    assert 0.8 * bound < symbol <= 1.2 * bound


@MAKE
def test_nodes_are_looked_up_exactly(make):
    grid = grid_of(KNOWN, make(41))
    at = grid.positions.expand(len(KNOWN), -1)
    log_sqrt, symbol = hermite(grid, at, torch.arange(len(KNOWN)))
    assert torch.equal(log_sqrt.T[:-1], grid.log_sqrt[:-1])
    assert torch.equal(symbol.T[:-1], grid.symbol[:-1])
    # At the far end of a cell one rounding is left.
    torch.testing.assert_close(log_sqrt.T, grid.log_sqrt, rtol=1e-14, atol=2e-15)
    torch.testing.assert_close(symbol.T, grid.symbol, rtol=1e-14, atol=2e-15)


def test_what_a_lookup_can_hold_is_exact_on_any_nodes():
    positions = torch.tensor([-1.0, -0.9, 0.2, 0.25, 1.0], dtype=torch.float64)
    found = errors([exponential(2.0), constant(3.0), valley(0.3)], positions, random(3))
    assert max(float(part.max()) for part in found) <= 4e-15


def test_symbols_that_are_parabolas_are_exact_on_any_nodes():
    # Slopes from parabolas are then right: ln sqrt(g) = x^3 / 3 - x, G = x^2 - 1.
    cubic = RECIPROCAL._replace(log_sqrt=lambda x: x**3 / 3 - x, symbol=lambda x: x**2 - 1)
    positions = torch.tensor([-1.0, -0.9, 0.2, 0.25, 1.0], dtype=torch.float64)
    assert max(float(part) for part in errors([cubic], positions, random(1))) <= 4e-15


def test_hermite_against_scipy():
    generator = np.random.default_rng(0)
    x = np.sort(np.concatenate([[-1, 1], generator.uniform(-1, 1, 30)]))
    values, slopes = generator.normal(size=(2, 32, 4))
    grid = Grid(*(torch.from_numpy(part) for part in (x, values, slopes)))
    points = random(4)
    log_sqrt, symbol = hermite(grid, points, torch.arange(4))
    parabolas = np.gradient(slopes, x, axis=0, edge_order=2)
    for row in range(4):
        at = points[row].numpy()
        expected = CubicHermiteSpline(x, values[:, row], slopes[:, row])(at)
        np.testing.assert_allclose(log_sqrt[row], expected, atol=1e-13)
        expected = CubicHermiteSpline(x, slopes[:, row], parabolas[:, row])(at)
        scale = np.abs(parabolas[:, row]).max()
        np.testing.assert_allclose(symbol[row], expected, atol=1e-14 * scale)


def test_every_row_reads_its_own_column():
    grid = grid_of(KNOWN, stretched(200))
    chosen = torch.tensor([4, 0, 2, 2, 1, 3])
    points = random(len(chosen))
    found = hermite(grid, points, chosen)
    truth = exact([KNOWN[column] for column in chosen.tolist()], points)
    for one, other in zip(found, truth, strict=True):
        assert (one - other).abs().max() <= 2e-3
    alone = hermite(grid.at_wavelengths(chosen), points, torch.arange(len(chosen)))
    for one, other in zip(found, alone, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=4e-15)


@settings(deadline=None, max_examples=25)
@given(st.floats(1.0, 1e6))
def test_positions_beyond_the_nodes_are_taken_at_the_nearer_end(beyond):
    grid = grid_of(KNOWN, stretched(9))
    grid = Grid(0.5 * grid.positions, grid.log_sqrt, grid.symbol)  # ends at -1/2 and 1/2
    ends = torch.tensor([-0.5, 0.5], dtype=torch.float64).expand(len(KNOWN), -1)
    rows = torch.arange(len(KNOWN))
    for out, end, table in zip(
        hermite(grid, beyond * ends, rows),
        hermite(grid, ends, rows),
        (grid.log_sqrt, grid.symbol),
        strict=True,
    ):
        assert torch.equal(out, end)
        torch.testing.assert_close(end.T, table[[0, -1]], rtol=1e-14, atol=1e-15)


def test_positions_that_are_not_numbers_stay_so():
    points = torch.tensor([[0.1, torch.nan]], dtype=torch.float64)
    for values in hermite(grid_of(KNOWN, nodes(9)), points, torch.tensor([1])):
        assert torch.isnan(values).tolist() == [[False, True]]


def test_a_column_that_is_not_there_is_refused():
    with pytest.raises(IndexError):
        hermite(grid_of(KNOWN, nodes(9)), random(1), torch.tensor([len(KNOWN)]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rows_and_points_do_not_influence_each_other(dtype):
    grid = grid_of(KNOWN, stretched(100, dtype))
    columns = torch.arange(37) % len(KNOWN)
    points = random(37, 41, dtype)
    whole = hermite(grid, points, columns)
    for rows in ([5], [36, 0], [2, 2, 1], list(range(36, -1, -1))):
        for part, all_rows in zip(hermite(grid, points[rows], columns[rows]), whole, strict=True):
            assert torch.equal(part, all_rows[rows])
    for part, all_points in zip(hermite(grid, points[:, 3:4], columns), whole, strict=True):
        assert torch.equal(part, all_points[:, 3:4])


def test_float32_loses_no_more_than_rounding():
    points = random(len(KNOWN), 5000, torch.float32)
    grid = grid_of(KNOWN, nodes(2000, torch.float32))
    with NoFloat64():
        found = hermite(grid, points, torch.arange(len(KNOWN)))
    for one, other in zip(found, exact(KNOWN, points), strict=True):
        assert one.dtype == torch.float32
        assert (one - other).abs().max() <= 1e-6


def test_the_derivative_of_the_cubic_would_carry_the_rounding_a_hundredfold():
    """Why `hermite` does not differentiate ln sqrt(g): the same grid by scipy, in float64."""
    points = random(1, 5000)
    grid = grid_of([RECIPROCAL], nodes(2000, torch.float32))
    tables = (
        part.double().numpy().squeeze() for part in (grid.positions, grid.log_sqrt, grid.symbol)
    )
    derivative = CubicHermiteSpline(*tables)(points[0].numpy(), 1)
    truth = RECIPROCAL.symbol(points[0])
    _, symbol = hermite(grid, points.float(), torch.tensor([0]))
    assert abs(derivative - truth.numpy()).max() > 100 * (symbol[0] - truth).abs().max()


def test_gradients_with_respect_to_positions():
    grid, rows = grid_of(CURVED, stretched(7)), torch.tensor([1, 0, 1])
    points = random(3, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda at: hermite(grid, at, rows), points)
