"""No bit of a left-out spectrum reaches anything that belongs to its fold."""

import numpy as np
import pytest
import torch

from geonode.errors import TrainingError
from geonode.learning import end_to_end, path_decoder
from geonode.learning.batches import Batch, Model
from geonode.learning.end_to_end import fit_metric
from geonode.learning.folds import Fold
from geonode.learning.path_decoder import fit_decoders
from tests.learning.series import (
    decoder_parameters,
    flat_features,
    metric_parameters,
    ordered_pairs,
    positions,
    spectra,
)

LEVELS, WAVELENGTHS, MEMBERS = 4, 9, 2
FOLDS = LEVELS + 1
OPTIONS = {"device": torch.device("cpu"), "dtype": torch.float32}


def with_row(k, row):
    changed = spectra(LEVELS, WAVELENGTHS)
    changed[k] = row
    return changed


def noise(k):
    return with_row(k, np.random.default_rng(k).normal(size=WAVELENGTHS))


def huge(k):
    return with_row(k, np.random.default_rng(k).normal(0, 1e9, WAVELENGTHS))


def by_fold(tensor):
    """The same with the fold first: models come in the order (member, fold)."""
    return tensor.unflatten(0, (MEMBERS, FOLDS)).transpose(0, 1)


def metric(signal):
    """All that the learning of metrics produces, each with the fold first."""
    x, w = positions(LEVELS), np.linspace(-1, 1, WAVELENGTHS)
    network, history = fit_metric(signal, x, w, metric_parameters(members=MEMBERS), **OPTIONS)
    return {
        **{f"parameter {i}": by_fold(tensor) for i, tensor in enumerate(network.parameters)},
        "history": by_fold(history.movedim(2, 0)),
    }


def decoders(signal):
    """All that the training of decoders produces, each with the fold first."""
    features = flat_features(LEVELS, WAVELENGTHS, MEMBERS)
    trained, history = fit_decoders(
        signal, features, decoder_parameters(members=MEMBERS), **OPTIONS
    )
    scales = [[scale.mean, scale.deviation] for scale in trained.signals]
    return {
        **{f"parameter {i}": by_fold(part) for i, part in enumerate(trained.network.parameters)},
        "feature mean": by_fold(trained.features.mean),
        "feature deviation": by_fold(trained.features.deviation),
        "history": by_fold(history.movedim(2, 0)),
        "signal scale": torch.tensor(scales, dtype=torch.float64),
        "lift": trained.lift,
    }


# The scale of features knows geodesics alone: no spectrum can change it.
WITHOUT_SPECTRA = {"feature mean", "feature deviation"}


@pytest.fixture(scope="module", params=[metric, decoders], ids=lambda fit: fit.__name__)
def fitted(request):
    """A fit, and what it makes of the series as it is."""
    return request.param, request.param(spectra(LEVELS, WAVELENGTHS))


@pytest.mark.parametrize("change", [noise, huge])
@pytest.mark.parametrize("k", range(LEVELS))
def test_a_left_out_spectrum_changes_not_one_bit_of_its_fold(fitted, change, k):
    fit, before = fitted
    after = fit(change(k))
    assert before.keys() == after.keys()
    for name, result in before.items():
        assert torch.isfinite(result).all()
        assert torch.equal(result[k], after[name][k]), name
    # Every other fold is trained on that spectrum, so that the test can fail.
    for name in before.keys() - WITHOUT_SPECTRA:
        for other in set(range(FOLDS)) - {k}:
            assert not torch.equal(before[name][other], after[name][other]), (name, other)


def test_a_fit_is_reproduced_bit_by_bit(fitted):
    fit, before = fitted
    again = fit(spectra(LEVELS, WAVELENGTHS))
    assert all(torch.equal(before[name], again[name]) for name in before)


class CapturedError(Exception):
    """Carries the result of one fold out of a fit whose other folds cannot be finite."""


@pytest.mark.parametrize("k", range(LEVELS))
@pytest.mark.parametrize("fit", [metric, decoders])
def test_a_fold_trains_though_its_left_out_spectrum_is_nan(monkeypatch, fit, k):
    def one_fold(members, levels, rows_per_pair, device, train):
        pairs = [pair for pair in ordered_pairs(levels) if k not in pair]
        source, target = torch.tensor(pairs).T
        raise CapturedError(*train(Batch([Model(0, Fold(k, levels))], source[None], target[None])))

    def parameters(signal):
        for module in (end_to_end, path_decoder):
            monkeypatch.setattr(module, "fit_batches", one_fold)
        with pytest.raises(CapturedError) as caught:
            fit(signal)
        network, history = caught.value.args
        return [*network.parameters, history]

    clean, unknown = (
        parameters(signal) for signal in (spectra(LEVELS, WAVELENGTHS), with_row(k, np.nan))
    )
    for tensor, again in zip(clean, unknown, strict=True):
        assert torch.isfinite(again).all()
        assert torch.equal(tensor, again)


@pytest.mark.parametrize("fit", [metric, decoders])
def test_a_nan_that_is_trained_on_is_an_error(fit):
    with pytest.raises(TrainingError, match="member 0 of fold 0 is not finite at epoch 0"):
        fit(with_row(1, np.nan))


@pytest.mark.parametrize("k", range(FOLDS))
def test_a_decoder_reads_the_geometry_of_its_own_fold(k):
    signal, features = spectra(LEVELS, WAVELENGTHS), flat_features(LEVELS, WAVELENGTHS)
    changed = features + np.random.default_rng(0).normal(size=features.shape)
    changed[:, k] = features[:, k]
    networks = [
        fit_decoders(signal, of_folds, decoder_parameters(), **OPTIONS)[0].network
        for of_folds in (features, changed)
    ]
    for before, after in zip(*(network.parameters for network in networks), strict=True):
        assert torch.equal(before[k], after[k])
        assert not torch.equal(before[k - 1], after[k - 1])
