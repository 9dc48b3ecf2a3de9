from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from geonode.errors import ArtifactError, CorruptArtifactError, MissingArtifactError
from geonode.geometry.perceptron import Perceptron
from geonode.learning.path_decoder import (
    FeatureScale,
    PathDecoders,
    fit_decoders,
    lift,
)
from geonode.storage.weights import write_weights
from tests.learning.series import decoder_parameters, flat_features, ordered_pairs, spectra

LEVELS, WAVELENGTHS = 5, 11
OPTIONS = {"device": torch.device("cpu"), "dtype": torch.float32}


def fit(members=1, geometries=1, dtype=torch.float32, **changes):
    features = flat_features(LEVELS, WAVELENGTHS, geometries)
    parameters = decoder_parameters(members=members, **changes)
    options = OPTIONS | {"dtype": dtype}
    return *fit_decoders(spectra(LEVELS, WAVELENGTHS), features, parameters, **options), features


# feature scale


def test_feature_scale_is_mean_and_deviation_over_pairs_and_wavelengths():
    features = np.random.default_rng(0).normal(3, 2, (2, 4, 6, 5))
    scale = FeatureScale.of(torch.from_numpy(features))
    np.testing.assert_allclose(scale.mean, features.mean((1, 2)))
    np.testing.assert_allclose(scale.deviation, features.std((1, 2)))
    rows = scale.apply(torch.from_numpy(features))
    expected = (features - features.mean((1, 2), keepdims=True)) / features.std(
        (1, 2), keepdims=True
    )
    np.testing.assert_allclose(rows, expected.reshape(2, 24, 5))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(
    value=st.floats(-1e3, 1e3, width=32), pairs=st.integers(1, 40), wavelengths=st.integers(2, 90)
)
def test_a_constant_feature_keeps_deviation_one(dtype, value, pairs, wavelengths):
    features = torch.full((1, pairs, wavelengths, 5), value, dtype=dtype)
    scale = FeatureScale.of(features)
    assert torch.all(scale.deviation == 1)
    assert torch.all(scale.apply(features).abs() < 1e-3)


# lift


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


# training


def test_loss_is_the_mean_squared_error_of_the_standardised_signal():
    decoders, history, features = fit(dtype=torch.float64, epochs=1)
    # Adam's first step is at most the learning rate, so a second fit of one epoch with a vanishing
    # rate leaves the first weights, whose predictions the history must describe.
    still, _, _ = fit(dtype=torch.float64, epochs=1, learning_rate=1e-300)
    signal = spectra(LEVELS, WAVELENGTHS)
    chosen = decoders.wavelengths.numpy()
    for fold in range(LEVELS + 1):
        values = by_hand(still, fold, features[0, fold][:, chosen])
        levels = [level for level in range(LEVELS) if level != fold]
        scaled = (signal - signal[levels].mean()) / signal[levels].std()
        squares = [
            (values[place] - scaled[t, chosen]) ** 2
            for place, (s, t) in enumerate(ordered_pairs(LEVELS))
            if fold not in (s, t)
        ]
        assert float(history[0, 0, fold]) == pytest.approx(np.mean(squares), rel=1e-9)


def by_hand(decoders, fold, features, member=0):
    """Standardised values of one decoder at (pair, wavelength), written out in NumPy."""
    model = member * len(decoders.signals) + fold
    mean, deviation = decoders.features.mean[model], decoders.features.deviation[model]
    hidden = (features - mean.numpy()) / deviation.numpy()
    *inner, last = zip(decoders.network.weights, decoders.network.biases, strict=True)
    for weight, bias in inner:
        hidden = np.tanh(hidden @ weight[model].numpy() + bias[model].numpy())
    return (hidden @ last[0][model].numpy() + last[1][model].numpy())[..., 0]


def test_prediction_is_the_mean_over_sources_and_members():
    decoders, _, features = fit(members=3, geometries=2, dtype=torch.float64)
    predicted, spread = decoders.left_out(spectra(LEVELS, WAVELENGTHS), features)
    chosen = decoders.wavelengths.numpy()
    for level in range(LEVELS):
        scale = decoders.signals[level]
        found = []
        for place, (_, target) in enumerate(ordered_pairs(LEVELS)):
            if target != level:
                continue
            for member in range(3):
                rows = features[member % 2, level, place][chosen]
                values = by_hand(decoders, level, rows, member) @ decoders.lift[level].numpy()
                found.append(values * scale.deviation + scale.mean)
        assert len(found) == 3 * (LEVELS - 1)
        np.testing.assert_allclose(predicted[level], np.mean(found, axis=0))
        np.testing.assert_allclose(spread[level], np.std(found, axis=0, ddof=1))


def test_a_decoder_walks_the_geometry_of_its_member_modulo_their_number():
    decoders, _, features = fit(members=3, geometries=2, dtype=torch.float64)
    means = decoders.features.mean.unflatten(0, (3, LEVELS + 1))
    assert decoders.members == 3
    for member, geometry in enumerate((0, 1, 0)):
        for fold in range(LEVELS + 1):
            training = [
                place for place, pair in enumerate(ordered_pairs(LEVELS)) if fold not in pair
            ]
            rows = features[geometry, fold][training][:, decoders.wavelengths]
            np.testing.assert_allclose(means[member, fold], rows.mean((0, 1)), atol=1e-12)
    # And members that share a geometry are still different networks.
    weights = decoders.network.weights[0].unflatten(0, (3, LEVELS + 1))
    assert not torch.equal(weights[0], weights[2])


def test_a_series_that_the_features_determine_is_learned():
    levels, wavelengths = 7, 15
    signal = spectra(levels, wavelengths)
    features = flat_features(levels, wavelengths)
    parameters = decoder_parameters(epochs=300, wavelengths=7)
    decoders, history = fit_decoders(signal, features, parameters, **OPTIONS)
    predicted, spread = decoders.left_out(signal, features)
    assert torch.all(history[-1] < 1e-3)
    # Inside the series; a level at its end is extrapolated.
    for level in range(1, levels - 1):
        error = np.sqrt(np.mean((predicted[level] - signal[level]) ** 2))
        mean = np.delete(signal, level, axis=0).mean(0)
        of_mean = np.sqrt(np.mean((mean - signal[level]) ** 2))
        assert error < 0.25 * of_mean
    assert np.all(spread > 0)


@pytest.mark.parametrize("parts", [2, 5, 12])
def test_accumulation_changes_rounding_alone(parts):
    options = {"dtype": torch.float64, "epochs": 5, "weight_decay": 0.01}
    whole, history, _ = fit(**options)
    added, losses, _ = fit(**options, accumulation=parts)
    torch.testing.assert_close(losses, history, rtol=1e-9, atol=0)
    for expected, found in zip(whole.network.parameters, added.network.parameters, strict=True):
        # Adam moves a weight even by a gradient that is rounding alone.
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


def test_accumulation_holds_the_rows_of_one_part(monkeypatch):
    rows = []
    call = Perceptron.__call__

    def spy(network, inputs):
        rows.append(inputs.shape[1])
        return call(network, inputs)

    monkeypatch.setattr(Perceptron, "__call__", spy)
    fit(epochs=1)
    assert set(rows) == {12 * 5, 20 * 5}  # four or five levels, five wavelengths
    rows.clear()
    fit(epochs=1, accumulation=4)
    assert set(rows) == {3 * 5, 5 * 5}


def test_decay_shrinks_the_weights_and_is_no_part_of_the_loss_that_is_told():
    free, history, _ = fit(dtype=torch.float64, epochs=60)
    held, losses, _ = fit(dtype=torch.float64, epochs=60, weight_decay=0.1)
    torch.testing.assert_close(losses[0], history[0], rtol=1e-12, atol=0)
    norms = [
        sum(weight.square().sum((1, 2)) for weight in decoders.network.weights)
        for decoders in (free, held)
    ]
    assert torch.all(norms[1] < 0.5 * norms[0])


def test_a_seed_decides_every_bit():
    networks = [fit(seed=seed)[0].network for seed in (0, 0, 1)]
    for first, again, other in zip(*(network.parameters for network in networks), strict=True):
        assert torch.equal(first, again)
        assert not torch.equal(first, other)


# artifact


@pytest.fixture(scope="module")
def trained():
    decoders, _, features = fit(members=2, geometries=2)
    return decoders, features


def test_written_decoders_predict_the_same(trained, tmp_path):
    decoders, features = trained
    decoders.write(tmp_path / "decoders.safetensors")
    again = PathDecoders.read(tmp_path / "decoders.safetensors")
    assert again.members == 2
    signal = spectra(LEVELS, WAVELENGTHS)
    for before, after in zip(
        decoders.left_out(signal, features), again.left_out(signal, features), strict=True
    ):
        np.testing.assert_array_equal(before, after)


def test_decoders_of_another_series_are_refused(trained):
    decoders, _ = trained
    decoders.require_series(Path("d"), LEVELS, WAVELENGTHS)
    for shape in ((LEVELS + 1, WAVELENGTHS), (LEVELS, WAVELENGTHS + 1)):
        with pytest.raises(
            ArtifactError,
            match=f"d: holds decoders of 5 levels at 11 wavelengths, but the spectra have "
            f"{shape[0]} at {shape[1]}; run",
        ):
            decoders.require_series(Path("d"), *shape)


def test_a_file_without_decoders(tmp_path):
    with pytest.raises(MissingArtifactError):
        PathDecoders.read(tmp_path / "absent.safetensors")
    write_weights(tmp_path / "other.safetensors", {"metric.weight0": torch.ones(1)}, {})
    with pytest.raises(CorruptArtifactError, match="holds no decoders: 'feature_mean' is absent"):
        PathDecoders.read(tmp_path / "other.safetensors")
