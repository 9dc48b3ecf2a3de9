import pytest
import torch
from beartype.door import is_bearable

from geonode.geometry.field import Field, GridField, NetworkField
from tests.geometry.closed_forms import KNOWN, grid_of, random_metric, stretched

METRIC = random_metric(1, 2.0)
WAVELENGTHS = torch.tensor([-1.0, 0.3, 0.3, 1.0, -0.2], dtype=torch.float64)
COLUMNS = torch.tensor([4, 0, 2, 2, 1])
ROWS, POINTS = 5, 8


def positions():
    generator = torch.Generator().manual_seed(2)
    return 2 * torch.rand(ROWS, POINTS, generator=generator, dtype=torch.float64) - 1


BOTH = pytest.mark.parametrize(
    "whole",
    [NetworkField(METRIC, WAVELENGTHS), GridField(grid_of(KNOWN, stretched(9)), COLUMNS)],
    ids=["network", "grid"],
)


def test_a_network_field_is_the_metric_at_the_points_of_its_rows():
    x = positions()
    log_sqrt, symbol = NetworkField(METRIC, WAVELENGTHS)(x)
    assert log_sqrt.shape == symbol.shape == x.shape
    for row in range(ROWS):
        w = WAVELENGTHS[row].expand(1, POINTS)
        truth = METRIC.at_points(x[row : row + 1], w)
        torch.testing.assert_close(log_sqrt[row], truth[0][0], rtol=1e-13, atol=1e-15)
        torch.testing.assert_close(symbol[row], truth[1][0], rtol=0, atol=1e-9)


def test_a_grid_field_is_the_lookup_in_the_columns_of_its_rows():
    grid, x = grid_of(KNOWN, stretched(50)), positions()
    for found, row_values in zip(GridField(grid, COLUMNS)(x), ("log_sqrt", "symbol"), strict=True):
        for row in range(ROWS):
            truth = getattr(KNOWN[COLUMNS[row]], row_values)(x[row])
            assert (found[row] - truth).abs().max() <= 2e-4


@BOTH
def test_both_are_fields(whole):
    assert is_bearable(whole, Field)
    assert not is_bearable(lambda positions: (positions, positions), Field)


@BOTH
@pytest.mark.parametrize("rows", [[3], [4, 0], [2, 2, 1], [0, 1, 2, 3, 4]])
def test_some_rows_are_a_field_again(whole, rows):
    x, chosen = positions(), torch.tensor(rows)
    some = whole[chosen]
    assert type(some) is type(whole)
    for part, all_rows in zip(some(x[chosen]), whole(x), strict=True):
        torch.testing.assert_close(part, all_rows[chosen], rtol=1e-13, atol=1e-15)
    again = some[torch.tensor([0])]  # rows of rows
    torch.testing.assert_close(again(x[rows[:1]]), tuple(v[rows[:1]] for v in whole(x)))
