import jaxtyping
import numpy as np
import pytest
import torch

from geonode.errors import GeometryError
from geonode.geodesics.quadrature import arc_length, initial_velocity
from geonode.geometry.field import GridField, NetworkField
from geonode.geometry.grid import Grid
from geonode.geometry.metric import Metric
from tests.geodesics.fields import FormulaField
from tests.geometry.closed_forms import CPU, KNOWN, constant, nodes, random_metric
from tests.geometry.precision import NoFloat64


def numbers(*entries):
    return torch.tensor(entries, dtype=torch.float64)


STARTS = numbers(-1.0, 1.0, -0.4, 0.9, 0.2)
ENDS = numbers(1.0, -1.0, 0.9, -0.4, 0.201)
NETWORK = NetworkField(random_metric(3, 2.0), numbers(-1.0, -0.3, 0.2, 0.6, 1.0))


def close(found, expected, tolerance):
    torch.testing.assert_close(found, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("known", KNOWN)
def test_lengths_and_velocities_of_known_metrics(known):
    field = FormulaField([known] * len(STARTS))
    lengths = known.arc_length(ENDS) - known.arc_length(STARTS)
    close(arc_length(field, STARTS, ENDS), lengths, 1e-14)
    velocity = initial_velocity(field, STARTS, ENDS)
    close(velocity, lengths / known.log_sqrt(STARTS).exp(), 1e-14)


def test_quadrature_is_exact_over_the_whole_chart_for_sharp_networks():
    for seed in range(4):
        field = NetworkField(random_metric(seed, 2.0), NETWORK.wavelengths)
        found = arc_length(field, -torch.ones(5).double(), torch.ones(5).double())
        points, weights = np.polynomial.legendre.leggauss(200)
        root = field(torch.from_numpy(points).expand(5, -1))[0].exp()
        close(found, root @ torch.from_numpy(weights), 1e-13)


def test_a_row_is_the_same_alone():
    together = initial_velocity(NETWORK, STARTS, ENDS)
    for row in (0, 4):
        one = torch.tensor([row])
        close(initial_velocity(NETWORK[one], STARTS[one], ENDS[one])[0], together[row], 1e-13)


def test_looked_up_grids_approach_the_network():
    """The error of a lookup of ln sqrt(g) is of order h^4."""
    tables = NETWORK.metric.with_symbol(nodes(2000)[None], NETWORK.wavelengths)
    field = GridField(Grid(nodes(2000), *(table[0] for table in tables)), torch.arange(5))
    for quantity in (arc_length, initial_velocity):
        close(quantity(field, STARTS, ENDS), quantity(NETWORK, STARTS, ENDS), 1e-10)


def test_single_precision():
    metric = Metric(NETWORK.metric.network.to(CPU, torch.float32))
    field = NetworkField(metric, NETWORK.wavelengths.float())
    with NoFloat64():
        found = initial_velocity(field, STARTS.float(), ENDS.float())
    assert found.dtype == torch.float32
    close(found.double(), initial_velocity(NETWORK, STARTS, ENDS), 1e-5)


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        ([0.1, -1.1], [0.2, 0.3], r"start: found -1.1 in row 1, expected chart position"),
        ([0.1, 0.2], [float("nan"), 0.3], r"end: found nan in row 0, expected chart position"),
        ([0.1, 0.2], [0.3, 0.2], r"end: found 0.2 in row 1, where the path starts"),
    ],
)
def test_paths_that_are_none_are_refused(start, end, message):
    with pytest.raises(GeometryError, match=message):
        initial_velocity(FormulaField([constant(1.0)] * 2), *numbers(start, end))


@pytest.fixture
def unchecked_shapes():
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.usefixtures("unchecked_shapes")
def test_shapes_that_differ_are_refused():
    with pytest.raises(GeometryError, match=r"end: found \(\(1,\).*expected \(\(5,\)"):
        arc_length(NETWORK, STARTS, ENDS[:1])
