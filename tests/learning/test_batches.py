import threading

import numpy as np
import pytest
import torch

from geonode.geometry.perceptron import Perceptron
from geonode.learning import batches
from geonode.learning.batches import Batch, Model, fit_batches
from geonode.learning.end_to_end import fit_metric
from geonode.learning.folds import Fold, Standardisation
from geonode.learning.path_decoder import fit_decoders
from tests.learning.series import (
    decoder_parameters,
    flat_features,
    metric_parameters,
    ordered_pairs,
    positions,
    spectra,
)

CPU = torch.device("cpu")
MEMBERS, LEVELS = 3, 5


def recognisable(batch):
    """In place of trained networks: values that say whose they are."""
    label = torch.tensor([float(100 * member + fold.index) for member, fold in batch.models])
    network = Perceptron((label[:, None, None],), (-label[:, None, None],))
    history = torch.stack([label, 0.5 + label])[None].expand(4, -1, -1)
    return network, history


def fit(device, fake, rows_per_pair=7):
    return fit_batches(MEMBERS, LEVELS, rows_per_pair, device, fake)


@pytest.mark.parametrize("device", ["cpu", "meta"])  # meta stands for any accelerator
@pytest.mark.parametrize("rows", [1, 100, 250, 10**9])
def test_every_model_once_and_in_order(monkeypatch, device, rows):
    for name in ("CPU_BATCH_ROWS", "ACCELERATOR_BATCH_ROWS"):
        monkeypatch.setattr(batches, name, rows)
    seen = []

    def fake(batch):
        seen.extend(batch.models)
        return recognisable(batch)

    network, history = fit(torch.device(device), fake)
    expected = [(member, fold) for member in range(MEMBERS) for fold in range(LEVELS + 1)]
    assert sorted((member, fold.index) for member, fold in seen) == expected
    labels = torch.tensor([100.0 * member + fold for member, fold in expected])
    assert torch.equal(network.weights[0].flatten(), labels)
    assert torch.equal(network.biases[0].flatten(), -labels)
    assert torch.equal(history, torch.stack([labels, 0.5 + labels])[None].expand(4, -1, -1))


# A model costs 4 x 3 pairs of 7 rows, or 5 x 4 where nothing is left out: 84 and 140 rows.
@pytest.mark.parametrize(
    ("rows", "expected"),
    [(1, [1] * 18), (167, [1] * 18), (168, [2] * 7 + [1] + [1] * 3), (10**9, [15, 3])],
)
def test_batches_hold_what_fits_and_the_training_pairs_of_their_models(monkeypatch, rows, expected):
    monkeypatch.setattr(batches, "CPU_BATCH_ROWS", rows)
    monkeypatch.setattr(batches.os, "cpu_count", lambda: 1)  # so that they come in order
    sizes = []

    def fake(batch):
        for (_, fold), source, target in zip(batch.models, batch.source, batch.target, strict=True):
            wanted = [pair for pair in ordered_pairs(LEVELS) if fold.index not in pair]
            assert list(zip(source.tolist(), target.tolist(), strict=True)) == wanted
        sizes.append(len(batch.models))
        return recognisable(batch)

    fit(CPU, fake)
    assert sizes == expected


def test_other_models_have_another_label(monkeypatch):
    labels = {}
    for rows in (1, 167, 168, 300, 10**9):
        monkeypatch.setattr(batches, "CPU_BATCH_ROWS", rows)

        def fake(batch):
            labels.setdefault(batch.label, []).append(
                [(member, fold.index) for member, fold in batch.models]
            )
            return recognisable(batch)

        fit(CPU, fake)
    assert all(models == same[0] for same in labels.values() for models in same)
    assert {"member0-fold0-to-member0-fold0", "member0-fold5-to-member2-fold5"} <= set(labels)


def test_an_accelerator_takes_all_folds_at_once():
    sizes = []

    def fake(batch):
        sizes.append(len(batch.models))
        return recognisable(batch)

    fit(torch.device("meta"), fake)
    # One program for the folds that leave a level out, one for the fold that does not.
    assert sizes == [MEMBERS * LEVELS, MEMBERS]


def test_signals_are_those_of_the_targets_on_the_scale_of_the_fold():
    values = np.array([[1.0, 2.0], [3.0, 4.0], [50.0, 60.0]])
    scales = [Standardisation(0.0, 1.0), Standardisation(1.0, 2.0), Standardisation(10.0, 10.0)]
    batch = Batch(
        [Model(0, Fold(2, 3)), Model(0, Fold(1, 3))],
        torch.tensor([[0, 1], [0, 2]]),
        torch.tensor([[1, 0], [2, 0]]),
    )
    expected = [[[-0.7, -0.6], [-0.9, -0.8]], [[24.5, 29.5], [0.0, 0.5]]]
    torch.testing.assert_close(
        batch.signals(scales, values, torch.float64), torch.tensor(expected, dtype=torch.float64)
    )


def test_first_weights_depend_on_seed_member_and_fold_alone():
    def model(member, fold):
        return Model(member, Fold(fold, LEVELS))

    def weights(*models, seed=0):
        none = torch.zeros(len(models), 1, dtype=torch.int64)
        return Batch(list(models), none, none).initial((2, 3, 1), seed).weights[0]

    one = weights(model(1, 2))[0]
    assert torch.equal(weights(model(0, 0), model(1, 2), model(2, 4))[1], one)
    others = [weights(model(2, 1))[0], weights(model(1, 3))[0], weights(model(1, 2), seed=1)[0]]
    assert not any(torch.equal(other, one) for other in others)


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_every_core_has_one_thread_and_the_count_is_restored(monkeypatch, two_threads):
    monkeypatch.setattr(batches, "CPU_BATCH_ROWS", 1)
    found = []

    def fake(batch):
        found.append((threading.current_thread(), torch.get_num_threads()))
        return recognisable(batch)

    fit(CPU, fake)
    assert {threads for _, threads in found} == {1}
    assert threading.main_thread() not in {thread for thread, _ in found}
    assert torch.get_num_threads() == 2


def test_the_thread_count_is_restored_after_a_failure(two_threads):
    def fake(batch):
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        fit(CPU, fake)
    assert torch.get_num_threads() == 2


def both(dtype):
    """A short training of metrics and of decoders, as one list of tensors."""
    signal, x = spectra(LEVELS, 9), positions(LEVELS)
    options = {"device": CPU, "dtype": dtype}
    network, history = fit_metric(
        signal, x, np.linspace(-1, 1, 9), metric_parameters(members=2), **options
    )
    decoders, losses = fit_decoders(
        signal, flat_features(LEVELS, 9), decoder_parameters(members=2), **options
    )
    scales = [decoders.features.mean, decoders.features.deviation]
    return [*network.parameters, history, *decoders.network.parameters, losses, *scales]


def test_the_number_of_cores_changes_not_a_bit(monkeypatch):
    monkeypatch.setattr(batches, "CPU_BATCH_ROWS", 150)  # so that there is work for several
    before = torch.get_num_threads()
    results = []
    try:
        for cores, threads in ((1, 1), (2, 2), (5, 3)):
            monkeypatch.setattr(batches.os, "cpu_count", lambda cores=cores: cores)
            torch.set_num_threads(threads)
            results.append(both(torch.float32))
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(*pair) for pair in zip(results[0], other, strict=True))


def test_the_size_of_a_batch_changes_rounding_alone(monkeypatch):
    results = []
    for rows in (1, 300, 10**9):
        monkeypatch.setattr(batches, "CPU_BATCH_ROWS", rows)
        results.append(both(torch.float64))
    for other in results[1:]:
        for tensor, again in zip(results[0], other, strict=True):
            # Adam divides by the root of a squared gradient, so that a gradient that is rounding
            # alone still moves a weight; 1e-9 is 1e6 roundings and 1e-7 of a step's size.
            torch.testing.assert_close(tensor, again, rtol=0, atol=1e-9)
