import numpy as np
import pytest

from geonode.errors import TrainingError
from geonode.estimation.curve import Curve
from geonode.estimation.posterior import estimate
from geonode.estimation.range import (
    CURVE_NODES,
    KNOTS,
    believable_range,
    knots_over_range,
    nodes_on_metric,
)
from tests.estimation.known import LEVELS
from tests.factory import series_of

LOW_AND_HIGH = np.array([10.0, 20.0, 30.0, 40.0, 50.0])


def curve_of(levels, signal):
    return Curve.of(series_of(levels, signal))


@pytest.mark.parametrize(
    ("levels", "low", "high"),
    [
        ([0, 10], 0, 25),  # 10 + 1.5 * 10; a blank has no logarithm
        ([0, 10, 20, 40], 0, 40 * 2 * 2**0.5),  # 113, as 40 + 1.5 * 20 is only 70
        ([10, 20, 30, 40, 50], 0, 70),  # half of the span; 50 * (5 / 4)^1.5 is 69.9
        ([30, 60, 65, 70], 0, 90),  # half of the span, where a step is 5
        ([0.1, 1, 10, 100], 0, 1000 * 10**0.5),  # a decade and a half
        ([0.9, 1.5, 2.1], 0, 2.1 * 1.4**1.5),  # in binary 0.9 - 1.5 * 0.6 is 1e-16
        ([80, 120, 160], 20, 160 * (4 / 3) ** 1.5),  # 80 - 1.5 * 40; 43.5 on a logarithmic scale
    ],
)
def test_the_range_goes_a_step_and_a_half_beyond_both_ends(levels, low, high):
    found = believable_range(np.array(levels, dtype=float))
    assert found == pytest.approx((low, high), rel=1e-12)


def test_errors_below_the_distance_of_the_nodes_do_not_send_an_estimate_away():
    """The nearest node is then off by many deviations, and zero would win, where none is sure."""
    levels = np.array([0.5, 1, 2, 3, 4, 5, 6])
    signal = np.outer(np.log(levels), np.linspace(1.0, 2.0, 60))
    found = estimate(curve_of(levels, signal), signal[1:-1])
    np.testing.assert_allclose(found.mode, levels[1:-1], rtol=0.01)


def test_levels_in_a_narrow_range_are_told_apart():
    """From zero on, hardly one of a thousand nodes lay among them."""
    levels = np.array([100.0, 100.0001, 100.0002, 100.0003])
    signal = 0.2 + np.outer((levels - 100) * 1e4, np.arange(5.0))
    curve = curve_of(levels, signal)
    assert curve.inside.sum() > 200
    found = estimate(curve, signal[[1, 2]])
    np.testing.assert_allclose(found.mode, levels[1:3], rtol=0, atol=3e-5)


@pytest.mark.parametrize(
    ("knots", "sqrt_metric", "message"),
    [
        ([0.0, 1.0, 1e6], [1.0, 1.0, 1.0], r"from 0\.2 to 1 and a range up to 1e\+06"),
        ([0.0, 1.0, 2.0], [1.0, np.nan, 1.0], "not finite between 0 and 2"),
    ],
)
def test_levels_too_far_from_the_range_and_infinite_metrics_are_refused(
    knots, sqrt_metric, message
):
    with pytest.raises(TrainingError, match=message):
        nodes_on_metric(np.array([0.2, 0.5, 1.0]), np.array(knots), np.array(sqrt_metric))


@pytest.mark.parametrize("levels", [LOW_AND_HIGH, np.array(LEVELS), np.geomspace(0.1, 1000, 5)])
def test_knots_are_near_to_each_other_on_every_scale(levels):
    """Of the length of all scales, 4, ranks have 2, and a step is one of `KNOTS` - 1."""
    knots, step = knots_over_range(levels), 4 / (KNOTS - 1)
    low, high = believable_range(levels)
    assert (len(knots), knots[0], knots[-1]) == (KNOTS, low, high)
    assert (np.diff(knots) > 0).all()
    assert np.diff(knots).max() <= step * (high - low) * (1 + 1e-12)
    lowest = max(low, levels[levels > 0].min() / 30)
    above = knots[knots >= lowest]
    assert (above[1:] / above[:-1]).max() <= (high / lowest) ** step * (1 + 1e-9)
    gaps = len(np.unique([low, *levels, high])) - 1
    held, _ = np.histogram(knots, levels)
    assert held.min() >= int(2 / gaps / step)


def nodes_of(sqrt_metric, levels):
    knots = knots_over_range(levels)
    return nodes_on_metric(levels, knots, sqrt_metric(knots))


@pytest.mark.parametrize("levels", [LOW_AND_HIGH, np.array(LEVELS), np.geomspace(0.1, 1000, 5)])
@pytest.mark.parametrize(
    ("sqrt_metric", "length"),
    [
        (lambda c: 1 + c, lambda c: c + c**2 / 2),
        (lambda c: 2 / (c + 2) ** 2, lambda c: c / (c + 2)),  # Langmuir's
    ],
)
def test_nodes_are_even_on_the_arc_length(levels, sqrt_metric, length):
    """To two nodes; trapezoids between the knots would be off by up to 27."""
    nodes, knots = nodes_of(sqrt_metric, levels), knots_over_range(levels)
    low, high = knots[[0, -1]]

    def share(concentrations):
        return (length(concentrations) - length(low)) / (length(high) - length(low))

    np.testing.assert_allclose(nodes.shares, share(knots), rtol=0, atol=2 / CURVE_NODES)
    np.testing.assert_allclose(
        share(nodes.fine), np.linspace(0, 1, CURVE_NODES), rtol=0, atol=2 / CURVE_NODES
    )


@pytest.mark.parametrize("levels", [LOW_AND_HIGH[:3], LOW_AND_HIGH, np.array(LEVELS)])
def test_beyond_either_end_there_is_the_mass_of_one_level_more(levels):
    """Of n + 1 levels in random order the last is above all others with probability 1 / (n + 1)."""
    nodes, count = nodes_of(lambda c: 1 + c, levels), len(levels) - (levels[0] == 0)
    mass = np.exp(nodes.log_prior) / np.exp(nodes.log_prior).sum()
    below, above = (mass[part].sum() for part in (nodes.fine < levels[0], nodes.fine > levels[-1]))
    assert above == pytest.approx(1 / (count + 1), rel=1e-9)
    assert below == pytest.approx(above if levels[0] else 0, rel=1e-9)  # nothing is below a blank


def test_between_the_ends_a_cell_is_as_likely_as_it_is_long():
    nodes = nodes_of(lambda c: np.full(len(c), 3.0), LOW_AND_HIGH)
    density = np.exp(nodes.log_prior) / np.diff(nodes.edges)
    for low, high in ((-1, 10), (10, 50), (50, 81)):
        part = density[(nodes.fine >= low) & (nodes.fine <= high)][1:-1]
        np.testing.assert_allclose(part, part[0], rtol=1e-9)
