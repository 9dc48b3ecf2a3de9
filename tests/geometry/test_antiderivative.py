import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import CubicHermiteSpline

from geonode.geometry.antiderivative import Antiderivative
from tests.geometry.closed_forms import (
    KNOWN,
    columns,
    constant,
    nodes,
    order,
    stretched,
    valley,
)

POINTS = torch.rand(400, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 2 - 1
INVERTIBLE = [metric for metric in KNOWN if metric.inverse]


def arc_length(metrics, positions):
    """sqrt(g) integrated from the exact values and slopes."""
    return Antiderivative.of(
        positions,
        columns([lambda x, m=m: torch.exp(m.log_sqrt(x)) for m in metrics], positions),
        columns(
            [lambda x, m=m: torch.exp(m.log_sqrt(x)) * m.symbol(x) for m in metrics], positions
        ),
    )


def exact(metrics, x):
    """The arc length from the left end."""
    start = torch.full_like(x, -1.0)
    functions = [metric.arc_length for metric in metrics]
    return columns(functions, x) - columns(functions, start)


@pytest.mark.parametrize("make", [nodes, stretched])
def test_arc_length_and_its_inverse_against_closed_forms(make):
    integral = arc_length(KNOWN, make(2000))
    assert (integral.at(POINTS) - exact(KNOWN, POINTS)).abs().max() <= 1e-11
    integral = arc_length(INVERTIBLE, make(2000))
    lengths = exact(INVERTIBLE, POINTS)
    found, value = integral.inverse(lengths)
    expected = torch.stack(
        [
            metric.inverse(lengths[:, i] + metric.arc_length(torch.tensor(-1.0).double()))
            for i, metric in enumerate(INVERTIBLE)
        ],
        dim=-1,
    )
    assert (found - expected).abs().max() <= 1e-11
    roots = columns([lambda x, m=m: torch.exp(m.log_sqrt(x)) for m in INVERTIBLE], POINTS)
    assert (value - roots).abs().max() <= 1e-10


@pytest.mark.parametrize("make", [nodes, stretched])
def test_order_is_four_at_nodes_between_them_and_for_the_inverse(make):
    metrics = [KNOWN[1], KNOWN[2], valley(0.1234)]
    resolutions = [16, 32, 64, 128]
    steps = [1 / n for n in resolutions]
    integrals = [arc_length(metrics, make(n + 1)) for n in resolutions]
    for column in range(len(metrics)):
        at_end = [abs(i.integral[-1] - exact(metrics, i.nodes[-1:])[0])[column] for i in integrals]
        assert order(steps, at_end) == pytest.approx(4, abs=0.3)
        between = [
            (i.at(POINTS) - exact(metrics, POINTS))[:, column].abs().max() for i in integrals
        ]
        assert order(steps, between) == pytest.approx(4, abs=0.3)
        inverse = [
            (i.inverse(exact(metrics, POINTS))[0] - POINTS[:, None])[:, column].abs().max()
            for i in integrals
        ]
        assert order(steps, inverse) == pytest.approx(4, abs=0.3)


def test_cubics_are_integrated_exactly_on_any_nodes():
    positions = torch.tensor([-1.0, -0.2, -0.1, 0.6, 1.0], dtype=torch.float64)
    f = np.polynomial.Polynomial([1.0, -2.0, 3.0, 4.0])
    value, slope = (torch.from_numpy(p(positions.numpy()))[:, None] for p in (f, f.deriv()))
    integral = Antiderivative.of(positions, value, slope)
    expected = f.integ(lbnd=-1)(POINTS.numpy())
    np.testing.assert_allclose(integral.at(POINTS)[:, 0], expected, atol=1e-14)


def test_integral_is_that_of_the_hermite_cubic_of_scipy():
    generator = np.random.default_rng(0)
    x = np.sort(generator.uniform(-1, 1, 20))
    value, slope = generator.uniform(1, 2, (20, 3)), generator.normal(size=(20, 3))
    integral = Antiderivative.of(*(torch.from_numpy(part) for part in (x, value, slope)))
    expected = CubicHermiteSpline(x, value, slope).antiderivative()
    inside = np.linspace(x[0], x[-1], 101)
    np.testing.assert_allclose(
        integral.at(torch.from_numpy(inside)), expected(inside), rtol=0, atol=1e-14
    )


@pytest.mark.parametrize("make", [nodes, stretched])
@pytest.mark.parametrize("resolution", [50, 2000])
def test_inverse_undoes_the_integral(make, resolution):
    integral = arc_length(KNOWN, make(resolution))
    found, value = integral.inverse(integral.at(POINTS))
    assert (found - POINTS[:, None]).abs().max() <= 1e-12
    h = 1e-6
    slope = (integral.at(POINTS + h) - integral.at(POINTS - h)) / (2 * h)
    assert (value - slope).abs().max() <= 1e-8


@settings(deadline=None, max_examples=30)
@given(st.floats(0, 1), st.sampled_from([nodes, stretched]))
def test_integral_undoes_the_inverse(fraction, make):
    integral = arc_length(KNOWN, make(30))
    lengths = fraction * integral.integral[-1:]
    points, _ = integral.inverse(lengths)
    for column in range(len(KNOWN)):
        back = integral.at(points[:, column])[:, column]
        torch.testing.assert_close(back, lengths[:, column], rtol=1e-13, atol=1e-14)


def test_nodes_are_their_own_images():
    integral = arc_length(KNOWN, stretched(40))
    torch.testing.assert_close(integral.at(integral.nodes), integral.integral, rtol=1e-14, atol=0)
    points, value = integral.inverse(integral.integral)
    expected = integral.nodes[:, None].expand_as(points)
    torch.testing.assert_close(points, expected, rtol=0, atol=1e-14)
    torch.testing.assert_close(value, integral.value, rtol=1e-12, atol=0)


def test_beyond_the_ends_is_taken_at_the_ends():
    integral = arc_length(KNOWN, nodes(20))
    outside = torch.tensor([-7.0, 3.0], dtype=torch.float64)
    ends = outside.clamp(-1, 1)
    assert torch.equal(integral.at(outside), integral.at(ends))
    points, _ = integral.inverse(outside[:, None].expand(-1, len(KNOWN)) * 100)
    assert torch.equal(points, ends[:, None].expand_as(points))


@pytest.mark.parametrize("make", [nodes, stretched])
def test_float32_errors_are_a_few_roundings(make):
    """The bound is 8 units in the last place of the largest value; a running sum takes hundreds."""
    integral = arc_length(KNOWN, make(2000, torch.float32))
    truth = exact(KNOWN, POINTS)
    unit = torch.finfo(torch.float32).eps
    points = POINTS.float()
    truth = exact(KNOWN, points.double())
    assert ((integral.at(points) - truth).abs() <= 8 * unit * truth.amax(0)).all()
    found, value = integral.inverse(truth.float())
    roots = columns([lambda x, m=m: torch.exp(m.log_sqrt(x)) for m in KNOWN], points.double())
    # An error of the length moves the point by as much over sqrt(g).
    assert ((found - points[:, None]).abs() <= 8 * unit * (truth.amax(0) / roots + 1)).all()
    # sqrt(g) there is a relative quantity: it must not be a difference of long sums.
    slopes = columns([metric.symbol for metric in KNOWN], points.double()).abs().amax(0)
    moved = slopes * (found - points[:, None]).abs()
    assert ((value / roots - 1).abs() <= 8 * unit + 1.1 * moved).all()


def test_functions_do_not_influence_each_other():
    together = arc_length(KNOWN, nodes(100))
    lengths = together.at(POINTS)
    for i, metric in enumerate(KNOWN):
        alone = arc_length([metric], nodes(100))
        assert torch.equal(alone.at(POINTS), lengths[:, i : i + 1])
        points = alone.inverse(lengths[:, i : i + 1])[0]
        assert torch.equal(points, together.inverse(lengths)[0][:, i : i + 1])
        one = alone.inverse(lengths[5:6, i : i + 1])[0]
        assert torch.equal(one, points[5:6])


@pytest.mark.parametrize("resolution", [2, 3, 4, 5, 12])
def test_any_number_of_nodes_is_summed_whole(resolution):
    positions = torch.linspace(-1, 1, resolution, dtype=torch.float64)
    integral = arc_length([constant(4.0)], positions)
    torch.testing.assert_close(
        integral.integral[:, 0], 2 * (integral.nodes + 1), rtol=1e-14, atol=1e-15
    )
