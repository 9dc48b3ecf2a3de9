import numpy as np
import pytest
from sklearn.linear_model import Ridge

from geonode.decoders.lift import lift


def standardised(levels=5, wavelengths=40):
    return np.random.default_rng(0).normal(size=(levels, wavelengths))


CHOSEN = np.arange(0, 40, 3)


def test_a_spectrum_in_the_span_of_the_training_spectra_is_reproduced_without_noise():
    training = standardised()
    spectrum = np.array([0.3, -1.0, 2.0, 0.0, 0.7]) @ training
    errors = [
        np.abs(spectrum[CHOSEN] @ lift(training, CHOSEN, noise) - spectrum).max()
        for noise in (1e-2, 1e-4, 1e-10)
    ]
    # Linear in a small noise.
    assert errors[1] == pytest.approx(errors[0] / 100, rel=0.2)
    assert errors[2] < 1e-6


@pytest.mark.parametrize("noise", [1e-3, 1.0, 100.0])
def test_lift_is_bayesian_regression_on_the_training_spectra(noise):
    """Spectra that are sums of the n training spectra with weights of variance 1/n."""
    training = standardised()
    known = np.random.default_rng(1).normal(size=(3, len(CHOSEN)))
    alpha = noise * len(training)
    weights = Ridge(alpha=alpha, fit_intercept=False).fit(training[:, CHOSEN].T, known.T).coef_
    matrix = lift(training, CHOSEN, noise)
    assert matrix.shape == (len(CHOSEN), 40)
    np.testing.assert_allclose(known @ matrix, weights @ training, rtol=1e-8, atol=1e-12)


def test_lift_damps_a_direction_that_is_mostly_noise():
    rng = np.random.default_rng(0)
    smooth = np.linspace(-1, 1, 40)
    training = np.array([1.0, -0.5, 0.8])[:, None] * smooth + 0.01 * rng.normal(size=(3, 40))
    readings = 0.6 * smooth[CHOSEN] + 0.1 * rng.normal(size=len(CHOSEN))
    error = readings @ lift(training, CHOSEN, 0.01) - 0.6 * smooth
    assert np.sqrt(np.mean(error**2)) < 0.05  # half the noise of a reading


def test_lift_survives_equal_spectra():
    matrix = lift(np.repeat(standardised()[:1], 5, axis=0), CHOSEN, 1e-3)
    spectrum = standardised()[0]
    error = np.abs(spectrum[CHOSEN] @ matrix - spectrum)
    assert error.max() < 0.01 * np.abs(spectrum).max()
