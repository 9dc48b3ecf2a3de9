import numpy as np
import pytest
from sklearn.linear_model import Ridge

from geonode.learning.decoder_tasks import ScoreBasis, lift


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


# scores


def random_spectra(levels=6, wavelengths=40):
    return 3 + np.random.default_rng(0).normal(size=(levels, wavelengths)).cumsum(axis=1)


@pytest.mark.parametrize("outputs", [5, 7])
def test_training_spectra_are_their_scores_exactly(outputs):
    """Of as many spectra as scores and one, or fewer; at wavelengths that are not read, too."""
    training = random_spectra()
    basis = ScoreBasis.of(training, CHOSEN, outputs)
    projection, centre = basis.training
    standardised = (training[:, CHOSEN] - training.mean()) / training.std()
    scores = (standardised - centre) @ projection
    assert scores.shape == (6, outputs)
    np.testing.assert_allclose(scores @ basis.matrix + basis.offset, training, atol=1e-9)
    # Uncorrelated, in falling order, of mean square one over those that there are.
    moments = scores.T @ scores / 6
    np.testing.assert_allclose(moments, np.diag(np.diag(moments)), atol=1e-12)
    assert (np.diff(np.diag(moments)) <= 1e-12).all()
    assert np.trace(moments) == pytest.approx(5)


def test_directions_of_rounding_are_no_scores():
    shape = np.sin(np.arange(40))
    training = 1e6 + np.array([1.0, 2.0, 4.0, 8.0])[:, None] * shape
    basis = ScoreBasis.of(training, CHOSEN, 3)
    assert (np.abs(basis.matrix).max(axis=1) > 0).tolist() == [True, False, False]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("levels", [3, 4, 7])  # the mean of three equal numbers may be rounded
def test_equal_spectra_have_no_scores(levels):
    basis = ScoreBasis.of(np.repeat(random_spectra()[:1], levels, axis=0), CHOSEN, levels - 1)
    assert not basis.training[0].any()
    assert not basis.matrix.any()
    np.testing.assert_allclose(basis.offset, random_spectra()[0])
