import numpy as np
import pytest
import torch
from scipy.interpolate import CubicHermiteSpline

from geonode.geometry.grid import Grid
from tests.geometry.closed_forms import KNOWN, grid_of, nodes, stretched

MAKE = pytest.mark.parametrize("make", [nodes, stretched])


def random(rows, points=500, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    return (2 * torch.rand(rows, points, generator=generator, dtype=torch.float64) - 1).to(dtype)


def test_a_lookup_is_the_hermite_spline_of_scipy():
    generator = np.random.default_rng(0)
    x = np.sort(np.concatenate([[-1, 1], generator.uniform(-1, 1, 30)]))
    values, slopes = generator.normal(size=(2, 32, 4))
    grid = Grid(*(torch.from_numpy(part) for part in (x, values, slopes)))
    points = random(4)
    log_sqrt, symbol = grid.lookup(points)
    alone = grid.log_sqrt_at(points[0])
    assert torch.equal(alone[:, 0], log_sqrt[0])
    parabolas = np.gradient(slopes, x, axis=0, edge_order=2)
    for row in range(4):
        at = points[row].numpy()
        expected = CubicHermiteSpline(x, values[:, row], slopes[:, row])(at)
        np.testing.assert_allclose(log_sqrt[row], expected, atol=1e-13)
        expected = CubicHermiteSpline(x, slopes[:, row], parabolas[:, row])(at)
        scale = np.abs(parabolas[:, row]).max()
        np.testing.assert_allclose(symbol[row], expected, atol=1e-14 * scale)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_row_reads_its_own_column_and_does_not_influence_others(dtype):
    grid, generator = grid_of(KNOWN, stretched(200, dtype)), torch.Generator().manual_seed(1)
    columns = torch.randint(len(KNOWN), (37,), generator=generator)
    points = random(37, 41, dtype)
    whole = grid.lookup(points, columns)
    alone = grid.at_wavelengths(columns).lookup(points)
    assert all(map(torch.equal, whole, alone))
    for rows in ([5], [36, 0], [2, 2, 1]):
        for part, all_rows in zip(grid.lookup(points[rows], columns[rows]), whole, strict=True):
            assert torch.equal(part, all_rows[rows])
    for part, all_points in zip(grid.lookup(points[:, 3:4], columns), whole, strict=True):
        assert torch.equal(part, all_points[:, 3:4])


@MAKE
def test_nodes_are_looked_up_exactly_and_nothing_is_extrapolated(make):
    grid = grid_of(KNOWN, make(41))
    assert grid.positions[[0, -1]].tolist() == [-1, 1]
    for found, table in zip(
        grid.lookup(grid.positions[None]), (grid.log_sqrt, grid.symbol), strict=True
    ):
        assert torch.equal(found.T[:-1], table[:-1])
        # At the far end of a cell one rounding is left.
        torch.testing.assert_close(found.T, table, rtol=1e-14, atol=2e-15)
    beyond = torch.tensor([[-7.0, 1e6, torch.nan]]).double()
    ends = torch.tensor([[-1.0, 1.0]]).double()
    for out, end in zip(grid.lookup(beyond), grid.lookup(ends), strict=True):
        assert torch.equal(out[:, :2], end)
        assert torch.isnan(out[:, 2]).all()
