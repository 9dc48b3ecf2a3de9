import pytest
import torch
from beartype.door import is_bearable

from geonode.geometry.christoffel import SYMBOLS, finite_difference
from geonode.geometry.field import Field, GridField, NetworkField
from geonode.geometry.grid import Grid
from geonode.geometry.lookup import LOOKUPS, hermite, linear
from geonode.geometry.metric import Metric
from geonode.geometry.perceptron import Perceptron
from tests.geometry.closed_forms import KNOWN, grid_of, random_metric, stretched

METRIC = random_metric(1, 2.0)
WAVELENGTHS = torch.tensor([-1.0, 0.3, 0.3, 1.0, -0.2], dtype=torch.float64)
COLUMNS = torch.tensor([4, 0, 2, 2, 1])
ROWS, POINTS = 5, 8


def positions():
    generator = torch.Generator().manual_seed(2)
    return 2 * torch.rand(ROWS, POINTS, generator=generator, dtype=torch.float64) - 1


def network_field(parameters):
    weights, biases = parameters[:3], parameters[3:]
    return NetworkField(Metric(Perceptron(tuple(weights), tuple(biases))), WAVELENGTHS)


def grid_field(parameters):
    return GridField(Grid(stretched(9), *parameters), COLUMNS)


def network_parts():
    return list(METRIC.network.parameters)


def grid_parts():
    grid = grid_of(KNOWN, stretched(9))
    return [grid.log_sqrt, grid.symbol]


BOTH = pytest.mark.parametrize(
    ("field_of", "parts"),
    [(network_field, network_parts), (grid_field, grid_parts)],
    ids=["network", "grid"],
)


@pytest.mark.parametrize("method", SYMBOLS.values(), ids=SYMBOLS)
def test_a_network_field_is_the_metric_at_the_points_of_its_rows(method):
    x = positions()
    log_sqrt, symbol = NetworkField(METRIC, WAVELENGTHS, method)(x)
    assert log_sqrt.shape == symbol.shape == x.shape
    for row in range(ROWS):
        w = WAVELENGTHS[row].expand(1, POINTS)
        truth = METRIC.at_points(x[row : row + 1], w)
        torch.testing.assert_close(log_sqrt[row], truth[0][0], rtol=1e-13, atol=1e-15)
        torch.testing.assert_close(symbol[row], truth[1][0], rtol=0, atol=1e-9)


def test_a_network_field_uses_the_method_it_is_given():
    x = positions()
    analytic, differences = (
        NetworkField(METRIC, WAVELENGTHS, *method)(x)[1] for method in ((), (finite_difference,))
    )
    assert 0 < (analytic - differences).abs().max() < 1e-9
    some = NetworkField(METRIC, WAVELENGTHS, finite_difference)[torch.tensor([3, 1])]
    torch.testing.assert_close(some(x[[3, 1]])[1], differences[[3, 1]], rtol=0, atol=1e-10)
    assert some.method is finite_difference


@pytest.mark.parametrize("lookup", LOOKUPS.values(), ids=LOOKUPS)
def test_a_grid_field_is_the_lookup_in_the_columns_of_its_rows(lookup):
    grid, x = grid_of(KNOWN, stretched(50)), positions()
    field = GridField(grid, COLUMNS, lookup)
    for found, row_values in zip(field(x), ("log_sqrt", "symbol"), strict=True):
        for row in range(ROWS):
            metric = KNOWN[COLUMNS[row]]
            truth = getattr(metric, row_values)(x[row])
            assert (found[row] - truth).abs().max() <= (2e-4 if lookup is hermite else 2e-2)
    assert field[torch.tensor([0])].lookup is lookup
    if lookup is not linear:
        assert not torch.equal(field(x)[1], GridField(grid, COLUMNS, linear)(x)[1])
    assert torch.equal(GridField(grid, COLUMNS)(x)[1], GridField(grid, COLUMNS, hermite)(x)[1])


@BOTH
def test_both_are_fields(field_of, parts):
    assert is_bearable(field_of(parts()), Field)
    assert not is_bearable(lambda positions: (positions, positions), Field)


@BOTH
@pytest.mark.parametrize("rows", [[3], [4, 0], [2, 2, 1], [0, 1, 2, 3, 4]])
def test_some_rows_are_a_field_again(field_of, parts, rows):
    whole: Field = field_of(parts())
    x, chosen = positions(), torch.tensor(rows)
    some = whole[chosen]
    assert type(some) is type(whole)
    for part, all_rows in zip(some(x[chosen]), whole(x), strict=True):
        torch.testing.assert_close(part, all_rows[chosen], rtol=1e-13, atol=1e-15)
    again = some[torch.tensor([0])]  # rows of rows
    torch.testing.assert_close(again(x[rows[:1]]), tuple(v[rows[:1]] for v in whole(x)))
    for one, other in zip(some.parameters, whole.parameters, strict=True):
        assert one is other


@BOTH
def test_parameters_are_what_the_field_is_made_of(field_of, parts):
    tensors = [part.clone().requires_grad_() for part in parts()]
    field: Field = field_of(tensors)
    assert all(one is other for one, other in zip(field.parameters, tensors, strict=True))
    x = positions()
    assert torch.autograd.gradcheck(lambda *new: field_of(new)(x), tensors, fast_mode=True)


@BOTH
def test_gradients_do_not_depend_on_earlier_calls(field_of, parts):
    x = positions()

    def gradients(field):
        log_sqrt, symbol = field(x)
        return torch.autograd.grad((log_sqrt.sin() + symbol.sin()).sum(), field.parameters)

    expected = gradients(field_of([part.clone().requires_grad_() for part in parts()]))
    field = field_of([part.clone().requires_grad_() for part in parts()])
    with torch.no_grad():
        field(x)
    for _ in range(2):
        for found, truth in zip(gradients(field), expected, strict=True):
            torch.testing.assert_close(found, truth, rtol=1e-13, atol=1e-15)
