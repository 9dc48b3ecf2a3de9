import numpy as np
import pytest
from scipy.stats import linregress

from geonode.calibration.line import Line, most_sensitive, straight_line
from tests.calibration.beer import LEVELS, PLACE, spectra_at

SIGNAL = np.array([0.1, 0.31, 0.58, 0.93, 1.08])


def test_a_line_is_that_of_scipy():
    expected, found = linregress(LEVELS, SIGNAL), Line.of(LEVELS, SIGNAL)
    assert found.slope == pytest.approx(expected.slope)
    assert found.intercept == pytest.approx(expected.intercept)
    assert found.slope_deviation == pytest.approx(expected.stderr)
    assert found.p_value == pytest.approx(expected.pvalue)
    assert found.r2 == pytest.approx(expected.rvalue**2)
    residuals = SIGNAL - expected.intercept - expected.slope * LEVELS
    assert found.deviation == pytest.approx(np.sqrt(np.sum(residuals**2) / 3))


def test_a_level_signal_has_no_slope_and_an_exact_line_has():
    assert not Line.of(LEVELS, np.full(5, 0.3)).is_sloped
    assert Line.of(LEVELS, 2 * LEVELS).is_sloped


def test_concentrations_are_read_at_the_steepest_wavelength():
    spectra = spectra_at(LEVELS)
    assert most_sensitive(LEVELS, spectra) == PLACE
    found = straight_line(LEVELS, spectra, spectra_at([3.0, 12.0]))
    np.testing.assert_allclose(found, [3.0, 12.0])


def test_where_nothing_changes_the_mean_level_is_read():
    even = np.ones((5, 4))
    np.testing.assert_array_equal(straight_line(LEVELS, even, even[:2]), [5.0, 5.0])
