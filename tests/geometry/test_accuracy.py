import numpy as np
import pytest
import torch

from geonode.geometry.accuracy import CHECK_WAVELENGTHS, error_statistics, grid_errors
from geonode.geometry.grid import Grid
from geonode.geometry.sources import DirectSource
from tests.geometry.closed_forms import nodes, random_metric
from tests.geometry.precision import NoWideningMove

METRIC = random_metric(31, 2.0)
WAVELENGTHS = nodes(40)


@pytest.fixture(scope="module")
def grid():
    return DirectSource(METRIC, WAVELENGTHS).grid(0, nodes(400))


def test_statistics_against_numpy():
    generator = torch.Generator().manual_seed(0)
    errors = [
        torch.randn(size, generator=generator).double() for size in ((7, 5), (40,), (1, 1, 2))
    ]
    magnitude = np.abs(np.concatenate([error.numpy().ravel() for error in errors]))
    assert error_statistics(errors) == pytest.approx(
        {
            "max": magnitude.max(),
            "rms": np.sqrt(np.mean(magnitude**2)),
            "median": np.median(magnitude),
            "q99": np.quantile(magnitude, 0.99),
        },
        rel=1e-14,
    )


def test_statistics_do_not_hide_nan():
    assert all(
        np.isnan(value) for value in error_statistics([torch.tensor([1.0, np.nan])]).values()
    )


def test_an_exact_grid_has_the_errors_of_its_lookup_only(grid):
    errors = grid_errors(grid, METRIC, WAVELENGTHS, positions=100, seed=0)
    for error, bound in zip(errors, (1e-10, 1e-7), strict=True):
        assert error.shape == (106, CHECK_WAVELENGTHS)
        assert bound / 100 < error.abs().max() <= bound


def test_errors_of_known_size_are_seen(grid):
    exact = grid_errors(grid, METRIC, WAVELENGTHS, positions=10, seed=0)
    scaled = Grid(grid.positions, grid.log_sqrt + 1e-3, grid.symbol)
    errors = grid_errors(scaled, METRIC, WAVELENGTHS, positions=10, seed=0)
    np.testing.assert_allclose(errors.log_sqrt - exact.log_sqrt, 1e-3, rtol=1e-10)
    assert torch.equal(errors.symbol, exact.symbol)
    bent = Grid(grid.positions, grid.log_sqrt, grid.symbol - 2e-2)
    errors = grid_errors(bent, METRIC, WAVELENGTHS, positions=10, seed=0)
    np.testing.assert_allclose(errors.symbol - exact.symbol, -2e-2, rtol=1e-10)


def test_a_grid_of_other_wavelengths_is_seen(grid):
    turned = grid.at_wavelengths(torch.arange(40).flip(0))
    exact = grid_errors(grid, METRIC, WAVELENGTHS, positions=10, seed=0)
    errors = grid_errors(turned, METRIC, WAVELENGTHS, positions=10, seed=0)
    assert errors.log_sqrt.abs().max() > 1e4 * exact.log_sqrt.abs().max()


def test_choice_depends_on_the_seed_alone(grid):
    first, again, other = (
        grid_errors(grid, METRIC, WAVELENGTHS, positions=20, seed=seed).symbol for seed in (3, 3, 4)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_few_wavelengths_and_a_float32_grid(grid):
    few = grid.at_wavelengths(torch.arange(3)).to(torch.empty(0, dtype=torch.float32).double())
    single = Grid(few.positions.float(), few.log_sqrt.float(), few.symbol.float())
    with NoWideningMove():
        errors = grid_errors(single, METRIC, WAVELENGTHS[:3].float(), positions=20, seed=0)
    assert errors.log_sqrt.shape == (26, 3)
    assert errors.log_sqrt.dtype == torch.float64
    assert errors.log_sqrt.abs().max() <= 1e-6


@pytest.mark.parametrize("cell", [0, -1])
def test_an_error_in_a_cell_at_an_end_is_always_seen(grid, cell):
    """Random positions, 64 in 399 cells, miss it most of the time."""
    symbol = grid.symbol.clone()
    symbol[cell] += 1e-2
    for seed in range(5):
        bent = Grid(grid.positions, grid.log_sqrt, symbol)
        errors = grid_errors(bent, METRIC, WAVELENGTHS, positions=1, seed=seed)
        assert errors.symbol.abs().max() > 5e-3
