import pytest
import torch

from geonode.geometry.field import GridField, NetworkField
from tests.geometry.closed_forms import KNOWN, grid_of, random_metric, stretched

METRIC = random_metric(1, 2.0)
WAVELENGTHS = torch.tensor([-1.0, 0.3, 0.3, 1.0, -0.2], dtype=torch.float64)
COLUMNS = torch.tensor([4, 0, 2, 2, 1])
POSITIONS = 2 * torch.rand(5, 8, generator=torch.Generator().manual_seed(2)).double() - 1
FIELDS = {
    "network": (
        NetworkField(METRIC, WAVELENGTHS),
        lambda row, x: METRIC.at_points(x[None], WAVELENGTHS[row].expand(1, len(x))),
    ),
    "grid": (
        GridField(grid_of(KNOWN, stretched(400)), COLUMNS),
        lambda row, x: (KNOWN[COLUMNS[row]].log_sqrt(x), KNOWN[COLUMNS[row]].symbol(x)),
    ),
}


@pytest.mark.parametrize(("whole", "truth"), FIELDS.values(), ids=FIELDS)
@pytest.mark.parametrize("rows", [[0, 1, 2, 3, 4], [3], [4, 0], [2, 2, 1]])
def test_a_field_is_its_metric_row_by_row_and_some_rows_are_a_field_again(whole, truth, rows):
    some, bound = whole[torch.tensor(rows)], 1e-5 if isinstance(whole, GridField) else 1e-12
    assert type(some) is type(whole)
    found = some(POSITIONS[rows])
    for place, row in enumerate(rows):
        for part, expected in zip(found, truth(row, POSITIONS[row]), strict=True):
            assert (part[place] - expected).abs().max() <= bound
