import numpy as np
import pytest
import torch
from scipy.interpolate import CubicHermiteSpline

from geonode.geometry.antiderivative import Antiderivative
from tests.geometry.closed_forms import KNOWN, columns, nodes, stretched

POINTS = torch.rand(400, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 2 - 1
MAKE = pytest.mark.parametrize("make", [nodes, stretched])


def roots(metrics, x):
    return columns([lambda x, m=m: torch.exp(m.log_sqrt(x)) for m in metrics], x)


def arc_length(metrics, positions):
    """sqrt(g) integrated from the exact values and slopes."""
    slopes = [lambda x, m=m: torch.exp(m.log_sqrt(x)) * m.symbol(x) for m in metrics]
    return Antiderivative.of(positions, roots(metrics, positions), columns(slopes, positions))


def exact(metrics, x):
    """The arc length from the left end."""
    functions = [metric.arc_length for metric in metrics]
    return columns(functions, x) - columns(functions, torch.full_like(x, -1.0))


@pytest.mark.parametrize("count", [2, 3, 5, 12, 20])
def test_integral_is_that_of_the_hermite_cubic_of_scipy(count):
    generator = np.random.default_rng(0)
    x = np.sort(generator.uniform(-1, 1, count))
    value, slope = generator.uniform(1, 2, (count, 3)), generator.normal(size=(count, 3))
    integral = Antiderivative.of(*(torch.from_numpy(part) for part in (x, value, slope)))
    expected = CubicHermiteSpline(x, value, slope).antiderivative()
    inside = np.linspace(x[0], x[-1], 101)
    found = integral.at(torch.from_numpy(inside))
    np.testing.assert_allclose(found, expected(inside), rtol=0, atol=1e-14)


@MAKE
@pytest.mark.parametrize("resolution", [30, 2000])
def test_arc_length_and_its_inverse(make, resolution):
    """On any grid each undoes the other; on a fine one they are those of the closed forms."""
    integral = arc_length(KNOWN, make(resolution))
    assert (integral.inverse(integral.at(POINTS))[0] - POINTS[:, None]).abs().max() <= 1e-12
    torch.testing.assert_close(integral.at(integral.nodes), integral.integral, rtol=1e-14, atol=0)
    points, value = integral.inverse(integral.integral)
    expected = integral.nodes[:, None].expand_as(points)
    torch.testing.assert_close(points, expected, rtol=0, atol=1e-14)
    torch.testing.assert_close(value, integral.value, rtol=1e-12, atol=0)
    if resolution == 2000:
        length = exact(KNOWN, POINTS)
        points, value = integral.inverse(length)
        assert (integral.at(POINTS) - length).abs().max() <= 1e-11
        assert (points - POINTS[:, None]).abs().max() <= 1e-11
        assert (value - roots(KNOWN, POINTS)).abs().max() <= 1e-10
