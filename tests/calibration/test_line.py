import numpy as np
import pytest

from geonode.calibration.line import Line
from tests.calibration.beer import LEVELS


def test_a_line_is_that_of_its_normal_equations():
    """By hand: levels -1.5 to 1.5 about their mean, slope 2, residuals (1, -1, -1, 1) / 10."""
    found = Line.of(np.arange(4.0), np.array([0.1, 1.9, 3.9, 6.1]))
    assert (found.slope, found.intercept) == pytest.approx((2, 0))
    assert found.deviation == pytest.approx(np.sqrt(0.04 / 2))
    assert found.r2 == pytest.approx(1 - 0.04 / 20.04)
    # Student's distribution with two degrees of freedom: P(|T| > t) = 1 - t / sqrt(t^2 + 2).
    t = 2 / (found.deviation / np.sqrt(5))
    assert found.p_value == pytest.approx(1 - t / np.sqrt(t**2 + 2))


def test_a_level_signal_has_no_slope_and_an_exact_line_has():
    level = Line.of(LEVELS, np.full(5, 0.3))
    assert (level.is_sloped, level.slope, level.r2, level.p_value) == (False, 0, 0, 1)
    assert Line.of(LEVELS, 2 * LEVELS).is_sloped
