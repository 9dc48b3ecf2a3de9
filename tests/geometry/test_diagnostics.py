import math

import numpy as np
import pytest
import torch

from geonode.errors import GeometryError
from geonode.geometry.diagnostics import (
    CHECK_WAVELENGTHS,
    GridCheck,
    error_statistics,
    metric_statistics,
)
from geonode.geometry.grid import Grid
from tests.geometry.closed_forms import DirectSource, exponential, grid_of, nodes, random_metric
from tests.geometry.precision import NoWideningMove

METRIC = random_metric(31, 2.0, models=3)
WAVELENGTHS = nodes(40)


@pytest.fixture(scope="module")
def grid():
    return DirectSource(METRIC, WAVELENGTHS).grid(0, nodes(400))


def check(grid, positions=10, model=0, tolerance=1.0, wavelengths=WAVELENGTHS):
    return GridCheck(METRIC, wavelengths, positions, tolerance)(model, grid)


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
    found = check(grid, 100)
    for error, bound in zip(found[:2], (1e-10, 1e-7), strict=True):
        assert error.shape == (106, CHECK_WAVELENGTHS)
        assert bound / 100 < error.abs().max() <= bound
    other = DirectSource(METRIC, WAVELENGTHS).grid(2, nodes(400))
    assert check(other, model=2).symbol.abs().max() <= 1e-7
    with pytest.raises(GeometryError, match="lookups of model 2 are off"):
        check(grid, model=2, tolerance=1e-3)


def test_errors_of_known_size_are_seen(grid):
    exact = check(grid)
    wrong = check(Grid(grid.positions, grid.log_sqrt + 1e-3, grid.symbol - 2e-2))
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
    assert check(wrong, 1).symbol.abs().max() > 5e-3
    with pytest.raises(GeometryError, match=r"more than christoffel\.tolerance, 0\.005"):
        check(wrong, 1, tolerance=5e-3)


def test_a_resolution_that_misses_the_tolerance_is_refused_and_one_that_suffices_named():
    source, tolerance = DirectSource(METRIC, WAVELENGTHS), 1e-6
    with pytest.raises(GeometryError, match=r"resolution: found 20, expected about \d+ ") as error:
        check(source.grid(0, nodes(20)), 500, tolerance=tolerance)
    enough = int(str(error.value).split("about ")[1].split()[0])
    assert 50 < enough < 400
    check(source.grid(0, nodes(round(1.3 * enough))), 500, tolerance=tolerance)
    with pytest.raises(GeometryError, match="resolution"):
        check(source.grid(0, nodes(enough // 3)), 500, tolerance=tolerance)


def test_few_wavelengths_and_a_float32_grid(grid):
    few = grid.at_wavelengths(torch.arange(3))
    single = Grid(few.positions.float(), few.log_sqrt.float(), few.symbol.float())
    with NoWideningMove():
        found = check(single, 20, wavelengths=WAVELENGTHS[:3].float())
    assert found.log_sqrt.shape == (26, 3)
    assert found.log_sqrt.dtype == torch.float64
    assert found.log_sqrt.abs().max() <= 1e-6


@pytest.mark.parametrize("a", [0.7, -1.2])
def test_statistics_of_an_exponential_against_closed_forms(a):
    found = check(grid_of([exponential(a)] * 40, nodes(2001)), tolerance=10.0)
    mean = math.sinh(2 * a) / (2 * a)
    assert found.lowest == pytest.approx(math.exp(-2 * abs(a)), rel=1e-14)
    assert found.highest == pytest.approx(math.exp(2 * abs(a)), rel=1e-14)
    assert found.variance == pytest.approx(math.sinh(4 * a) / (4 * a) - mean**2, rel=1e-5)
    assert found.roughness == pytest.approx(a**2, rel=1e-13)


def test_several_members_share_one_range_and_mean(grid):
    one = check(grid)._replace(lowest=0.5, highest=2.0, variance=0.1, roughness=1.0)
    other = one._replace(lowest=0.7, highest=3.0, variance=0.2, roughness=3.0)
    expected = {"lowest": 0.5, "highest": 3.0, "variance": 0.15, "roughness": 2.0}
    assert metric_statistics([one, other]) == pytest.approx(expected, rel=1e-15)
