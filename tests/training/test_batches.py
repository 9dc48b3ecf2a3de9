import threading
from dataclasses import replace

import pytest
import torch

from geonode.decoders.kinds import KINDS
from geonode.devices import profile
from geonode.devices.device import Device
from geonode.errors import TrainingError
from geonode.geometry.perceptron import Perceptron
from geonode.metrics.end_to_end import fit_metric
from geonode.training import batches, footprint, objective, trainer
from geonode.training.batches import Batch, Fitted, Model, batch_limits, fit_batches
from geonode.training.context import TrainingRun
from geonode.training.folds import Fold, leave_one_out, leave_two_out
from geonode.training.footprint import Footprint
from tests.training.series import (
    cpu,
    decoder_parameters,
    flat_features,
    metric_parameters,
    ordered_pairs,
    positions,
    run,
    series,
)

MEMBERS, LEVELS, EPOCHS = 3, 5, 6
OUTER, INNER = leave_one_out(LEVELS), leave_two_out(LEVELS, None)


class Elsewhere(Device):
    """Stands for any accelerator."""

    place = torch.device("meta")


CPU = cpu()
NONE = Footprint(0, 0, 1, 1)
ACCELERATOR = Elsewhere("cuda", "test", torch.float32, torch.float64)


def recognisable(batch):
    """In place of trained networks: values that say whose they are."""
    label = torch.tensor([float(100 * member + fold.index) for member, fold in batch.models])
    network = Perceptron((label[:, None, None],), (-label[:, None, None],))
    history = torch.stack([label, 0.5 + label])[None].expand(4, -1, -1)
    beside = [100 * member + fold.index for member, fold in batch.models]
    return Fitted(network, history, beside)


def fit(device, fake, rows_per_pair=7, folds=OUTER, memory=NONE):
    training = lambda batch, report: fake(batch)  # noqa: E731
    return fit_batches(TrainingRun(folds, MEMBERS, device), rows_per_pair, training, memory)


@pytest.mark.parametrize("device", [CPU, ACCELERATOR], ids=lambda device: device.place.type)
@pytest.mark.parametrize(
    ("rows", "folds"), [(1, OUTER), (250, OUTER), (10**9, INNER), (100, INNER[3:4])]
)
def test_every_model_once_and_in_order(monkeypatch, device, rows, folds):
    for name in ("CPU_BATCH_ROWS", "ACCELERATOR_BATCH_ROWS"):
        monkeypatch.setattr(profile, name, rows)
    seen = []

    def fake(batch):
        seen.extend(batch.models)
        return recognisable(batch)

    network, history, beside = fit(device, fake, folds=folds)
    expected = [(member, fold) for member in range(MEMBERS) for fold in folds]
    assert sorted(seen, key=lambda model: (model.member, model.fold.index)) == expected
    labels = torch.tensor([100.0 * member + fold.index for member, fold in expected])
    assert torch.equal(network.weights[0].flatten(), labels)
    assert beside == labels.tolist()
    assert torch.equal(network.biases[0].flatten(), -labels)
    assert torch.equal(history, torch.stack([labels, 0.5 + labels])[None].expand(4, -1, -1))


# A model costs 4 x 3 pairs of 7 rows, or 5 x 4 where nothing is left out: 84 and 140 rows. Inside
# the folds it costs 3 x 2 pairs: 42 rows.
@pytest.mark.parametrize(
    ("folds", "rows", "expected"),
    [
        (OUTER, 1, [1] * 18),
        (OUTER, 167, [1] * 18),
        (OUTER, 168, [2] * 7 + [1] + [1] * 3),
        (OUTER, 10**9, [15, 3]),
        (INNER, 41, [1] * 30),
        (INNER, 168, [4] * 7 + [2]),
        (INNER, 10**9, [30]),
    ],
)
def test_batches_hold_what_fits_and_the_training_pairs_of_their_models(
    monkeypatch, folds, rows, expected
):
    monkeypatch.setattr(profile, "CPU_BATCH_ROWS", rows)
    monkeypatch.setattr(profile.os, "cpu_count", lambda: 1)  # so that they come in order
    sizes = []

    def fake(batch):
        for (_, fold), source, target in zip(batch.models, batch.source, batch.target, strict=True):
            unused = set(fold.left_out)
            wanted = [pair for pair in ordered_pairs(LEVELS) if not unused & set(pair)]
            assert list(zip(source.tolist(), target.tolist(), strict=True)) == wanted
        sizes.append(len(batch.models))
        return recognisable(batch)

    fit(CPU, fake, folds=folds)
    assert sizes == expected


# A model costs 4 x 3 pairs of 100 kB beside its own 200 kB, 1.4 MB; 2.2 MB where nothing is left
# out.
@pytest.mark.parametrize(
    ("memory_mb", "accumulation", "expected"),
    [
        (100, 1, [(15, 1), (3, 1)]),
        (20, 1, [(14, 1), (1, 1), (3, 1)]),
        (3, 1, [(2, 1)] * 7 + [(1, 1)] * 4),
        (2, 1, [(1, 1)] * 15 + [(1, 2)] * 3),
        (1, 1, [(1, 2)] * 15 + [(1, 3)] * 3),
        (2, 4, [(4, 4)] * 3 + [(3, 4)] + [(2, 4), (1, 4)]),
    ],
)
def test_batches_and_parts_fit_into_the_memory_that_is_given(
    monkeypatch, memory_mb, accumulation, expected
):
    monkeypatch.setattr(profile, "CPU_BATCH_ROWS", 10**9)
    monkeypatch.setattr(profile.os, "cpu_count", lambda: 1)
    device = replace(CPU, memory_mb=memory_mb)
    taken = []

    def fake(batch):
        taken.append((len(batch.models), batch.parts))
        return recognisable(batch)

    fit(device, fake, memory=Footprint(200_000, 0, 100_000, accumulation))
    assert taken == expected


def test_cores_share_the_memory(monkeypatch):
    monkeypatch.setattr(profile, "CPU_BATCH_ROWS", 10**9)
    sizes = {}
    for cores in (1, 4):
        monkeypatch.setattr(profile.os, "cpu_count", lambda cores=cores: cores)
        run = TrainingRun(OUTER, MEMBERS, replace(CPU, memory_mb=6))
        sizes[cores] = batch_limits(run, 12, 7, Footprint(200_000, 0, 100_000, 1))
    assert sizes == {1: (4, 1), 4: (1, 1)}


@pytest.mark.parametrize(
    ("train", "parts"), [("metrics", [6] * 5 + [10]), ("decoders", [4] * 5 + [7])]
)
def test_little_memory_changes_results_by_rounding_alone(monkeypatch, train, parts):
    monkeypatch.setattr(profile.os, "cpu_count", lambda: 1)
    for numbers in ("OF_PAIR", "OF_PAIR_WITH_METRIC"):
        monkeypatch.setattr(footprint, numbers, 7_000)  # 56 kB and more a row, 300 kB a pair
    made, data, levels, make = [], series(LEVELS, 11), positions(LEVELS), batches._batches
    monkeypatch.setattr(batches, "_batches", lambda *given: made.extend(make(*given)) or [*made])
    taken, split = [], trainer._parts
    monkeypatch.setattr(trainer, "_parts", lambda *given: taken.append(given[1]) or split(*given))

    def fitted(memory_mb):
        double = replace(cpu(torch.float64), memory_mb=memory_mb)
        little = replace(run(LEVELS), device=double)
        if train == "metrics":
            return fit_metric(data, levels, metric_parameters(epochs=EPOCHS), little)[0]
        features, block = flat_features(LEVELS, 11), decoder_parameters(epochs=EPOCHS)
        return KINDS["path"].fit(data, features, block, little)[0].network

    whole = fitted(1_000)
    assert {batch.parts for batch in made} == {1}
    assert len(made) < LEVELS + 1
    assert set(taken) == {1}
    made.clear()
    taken.clear()
    in_parts = fitted(1)
    assert [batch.parts for batch in made] == parts  # of two pairs each, or three
    assert taken == parts
    for one, other in zip(in_parts.parameters, whole.parameters, strict=True):
        assert not torch.equal(one, other)
        torch.testing.assert_close(one, other, rtol=0, atol=1e-11)


def test_other_models_have_another_label(monkeypatch):
    labels = {}
    for rows in (1, 167, 168, 300, 10**9):
        monkeypatch.setattr(profile, "CPU_BATCH_ROWS", rows)

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

    fit(ACCELERATOR, fake)
    # One program for the folds that leave a level out, one for the fold that does not.
    assert sizes == [MEMBERS * LEVELS, MEMBERS]


def test_first_weights_depend_on_seed_member_and_what_is_left_out_alone():
    def model(member, *left_out, index=0):
        return Model(member, Fold(index, LEVELS, left_out))

    def weights(*models, seed=0):
        none = torch.zeros(len(models), 1, dtype=torch.int64)
        return Batch(list(models), none, none).initial((2, 3, 1), seed).weights[0]

    for left_out, others in (
        ((2,), [(1,), (3,), (), (1, 2), (2, 3)]),
        ((1, 3), [(1,), (3,), (), (1, 2), (2, 3), (0, 1)]),
    ):
        one = weights(model(1, *left_out))[0]
        among = weights(model(0, 0), model(1, *left_out, index=7), model(2, 4))
        assert torch.equal(among[1], one)
        different = [weights(model(1, *other))[0] for other in others]
        different += [weights(model(2, *left_out))[0], weights(model(1, *left_out), seed=1)[0]]
        assert not any(torch.equal(other, one) for other in different)


def test_a_message_names_member_and_what_is_left_out():
    none = torch.zeros(3, 1, dtype=torch.int64)
    models = [Model(m, Fold(7, LEVELS, left)) for m, left in enumerate([(3,), (1, 4), ()])]
    batch = Batch(models, none, none)
    assert [batch.name(place) for place in range(3)] == [
        "member 0 of the fold without 3",
        "member 1 of the fold without 1 and 4",
        "member 2 of the fold of all",
    ]


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_every_core_has_one_thread_and_the_count_is_restored(monkeypatch, two_threads):
    monkeypatch.setattr(profile, "CPU_BATCH_ROWS", 1)
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
    measured, both_members = series(LEVELS, 9), run(LEVELS, 2, dtype)
    network, history = fit_metric(
        measured, positions(LEVELS), metric_parameters(members=2), both_members
    )
    decoders, losses = KINDS["path"].fit(
        measured, flat_features(LEVELS, 9), decoder_parameters(members=2), both_members
    )
    scales = [decoders.features.mean, decoders.features.deviation]
    return [*network.parameters, history, *decoders.network.parameters, losses, *scales]


def test_the_number_of_cores_changes_not_a_bit(monkeypatch):
    monkeypatch.setattr(profile, "CPU_BATCH_ROWS", 150)  # so that there is work for several
    before = torch.get_num_threads()
    results = []
    try:
        for cores, threads in ((1, 1), (2, 2), (5, 3)):
            monkeypatch.setattr(profile.os, "cpu_count", lambda cores=cores: cores)
            torch.set_num_threads(threads)
            results.append(both(torch.float32))
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(*pair) for pair in zip(results[0], other, strict=True))


def test_the_size_of_a_batch_changes_rounding_alone(monkeypatch):
    results = []
    for rows in (1, 300, 10**9):
        monkeypatch.setattr(profile, "CPU_BATCH_ROWS", rows)
        results.append(both(torch.float64))
    for other in results[1:]:
        for tensor, again in zip(results[0], other, strict=True):
            # Adam divides by the root of a squared gradient, so that a gradient that is rounding
            # alone still moves a weight; 1e-9 is 1e6 roundings and 1e-7 of a step's size.
            torch.testing.assert_close(tensor, again, rtol=0, atol=1e-9)


def short_of_memory(monkeypatch, most, parts=1):
    """Training on a card that has memory for some models in some parts at once; what is tried."""
    tried, plain = [], objective.train

    def train(groups, *given, **options):
        tried.append((groups[0][0].models, options["parts"]))
        if tried[-1][0] > most or tried[-1][1] < parts:
            options["report"](3)  # steps that are done once more
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return plain(groups, *given, **options)

    monkeypatch.setattr(objective, "train", train)
    return tried


def decoders(folds, report=lambda _: None):
    features, block = flat_features(LEVELS, 11), decoder_parameters(epochs=EPOCHS)
    fitted = TrainingRun(folds, MEMBERS, cpu(torch.float64), report=report)
    return KINDS["path"].fit(series(LEVELS, 11), features, block, fitted)


@pytest.mark.parametrize(("most", "parts"), [(4, 1), (1, 1), (1, 3)])
def test_a_card_short_of_memory_trains_less_at_once(monkeypatch, caplog, most, parts):
    monkeypatch.setattr(profile, "CPU_BATCH_ROWS", 10**9)
    reported, whole = [], decoders(OUTER)
    tried = short_of_memory(monkeypatch, most, parts)
    halved = decoders(OUTER, reported.append)
    done = [one for one in tried if one[0] <= most and one[1] >= parts]
    assert sum(models for models, _ in done) == MEMBERS * len(OUTER)
    assert len(caplog.messages) == len(tried) - len(done) > 1
    assert sum(reported) == EPOCHS * MEMBERS * len(OUTER)
    for one, other in zip(halved[0].network.parameters, whole[0].network.parameters, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-9)
    torch.testing.assert_close(halved[1], whole[1], rtol=0, atol=1e-9)


def test_a_card_without_memory_for_one_pair_is_an_error(monkeypatch):
    short_of_memory(monkeypatch, 0)
    with pytest.raises(TrainingError, match=r"no memory for one pair of member 0 of the fold"):
        decoders(OUTER)
