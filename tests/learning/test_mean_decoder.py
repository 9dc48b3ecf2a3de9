import numpy as np
import pytest

from geonode.learning.folds import Fold
from geonode.learning.mean_decoder import fit_means
from tests.learning.series import decoder_parameters, flat_features, predict, run, series

LEVELS, WAVELENGTHS = 6, 20_000


@pytest.mark.parametrize("left_out", [(2,), (1, 4)])
def test_the_deviation_is_that_of_a_further_spectrum_from_their_mean(left_out):
    """Of independent spectra: the mean of its square over wavelengths is that of the error's."""
    spread = np.array([0.1, 5.0]).repeat(WAVELENGTHS // 2)
    signal = 3 + spread * np.random.default_rng(0).normal(size=(LEVELS, WAVELENGTHS))
    measured, fold = series(LEVELS, WAVELENGTHS, signal), Fold(0, LEVELS, left_out)
    features = flat_features(LEVELS, WAVELENGTHS, folds=1)
    decoders, history = fit_means(measured, features, decoder_parameters(), run([fold]))
    assert history.shape == (0, 1, 1)
    training = [signal[level] for level in range(LEVELS) if level not in left_out]
    for target in left_out:
        predicted, deviation = predict(decoders, fold, target, measured, features)
        np.testing.assert_allclose(predicted, sum(training) / len(training), rtol=1e-12)
        for half in (slice(WAVELENGTHS // 2), slice(WAVELENGTHS // 2, None)):
            squared = np.mean((predicted[half] - signal[target, half]) ** 2)
            assert np.mean(deviation[half] ** 2) == pytest.approx(squared, rel=0.06)
