import numpy as np
import pytest
from scipy.stats import t

from geonode.learning.inner_predictions import PROBABILITIES, residual_and_factors
from geonode.learning.predicted import Predicted


def half_width(errors, deviations, deviation):
    """Of predictions, by a calibration on some errors."""
    residual, factors = residual_and_factors(errors, deviations)
    of_target = Predicted(
        deviation, deviation[:, None], half_widths=factors[None], mean_square=residual[None]
    )
    return of_target.half_width


def test_half_widths_by_hand():
    errors = np.array([[3.0, 1.0, -2.0], [-1.0, 2.0, 0.0], [2.0, -2.0, 4.0]])
    deviations = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 3.0], [2.0, 1.0, 0.0]])
    residual, factors = residual_and_factors(errors, deviations)
    np.testing.assert_allclose(residual, [14 / 3, 3, 20 / 3])
    # s^2 is the squared deviation and the mean square of the other two errors.
    ratios = [
        *(3 / 2.5**0.5, 1 / 5**0.5, 2 / 12**0.5),
        *(1 / 7.5**0.5, 2 / 2.5**0.5, 0.0),
        *(2 / 9**0.5, 2 / 3.5**0.5, 4 / 2**0.5),
    ]
    ordered = sorted(ratios)
    # Nine ratios: eight gaps, so that the median is the fifth, and 0.8 and 0.95 lie between.
    expected = [
        ordered[4],
        ordered[6] + 0.4 * (ordered[7] - ordered[6]),
        ordered[7] + 0.2 * (ordered[8] - ordered[7]),
        ordered[7] + 0.6 * (ordered[8] - ordered[7]),
    ]
    np.testing.assert_allclose(factors, expected)
    widths = half_width(errors, deviations, np.array([[2.0, 0.0, 1.0]]))
    assert widths.shape == (len(PROBABILITIES), 1, 3)
    scale = np.sqrt([4 + 14 / 3, 3, 1 + 20 / 3])
    np.testing.assert_allclose(widths[:, 0], np.outer(expected, scale))


@pytest.mark.parametrize("known", [4, 8])
def test_gaussian_errors_are_covered_as_often_as_promised(known):
    """By Student's law: n - 1 errors make the scale of those known, and n that of a new one."""
    generator, repetitions, wavelengths = np.random.default_rng(known), 300, 200
    by_wavelength = np.linspace(0.5, 3, wavelengths)
    held = np.zeros(len(PROBABILITIES))
    for _ in range(repetitions):
        errors = by_wavelength * generator.normal(size=(known + 1, wavelengths))
        none = np.zeros((known, wavelengths))
        widths = half_width(errors[:-1], none, none[:1])
        held += (np.abs(errors[-1]) <= widths[:, 0]).mean(axis=1) / repetitions
    promised = np.array(PROBABILITIES)
    expected = 2 * t.cdf(t.ppf((1 + promised) / 2, known - 1), known) - 1
    np.testing.assert_allclose(held, expected, atol=0.01)  # 60,000 points, and their quantiles
    assert (held > promised - 0.005).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("deviation", [0.0, 0.3])
def test_perfect_predictions_have_no_width(deviation):
    errors, deviations = np.zeros((3, 4)), np.full((3, 4), deviation)
    assert not half_width(errors, deviations, deviations[:1]).any()
    errors[1, 2] = 1e-3  # a single error among them
    assert np.isfinite(half_width(errors, deviations, deviations[:1])).all()
