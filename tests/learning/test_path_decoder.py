import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from geonode.learning.folds import leave_one_out, training_wavelengths
from geonode.learning.path_decoder import PathDecoders, lift
from geonode.learning.path_features import FeatureScale
from tests.geometry.precision import threads
from tests.learning.series import (
    TRAINING_WAVELENGTHS,
    decoder_parameters,
    flat_features,
    left_out,
    ordered_pairs,
    run,
    series,
    spectra,
    trained_pairs,
)

LEVELS, WAVELENGTHS = 5, 11
SERIES, FOLDS = series(LEVELS, WAVELENGTHS), leave_one_out(LEVELS)
TRAINED_AT = training_wavelengths(WAVELENGTHS, TRAINING_WAVELENGTHS)


def fit(members=1, geometries=1, dtype=torch.float32, **changes):
    features = flat_features(LEVELS, WAVELENGTHS, geometries)
    parameters = decoder_parameters(members=members, **changes)
    return *PathDecoders.fit(SERIES, features, parameters, run(LEVELS, members, dtype)), features


# feature scale


@settings(deadline=None, max_examples=50)
@given(st.floats(-1e3, 1e3, width=32), st.integers(1, 40), st.integers(2, 90))
def test_a_constant_feature_keeps_deviation_one(value, pairs, wavelengths):
    features = torch.full((1, pairs, wavelengths, 5), value)
    scale = FeatureScale.of(features)
    assert torch.all(scale.deviation == 1)
    assert torch.all(scale.apply(features).abs() < 1e-3)


# training


def test_loss_is_the_mean_squared_error_of_the_standardised_signal():
    two = {"members": 2, "geometries": 2, "dtype": torch.float64, "epochs": 1}
    _, history, features = fit(**two)
    # Adam's first step is at most the learning rate, so a second fit of one epoch with a vanishing
    # rate leaves the first weights, whose predictions the history must describe.
    still, _, _ = fit(**two, learning_rate=1e-300)
    signal = spectra(LEVELS, WAVELENGTHS)
    for member, fold in itertools.product(range(2), range(LEVELS + 1)):
        values = by_hand(still, fold, features[member, fold], member)[..., 0]
        levels = [level for level in range(LEVELS) if level != fold]
        scaled = (signal - signal[levels].mean()) / signal[levels].std()
        squares = [
            (values[place] - scaled[t, TRAINED_AT]) ** 2
            for place, (s, t) in enumerate(ordered_pairs(LEVELS))
            if (s, t) in trained_pairs(FOLDS[fold])
        ]
        model = member * (LEVELS + 1) + fold
        known = features[member, fold, FOLDS[fold].training_pairs]
        np.testing.assert_allclose(still.features.mean[model], known.mean((0, 1)), atol=1e-12)
        found = history[0, 0, model]
        assert float(found) == pytest.approx(np.mean(squares), rel=1e-9)


def by_hand(decoders, fold, features, member=0):
    """Values of one decoder at (pair, row), written out in NumPy."""
    model = member * len(decoders.matrix) + fold
    mean, deviation = decoders.features.mean[model], decoders.features.deviation[model]
    hidden = (features - mean.numpy()) / deviation.numpy()
    *inner, last = zip(decoders.network.weights, decoders.network.biases, strict=True)
    for weight, bias in inner:
        hidden = np.tanh(hidden @ weight[model].numpy() + bias[model].numpy())
    return hidden @ last[0][model].numpy() + last[1][model].numpy()


def test_prediction_is_the_mean_over_sources_and_members():
    decoders, history, features = fit(members=3, geometries=2, dtype=torch.float64)
    predicted, spread = left_out(decoders, SERIES, features)
    for level in range(LEVELS):
        training = np.delete(SERIES.signal, level, axis=0)
        standardised = (training - training.mean()) / training.std()
        error = float(history[-1, 0, [level, level + 6, level + 12]].mean())
        matrix = lift(standardised, TRAINED_AT, error)
        found = []
        for place, (_, target) in enumerate(ordered_pairs(LEVELS)):
            if target != level:
                continue
            for member in range(3):
                rows = features[member % 2, level, place]
                values = by_hand(decoders, level, rows, member)[..., 0] @ matrix
                found.append(values * training.std() + training.mean())
        assert len(found) == 3 * (LEVELS - 1)
        np.testing.assert_allclose(predicted[level], np.mean(found, axis=0))
        np.testing.assert_allclose(spread[level], np.std(found, axis=0, ddof=1))


def test_the_number_of_threads_changes_not_a_bit():
    wide = series(LEVELS, 301)
    features, block = flat_features(LEVELS, 301, training=16), decoder_parameters(wavelengths=16)
    decoders, _ = PathDecoders.fit(wide, features, block, run(LEVELS))
    found = []
    for count in (1, 2):
        with threads(count):
            found.append(left_out(decoders, wide, features))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


# lift

CHOSEN = np.arange(0, 40, 3)
STANDARDISED = np.random.default_rng(0).normal(size=(5, 40))


@pytest.mark.parametrize("noise", [1e-3, 1.0, 100.0])
def test_lift_is_bayesian_regression_on_the_training_spectra(noise):
    """Spectra that are sums of the n training spectra with weights of variance 1/n."""
    known = np.random.default_rng(1).normal(size=(3, len(CHOSEN)))
    alpha = noise * len(STANDARDISED)
    ridge = Ridge(alpha=alpha, fit_intercept=False)
    weights = ridge.fit(STANDARDISED[:, CHOSEN].T, known.T).coef_
    found = known @ lift(STANDARDISED, CHOSEN, noise)
    np.testing.assert_allclose(found, weights @ STANDARDISED, rtol=1e-8, atol=1e-12)
