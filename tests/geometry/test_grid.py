import numpy as np
import pytest
import torch
from jaxtyping import config

from geonode.errors import GeometryError
from geonode.geometry.grid import Grid, moved, uniform_nodes
from tests.geometry.closed_forms import (
    CPU,
    KNOWN,
    RECIPROCAL,
    columns,
    grid_of,
    nodes,
    order,
    stretched,
)
from tests.geometry.precision import NoWideningMove


def test_uniform_nodes_end_exactly_and_are_evenly_spaced():
    for dtype in (torch.float32, torch.float64):
        x = uniform_nodes(2000, CPU, dtype)
        assert (x[0], x[-1]) == (-1, 1)
        assert x.dtype == dtype
        np.testing.assert_allclose(x, np.linspace(-1, 1, 2000), atol=2 * torch.finfo(dtype).eps)


@pytest.fixture
def unchecked():
    """Without the check of annotations, which tests alone have."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


def test_too_few_nodes_are_refused():
    assert len(uniform_nodes(4, CPU, torch.float64)) == 4
    for resolution in (3, 1, 0, -2):
        with pytest.raises(GeometryError, match=rf"resolution: found {resolution}, expected 4 or"):
            uniform_nodes(resolution, CPU, torch.float64)


@pytest.mark.parametrize(
    ("log_sqrt", "symbol", "named"),
    [
        ((5, 3), (6, 3), r"log_sqrt: found the shape \(5, 3\)"),
        ((6, 3), (5, 3), r"symbol: found the shape \(5, 3\)"),
        ((6, 3), (6, 2), r"symbol: found the shape \(6, 2\)"),
        ((6,), (6,), r"log_sqrt: found the shape \(6,\)"),
        ((1, 6, 3), (1, 6, 3), r"log_sqrt: found the shape \(1, 6, 3\)"),
    ],
)
def test_shapes_that_do_not_agree_are_refused(unchecked, log_sqrt, symbol, named):
    with pytest.raises(GeometryError, match=named + r".*positions of the shape \(6,\)"):
        Grid(nodes(6), torch.zeros(log_sqrt), torch.zeros(symbol))


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("table", ["log_sqrt", "symbol"])
def test_values_that_are_not_finite_are_named(table, value):
    grid = grid_of(KNOWN, nodes(12))
    grid.require_valid()
    getattr(grid, table)[7, 2] = value
    getattr(grid, table)[9, 0] = value
    message = rf"^{table}: found {value} at node 7, wavelength 2, expected finite values; train"
    with pytest.raises(GeometryError, match=message):
        grid.require_valid()


@pytest.mark.parametrize("bad", [[0, 2, 1, 3], [0, 1, 1, 3], [3, 2, 1, 0], [0, 1, float("nan"), 3]])
def test_nodes_out_of_order_are_refused(bad):
    positions = torch.tensor(bad, dtype=torch.float64)
    grid = Grid(positions, torch.zeros(4, 2).double(), torch.zeros(4, 2).double())
    with pytest.raises(GeometryError, match=r"positions: found .* expected ascending"):
        grid.require_valid()


@pytest.mark.parametrize("make", [nodes, stretched])
def test_bend_is_of_second_order_up_to_the_ends(make):
    metrics = (RECIPROCAL, KNOWN[4]._replace(symbol=lambda x: torch.sin(3 * x)))
    bends = (lambda x: 1 / (2 + x) ** 2, lambda x: 3 * torch.cos(3 * x))
    resolutions = [40, 80, 160, 320]
    errors = []
    for n in resolutions:
        grid = grid_of(metrics, make(n + 1))
        errors.append((grid.bend - columns(bends, grid.positions)).abs())
    steps = [1 / n for n in resolutions]
    for column in range(2):
        whole = [float(error[:, column].max()) for error in errors]
        assert order(steps, whole) == pytest.approx(2, abs=0.3)
        first = [float(error[0, column]) for error in errors]
        assert order(steps, first) == pytest.approx(2, abs=0.3)


def test_bend_against_numpy_on_any_nodes():
    x = np.sort(np.random.default_rng(0).uniform(-1, 1, 20))
    symbol = np.random.default_rng(1).normal(size=(20, 3))
    grid = Grid(*(torch.from_numpy(part) for part in (x, symbol, symbol)))
    expected = np.gradient(symbol, x, axis=0, edge_order=2)
    np.testing.assert_allclose(grid.bend, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(
    ("index", "metrics"),
    [(torch.tensor([3, 0, 3]), [3, 0, 3]), (slice(1, 3), [1, 2]), (slice(4, None), [4])],
)
def test_a_grid_of_some_wavelengths(index, metrics):
    grid = grid_of(KNOWN, nodes(12)).at_wavelengths(index)
    chosen = grid_of([KNOWN[metric] for metric in metrics], nodes(12))
    for name in ("positions", "log_sqrt", "symbol", "bend"):
        assert torch.equal(getattr(grid, name), getattr(chosen, name))


def test_copies_in_another_format_are_moved_before_they_are_widened():
    like = torch.empty(0, dtype=torch.float64)
    grid = grid_of(KNOWN, nodes(12, torch.float32))
    with NoWideningMove():
        double = grid.to(like)
        with pytest.raises(TypeError, match="at once"):
            grid.positions.to(like)
    for name in ("positions", "log_sqrt", "symbol"):
        assert torch.equal(getattr(double, name), getattr(grid, name).double())
    assert torch.equal(moved(grid.positions, like), grid.positions.double())
