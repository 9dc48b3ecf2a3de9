import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import CubicHermiteSpline

from geonode.geometry.chebyshev import expand
from geonode.geometry.grid import (
    Grid,
    chebyshev_grids,
    direct_grids,
    hermite,
    linear,
    moved,
    uniform_nodes,
)
from tests.geometry.closed_forms import (
    CPU,
    KNOWN,
    RECIPROCAL,
    columns,
    constant,
    exponential,
    grid_of,
    nodes,
    order,
    random_metric,
    valley,
)
from tests.geometry.precision import NoWideningMove

WAVES = RECIPROCAL._replace(
    log_sqrt=lambda x: 0.3 * torch.sin(3 * x), symbol=lambda x: 0.9 * torch.cos(3 * x)
)
CURVED = (RECIPROCAL, WAVES)
RANDOM = torch.rand(500, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 2 - 1


def stretched(resolution):
    """Nodes of which neighbouring cells differ by up to a factor of about 5."""
    x = nodes(resolution)
    return x + 0.2 * torch.sin(torch.pi * x)


def test_uniform_nodes_end_exactly_and_are_evenly_spaced():
    for dtype in (torch.float32, torch.float64):
        x = uniform_nodes(2000, CPU, dtype)
        assert (x[0], x[-1]) == (-1, 1)
        np.testing.assert_allclose(x, np.linspace(-1, 1, 2000), atol=2 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("positions", [nodes(150), stretched(150)], ids=["uniform", "stretched"])
def test_chebyshev_and_direct_grids_agree(positions):
    metric = random_metric(21, 2.0, models=3)
    w = nodes(20)
    fast = chebyshev_grids(metric, w, positions, tolerance=1e-10, largest_degree=192)
    slow = direct_grids(metric, w, positions)
    assert fast.models == slow.models == 3
    assert slow.calls == 150 * 20
    assert fast.calls == expand(metric, 1e-10, 192).calls
    for one, other in zip(fast, slow, strict=True):
        assert torch.equal(one.positions, other.positions)
        torch.testing.assert_close(one.log_sqrt, other.log_sqrt, rtol=0, atol=1e-11)
        torch.testing.assert_close(one.symbol, other.symbol, rtol=0, atol=1e-9)


def test_direct_grid_holds_the_values_of_its_own_model():
    metric = random_metric(22, 1.0, models=2)
    w = nodes(7)
    grid = direct_grids(metric, w, nodes(300)).build(1)
    log_sqrt, symbol = metric[1].at_points(grid.positions[None, [140]], w[None, [5]])
    torch.testing.assert_close(grid.log_sqrt[140, 5], log_sqrt[0, 0], rtol=1e-13, atol=1e-15)
    torch.testing.assert_close(grid.symbol[140, 5], symbol[0, 0], rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("make", ["chebyshev", "direct"])
def test_float32_grids_lose_no_more_than_rounding(make):
    metric = random_metric(21, 2.0)
    w, x = nodes(20), nodes(150, torch.float32)
    grid = (
        direct_grids(metric, w, x)
        if make == "direct"
        else chebyshev_grids(metric, w, x, tolerance=1e-10, largest_degree=192)
    ).build(0)
    log_sqrt, symbol = metric.with_symbol(x.double()[None], w)
    assert grid.log_sqrt.dtype == grid.symbol.dtype == torch.float32
    assert (grid.log_sqrt - log_sqrt[0]).abs().max() <= 1e-6
    assert (grid.symbol - symbol[0]).abs().max() <= 2e-6 * symbol.abs().max()


@pytest.mark.parametrize("positions", [nodes(41), stretched(41)], ids=["uniform", "stretched"])
def test_lookups_at_nodes_are_exact(positions):
    grid = grid_of(KNOWN, positions)
    assert torch.equal(hermite(grid, positions[:-1]), grid.log_sqrt[:-1])
    assert torch.equal(linear(grid, positions), grid.symbol)
    # At the far end of the last cell one rounding is left.
    torch.testing.assert_close(
        hermite(grid, positions[-1:]), grid.log_sqrt[-1:], rtol=4e-16, atol=1e-16
    )


@pytest.mark.parametrize("make", [nodes, stretched])
def test_order_of_the_lookups(make):
    resolutions = [20, 40, 80, 160]
    exact = (
        columns([m.log_sqrt for m in CURVED], RANDOM),
        columns([m.symbol for m in CURVED], RANDOM),
    )
    grids = [grid_of(CURVED, make(n + 1)) for n in resolutions]
    steps = [1 / n for n in resolutions]
    for column in range(len(CURVED)):
        for lookup, truth, expected in ((hermite, exact[0], 4), (linear, exact[1], 2)):
            errors = [(lookup(g, RANDOM) - truth)[:, column].abs().max() for g in grids]
            assert order(steps, errors) == pytest.approx(expected, abs=0.3)


def test_errors_stay_below_the_stated_bounds():
    step = 2 / 50
    grid = grid_of([WAVES], nodes(51))
    bound = step**4 / 384 * 0.3 * 3**4
    error = (hermite(grid, RANDOM) - WAVES.log_sqrt(RANDOM)[:, None]).abs().max()
    assert 0.9 * bound < error <= bound
    bound = step**2 / 8 * 0.3 * 3**3
    error = (linear(grid, RANDOM) - WAVES.symbol(RANDOM)[:, None]).abs().max()
    assert 0.9 * bound < error <= bound


def test_cubics_and_lines_are_looked_up_exactly_on_any_nodes():
    metrics = [exponential(2.0), constant(3.0), valley(0.3)]
    grid = grid_of(metrics, torch.tensor([-1.0, -0.9, 0.2, 0.25, 1.0], dtype=torch.float64))
    for lookup, functions in ((hermite, "log_sqrt"), (linear, "symbol")):
        expected = columns([getattr(metric, functions) for metric in metrics], RANDOM)
        torch.testing.assert_close(lookup(grid, RANDOM), expected, rtol=0, atol=1e-15)


def test_hermite_lookup_against_scipy():
    generator = np.random.default_rng(0)
    x = np.sort(np.concatenate([[-1, 1], generator.uniform(-1, 1, 30)]))
    values, slopes = generator.normal(size=(2, 32, 4))
    grid = Grid(*(torch.from_numpy(part) for part in (x, values, slopes)))
    expected = CubicHermiteSpline(x, values, slopes)(RANDOM.numpy())
    np.testing.assert_allclose(hermite(grid, RANDOM), expected, atol=1e-13)


@settings(deadline=None, max_examples=30)
@given(st.floats(1.0, 1e6), st.sampled_from([hermite, linear]))
def test_points_beyond_the_nodes_are_taken_at_the_ends(beyond, lookup):
    grid = grid_of(KNOWN, stretched(9))
    ends = torch.tensor([-1.0, 1.0], dtype=torch.float64)
    assert torch.equal(lookup(grid, beyond * ends), lookup(grid, ends))


def test_a_grid_of_some_wavelengths():
    grid = grid_of(KNOWN, nodes(12)).at_wavelengths(torch.tensor([3, 0, 3]))
    chosen = grid_of([KNOWN[3], KNOWN[0], KNOWN[3]], nodes(12))
    assert torch.equal(grid.log_sqrt, chosen.log_sqrt)
    assert torch.equal(grid.symbol, chosen.symbol)


def test_copies_in_another_format_are_moved_before_they_are_widened():
    like = torch.empty(0, dtype=torch.float64)
    grid = grid_of(KNOWN, nodes(12, torch.float32))
    grids = direct_grids(random_metric(0), nodes(3, torch.float32), nodes(4, torch.float32))
    with NoWideningMove():
        double = grid.to(like)
        grids.build(0)
        with pytest.raises(TypeError, match="at once"):
            grid.positions.to(like)
    assert torch.equal(double.symbol, grid.symbol.double())
    assert torch.equal(moved(grid.positions, like), grid.positions.double())
