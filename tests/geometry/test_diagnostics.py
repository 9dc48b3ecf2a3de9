import math

import numpy as np
import pytest
import torch

from geonode.geometry.diagnostics import (
    CHECK_WAVELENGTHS,
    MetricStatistics,
    error_statistics,
    grid_errors,
    metric_statistics,
    over_models,
)
from geonode.geometry.grid import Grid
from tests.geometry.closed_forms import (
    DirectSource,
    exponential,
    grid_of,
    nodes,
    random_metric,
    stretched,
)
from tests.geometry.precision import NoWideningMove

METRIC = random_metric(31, 2.0)
WAVELENGTHS = nodes(40)


@pytest.fixture(scope="module")
def grid():
    return DirectSource(METRIC, WAVELENGTHS).grid(0, nodes(400))


def errors_of(grid, positions=10, seed=0):
    return grid_errors(grid, METRIC, WAVELENGTHS, positions=positions, seed=seed)


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
    errors = errors_of(grid, 100)
    for error, bound in zip(errors, (1e-10, 1e-7), strict=True):
        assert error.shape == (106, CHECK_WAVELENGTHS)
        assert bound / 100 < error.abs().max() <= bound
    again, other = errors_of(grid, 100), errors_of(grid, 100, seed=1)
    assert torch.equal(errors.symbol, again.symbol)
    assert not torch.equal(errors.symbol, other.symbol)


def test_errors_of_known_size_are_seen(grid):
    exact = errors_of(grid)
    wrong = errors_of(Grid(grid.positions, grid.log_sqrt + 1e-3, grid.symbol - 2e-2))
    # The cubic of ln sqrt(g) bends with its slopes, by at most 2e-2 h / 4 inside a cell.
    shift = wrong.log_sqrt - exact.log_sqrt
    np.testing.assert_allclose(shift, 1e-3, rtol=0, atol=2e-2 * (2 / 399) / 4)
    np.testing.assert_allclose(wrong.symbol - exact.symbol, -2e-2, rtol=1e-10)
    turned = errors_of(grid.at_wavelengths(torch.arange(40).flip(0)))
    assert turned.log_sqrt.abs().max() > 1e4 * exact.log_sqrt.abs().max()


@pytest.mark.parametrize("cell", [0, -1])
def test_an_error_in_a_cell_at_an_end_is_always_seen(grid, cell):
    """Random positions, 64 in 399 cells, miss it most of the time."""
    symbol = grid.symbol.clone()
    symbol[cell] += 1e-2
    for seed in range(5):
        errors = errors_of(Grid(grid.positions, grid.log_sqrt, symbol), 1, seed)
        assert errors.symbol.abs().max() > 5e-3


def test_few_wavelengths_and_a_float32_grid(grid):
    few = grid.at_wavelengths(torch.arange(3))
    single = Grid(few.positions.float(), few.log_sqrt.float(), few.symbol.float())
    with NoWideningMove():
        errors = grid_errors(single, METRIC, WAVELENGTHS[:3].float(), positions=20, seed=0)
    assert errors.log_sqrt.shape == (26, 3)
    assert errors.log_sqrt.dtype == torch.float64
    assert errors.log_sqrt.abs().max() <= 1e-6


@pytest.mark.parametrize("make", [nodes, stretched])
@pytest.mark.parametrize("a", [0.7, -1.2])
def test_statistics_of_an_exponential_against_closed_forms(make, a):
    found = metric_statistics(grid_of([exponential(a)], make(2001)))
    mean = math.sinh(2 * a) / (2 * a)
    assert found.lowest == pytest.approx(math.exp(-2 * abs(a)), rel=1e-14)
    assert found.highest == pytest.approx(math.exp(2 * abs(a)), rel=1e-14)
    variance = math.sinh(4 * a) / (4 * a) - mean**2
    assert found.variance == pytest.approx(variance, rel=1e-5)
    assert found.roughness == pytest.approx(a**2, rel=1e-13)


def test_several_models_share_one_range_and_mean():
    models = [MetricStatistics(0.5, 2.0, 0.1, 1.0), MetricStatistics(0.7, 3.0, 0.2, 3.0)]
    assert over_models(iter(models)) == pytest.approx((0.5, 3.0, 0.15, 2.0), rel=1e-15)
