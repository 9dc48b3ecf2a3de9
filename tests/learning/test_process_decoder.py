import numpy as np
import pytest

from geonode.errors import TrainingError
from geonode.learning.folds import Fold, leave_two_out
from geonode.learning.process import MEANS, fit_process
from geonode.learning.process_decoder import (
    ProcessDecoders,
    arc_lengths,
    fit_processes,
    positions_by_evidence,
)
from tests.learning.series import (
    decoder_parameters,
    flat_features,
    left_out,
    positions,
    run,
    series,
    spectra,
)

LEVELS, WAVELENGTHS = 6, 9
SIGNAL = spectra(LEVELS, WAVELENGTHS)
SERIES = series(LEVELS, WAVELENGTHS)
FEATURES = flat_features(LEVELS, WAVELENGTHS, members=2)
CHART = positions(LEVELS)[0]
PARAMETERS = decoder_parameters()
BOTH = pytest.mark.parametrize("mean", MEANS)


def fit(mean, positions_of=arc_lengths, features=FEATURES, folds=LEVELS, parameters=PARAMETERS):
    return fit_processes(SERIES, features, parameters, run(folds), mean, positions_of)[0]


def lengths_of(features):
    return arc_lengths(SERIES, features, PARAMETERS, run(LEVELS))


def test_arc_lengths_of_straight_geodesics_are_the_chart():
    """Members with g = 1 and g = 2: lengths differ by a factor, which scaling takes out."""
    found = lengths_of(FEATURES)
    np.testing.assert_allclose(found, np.tile(CHART, (LEVELS + 1, 1)), atol=1e-12)


def test_arc_lengths_are_means_over_members_and_wavelengths():
    bent = FEATURES.copy()
    bent[0, 2, :, 3, 2] *= 5.0  # of one member, fold and wavelength
    found = lengths_of(bent)
    np.testing.assert_allclose(np.delete(found, 2, axis=0), np.tile(CHART, (LEVELS, 1)), atol=1e-12)
    np.testing.assert_allclose(found[2], CHART, atol=1e-12)  # a factor again, for all levels
    bent[0, 2, 0, 3, 2] *= 9.0  # of the first gap alone
    assert lengths_of(bent)[2, 1] > CHART[1] + 0.1


def charted(features, margin, measured=SERIES, folds=LEVELS, **changes):
    block = decoder_parameters(evidence_margin=margin, **changes)
    return positions_by_evidence(measured, features, block, run(folds))


@pytest.mark.parametrize("margin", [None, 1e6])
def test_without_evidence_positions_are_those_of_the_chart_whatever_the_lengths(margin):
    charts = positions(LEVELS)
    charts[3, 1:-1] += 0.07
    features = np.random.default_rng(0).normal(size=FEATURES.shape)
    for place, (_, target) in enumerate((s, t) for s in range(6) for t in range(6) if s != t):
        features[:, :, place, :, 0] = charts[:, target, None]
    np.testing.assert_array_equal(charted(features, margin), charts)


def test_positions_by_evidence_are_more_likely_by_the_margin():
    """Of spectra that change at one end, fast, and no longer at the other."""
    changing = np.tanh(4 * (CHART[:, None] + 0.8)) * np.cos(np.arange(WAVELENGTHS))
    measured = series(LEVELS, WAVELENGTHS, changing)
    likelihoods = {}
    for margin in (None, 0.0, 1e6):
        found = charted(FEATURES, margin, measured, epochs=60)
        assert (np.diff(found) > 0).all()
        np.testing.assert_allclose(found[:, [0, -1]], [[-1, 1]] * (LEVELS + 1), atol=1e-6)
        likelihoods[margin] = [
            fit_process(found[fold][training], changing[training], "constant")[1]
            for fold in range(LEVELS + 1)
            for training in [np.delete(np.arange(LEVELS), [fold] if fold < LEVELS else [])]
        ]
    gain = np.subtract(likelihoods[0.0], likelihoods[None])
    assert (gain >= 0).all()
    assert gain.max() > 0.1
    assert likelihoods[1e6] == likelihoods[None]
    between = charted(FEATURES, float(gain.max()) / 2, measured, epochs=60)
    all_of_them, none = charted(FEATURES, 0.0, measured, epochs=60), np.tile(CHART, (7, 1))
    for fold in range(LEVELS + 1):
        expected = all_of_them if gain[fold] > gain.max() / 2 else none
        np.testing.assert_allclose(between[fold], expected[fold], atol=1e-7)


@BOTH
def test_every_fold_is_predicted_by_the_process_of_the_others(mean):
    predicted, deviation = left_out(fit(mean), SERIES, FEATURES)
    for fold in range(LEVELS):
        training = np.delete(np.arange(LEVELS), fold)
        process, _ = fit_process(CHART[training], SIGNAL[training], mean)
        weights = process.weights(CHART[training], CHART[[fold]])
        np.testing.assert_allclose(predicted[fold], (weights @ SIGNAL[training])[0], atol=1e-7)
        expected = process.deviation(CHART[training], SIGNAL[training], CHART[[fold]])
        np.testing.assert_allclose(deviation[fold], expected[0], rtol=1e-5)


@BOTH
def test_inside_a_fold_both_levels_are_predicted_from_those_that_neither_is(mean):
    folds = leave_two_out(LEVELS, None)
    features = flat_features(LEVELS, WAVELENGTHS, folds=len(folds))
    decoders = fit(mean, features=features, folds=folds)
    for fold in folds:
        training = np.delete(np.arange(LEVELS), fold.left_out)
        process, _ = fit_process(CHART[training], SIGNAL[training], mean)
        for target in fold.left_out:
            predicted, _ = decoders.predict(fold, target, SERIES, features)
            weights = process.weights(CHART[training], CHART[[target]])
            np.testing.assert_allclose(predicted, (weights @ SIGNAL[training])[0], atol=1e-7)


@BOTH
def test_written_processes_predict_the_same(mean):
    decoders = fit(mean)
    again = ProcessDecoders.from_tensors(decoders.tensors(), mean)
    assert again.processes == decoders.processes
    for found, expected in zip(
        left_out(again, SERIES, FEATURES), left_out(decoders, SERIES, FEATURES), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(KeyError, match="length_and_noise"):
        ProcessDecoders.from_tensors({"positions": decoders.tensors()["positions"]}, mean)


def test_too_few_levels_for_the_mean_are_refused():
    few, features = series(3, WAVELENGTHS), flat_features(3, WAVELENGTHS, folds=1)
    with pytest.raises(TrainingError, match=r"linear mean: found 1 training levels, expected 2"):
        fit_processes(few, features, PARAMETERS, run([Fold(0, 3, (0, 2))]), "linear", arc_lengths)
