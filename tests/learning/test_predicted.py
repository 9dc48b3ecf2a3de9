import numpy as np
import pytest

from geonode.errors import TrainingError
from geonode.learning.path_decoder import PathDecoders
from geonode.learning.predicted import Predicted, mixture
from tests.learning.series import decoder_parameters, flat_features, left_out, run, series


def covariance(predicted):
    return np.einsum("trv,trw->tvw", predicted.factors, predicted.factors)


def test_a_mixture_adds_what_every_wavelength_has_besides():
    """Parts of spectra 0 and 2, of variances 0.3 and 0, and of even variances 0.5 and none."""
    half_widths = np.array([[0.7, 1.3], [0.6, 1.2]])
    known = Predicted(
        np.zeros((2, 3)), np.full((2, 1, 3), 0.3**0.5), np.array([0.5, 0.5]), half_widths
    )
    other = Predicted(np.full((2, 3), 2.0), np.zeros((2, 1, 3)))
    weights = np.array([0.75, 0.25])
    for parts, shares in (([known, other], weights), ([other, known], weights[::-1])):
        found = mixture(shares, parts)
        np.testing.assert_allclose(found.even, [0.375] * 2)
        variance = 0.75 * (0.3 + 0.5) + 0.75 * 0.25 * 2**2
        np.testing.assert_allclose(found.deviation**2, [[variance] * 3] * 2)
        assert found.half_widths is half_widths
    neither = mixture(weights, [other, other])
    assert neither.even is neither.half_widths is None


def test_a_mixture_has_the_mean_and_covariance_of_its_samples():
    generator = np.random.default_rng(0)
    weights = np.array([0.2, 0.5, 0.3])
    means = np.array([[1.0, 0.0], [-2.0, 1.0], [0.5, 4.0]])
    factors = generator.normal(size=(3, 2, 2))
    parts = [Predicted(m[None], f[None]) for m, f in zip(means, factors, strict=True)]
    found = mixture(weights, parts)
    assert found.factors.shape == (1, 3 * 2 + 3, 2)
    which = generator.choice(3, size=400_000, p=weights)
    noise = np.einsum("srw,sr->sw", factors[which], generator.normal(size=(400_000, 2)))
    samples = means[which] + noise
    np.testing.assert_allclose(found.spectra[0], samples.mean(axis=0), atol=0.02)
    np.testing.assert_allclose(covariance(found)[0], np.cov(samples.T), atol=0.05)
    assert found.deviation[0, 0] == pytest.approx(samples[:, 0].std(), abs=0.01)
    # All the weight of one is that one.
    alone = mixture(np.array([1.0, 0.0, 0.0]), parts)
    np.testing.assert_allclose(alone.spectra[0], means[0])
    np.testing.assert_allclose(covariance(alone)[0], factors[0].T @ factors[0])


def test_a_path_decoder_without_geodesics_is_refused():
    measured, features = series(5, 7), flat_features(5, 7)
    path, _ = PathDecoders.fit(measured, features, decoder_parameters(), run(5))
    message = "path decoders: found no features of geodesics, expected some"
    with pytest.raises(TrainingError, match=message):
        left_out(path, measured, None)
    with pytest.raises(TrainingError, match=message):
        PathDecoders.fit(measured, None, decoder_parameters(), run(5))
