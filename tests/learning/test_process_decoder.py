import dataclasses

import numpy as np
import pytest
import torch
from scipy.integrate import quad

from geonode.errors import TrainingError
from geonode.geometry.metric import Metric
from geonode.learning.folds import Fold, leave_two_out
from geonode.learning.process import MEANS, fit_process
from geonode.learning.process_decoder import (
    ArcLengths,
    EvidenceLengths,
    ProcessDecoders,
    fit_processes,
)
from tests.learning.series import (
    decoder_parameters,
    flat_features,
    left_out,
    positions,
    predict,
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


def fit(mean, features=FEATURES, folds=LEVELS, parameters=PARAMETERS):
    return fit_processes(SERIES, features, parameters, run(folds), mean, ArcLengths)[0]


def lengths_of(features):
    return ArcLengths.fit(SERIES, features, PARAMETERS, run(LEVELS)).levels


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
    return EvidenceLengths.fit(measured, features, block, run(folds)).levels


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
        factors = process.factors(CHART[training], SIGNAL[training], CHART[[fold]])[0]
        np.testing.assert_allclose(deviation[fold], np.sqrt(np.sum(factors**2, 0)), rtol=1e-5)


@BOTH
def test_inside_a_fold_both_levels_are_predicted_from_those_that_neither_is(mean):
    folds = leave_two_out(LEVELS, None)
    features = flat_features(LEVELS, WAVELENGTHS, folds=len(folds))
    decoders = fit(mean, features=features, folds=folds)
    for fold in folds:
        training = np.delete(np.arange(LEVELS), fold.left_out)
        process, _ = fit_process(CHART[training], SIGNAL[training], mean)
        for target in fold.left_out:
            predicted, _ = predict(decoders, fold, target, SERIES, features)
            weights = process.weights(CHART[training], CHART[[target]])
            np.testing.assert_allclose(predicted, (weights @ SIGNAL[training])[0], atol=1e-7)


@BOTH
def test_written_processes_predict_the_same(mean):
    decoders = fit(mean)
    again = ProcessDecoders.from_tensors(decoders.tensors(), mean, ArcLengths)
    assert again.processes == decoders.processes
    for found, expected in zip(
        left_out(again, SERIES, FEATURES), left_out(decoders, SERIES, FEATURES), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(KeyError, match="length_and_noise"):
        ProcessDecoders.from_tensors(decoders.positions.tensors(), mean, ArcLengths)


def test_too_few_levels_for_the_mean_are_refused():
    few, features = series(3, WAVELENGTHS), flat_features(3, WAVELENGTHS, folds=1)
    with pytest.raises(TrainingError, match=r"linear mean: found 1 training levels, expected 2"):
        fit_processes(few, features, PARAMETERS, run([Fold(0, 3, (0, 2))]), "linear", ArcLengths)


# anywhere between the levels


def to_targets(places, folds=(LEVELS,), slope=0.0):
    """Features of the geodesics of g = exp(2 slope x) from the training levels of a fold."""
    (fold,) = folds
    training = [level for level in range(LEVELS) if level != fold]
    source, target = CHART[training][:, None], np.asarray(places)[None]
    if slope:
        arc = lambda x: np.exp(slope * x) / slope  # noqa: E731
        length = np.abs(arc(target) - arc(source))
    else:
        length = np.abs(target - source)
    mean = (source + target) / 2 + 0 * length
    final = target + 0 * length
    columns = np.stack([final, mean, length, length, 0 * length], axis=-1)
    return np.repeat(columns[None, :, :, None], 5, axis=3).astype(np.float32)


@pytest.mark.parametrize("fold", [0, 2, LEVELS])
def test_arc_lengths_go_both_ways_from_the_lowest_training_level(fold):
    """Also beyond the ends, and where the target is that level itself."""
    slope = 0.7
    bent = FEATURES.copy()
    arc = np.exp(slope * CHART) / slope
    for place, (s, t) in enumerate((s, t) for s in range(6) for t in range(6) if s != t):
        bent[:, :, place, :, 2] = abs(arc[t] - arc[s])
    lengths = ArcLengths.fit(SERIES, bent, PARAMETERS, run(LEVELS))
    places = np.array([-1.2, -1.0, CHART[1], -0.3, 0.55, 1.0, 1.3])
    found = lengths.of_targets(fold, to_targets(places, (fold,), slope))
    expected = 2 * (np.exp(slope * places) / slope - arc[0]) / (arc[-1] - arc[0]) - 1
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(
        lengths.levels[fold], 2 * (arc - arc[0]) / (arc[-1] - arc[0]) - 1, atol=1e-6
    )


def test_lengths_by_evidence_are_integrals_over_the_network_where_it_is_taken():
    changing = np.tanh(4 * (CHART[:, None] + 0.8)) * np.cos(np.arange(WAVELENGTHS))
    measured = series(LEVELS, WAVELENGTHS, changing)
    block = decoder_parameters(evidence_margin=0.0, epochs=60)
    fitted = EvidenceLengths.fit(measured, FEATURES, block, run(LEVELS))
    assert fitted.bent.all()
    lengths = dataclasses.replace(fitted, bent=np.arange(LEVELS + 1) % 2 == 0)
    places = np.array([-1.1, -1.0, -0.4, 0.2, CHART[3], 1.0, 1.15])
    for fold in range(LEVELS + 1):
        found = lengths.of_targets(fold, to_targets(places, (fold,)))
        if not lengths.bent[fold]:
            np.testing.assert_allclose(found, places, atol=1e-7)
            continue
        metric = Metric(lengths.network[[fold]].to(torch.device("cpu"), torch.float64))

        def speed(x, metric=metric):
            at = torch.tensor([[x]], dtype=torch.float64)
            return float(metric(at, torch.zeros(1, dtype=torch.float64)).sqrt())

        arcs = [quad(speed, 0.0, x, epsabs=1e-11)[0] for x in (*places, -1.0, 1.0)]
        expected = 2 * (np.array(arcs[:-2]) - arcs[-2]) / (arcs[-1] - arcs[-2]) - 1
        np.testing.assert_allclose(found, expected, atol=1e-6)
    again = EvidenceLengths.from_tensors(lengths.tensors())
    for fold in range(LEVELS + 1):
        features = to_targets(places, (fold,))
        np.testing.assert_array_equal(
            again.of_targets(fold, features), lengths.of_targets(fold, features)
        )
