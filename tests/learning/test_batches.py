import threading
from dataclasses import replace

import pytest
import torch

from geonode.compute import profile
from geonode.compute.device import Device
from geonode.errors import TrainingError
from geonode.geometry.perceptron import Perceptron
from geonode.learning import objective, path_decoder
from geonode.learning.batches import Batch, Fitted, Model, batches_of, in_order
from geonode.learning.context import TrainingRun
from geonode.learning.folds import Fold, leave_one_out, leave_two_out
from geonode.learning.footprint import Footprint
from geonode.progress import silent
from tests.learning.series import cpu, run, trained_decoders, trained_metrics, trained_pairs

MEMBERS, LEVELS, EPOCHS = 3, 5, 6
OUTER, INNER = leave_one_out(LEVELS), leave_two_out(LEVELS, None)


class Elsewhere(Device):
    """Stands for any accelerator."""

    place = torch.device("meta")


CPU = cpu()
NONE = Footprint(7, 0, 1)
ACCELERATOR = Elsewhere("cuda", "test", torch.float32, torch.float64)


def batches(folds=OUTER, device=CPU, memory=NONE):
    return batches_of(TrainingRun(folds, MEMBERS, device), memory)


@pytest.fixture
def one_core(monkeypatch):
    monkeypatch.setattr(profile, "usable_cores", lambda: 1)


@pytest.fixture
def rows(monkeypatch):
    return lambda count: monkeypatch.setattr(profile, "CPU_BATCH_ROWS", count)


def recognisable(batch):
    """In place of trained networks: values that say whose they are."""
    label = torch.tensor([float(100 * member + fold.index) for member, fold in batch.models])
    network = Perceptron((label[:, None, None],), (-label[:, None, None],))
    history = torch.stack([label, 0.5 + label])[None].expand(4, -1, -1)
    return Fitted(network, history, label.tolist())


# A model costs 4 x 3 pairs of 7 rows, or 5 x 3 where nothing is left out: 84 and 105 rows. Inside
# the folds it costs 3 x 2 pairs: 42 rows.
@pytest.mark.parametrize(
    ("folds", "most", "expected"),
    [
        (OUTER, 167, [1] * 18),
        (OUTER, 168, [1] + [2] * 7 + [1] * 3),
        (OUTER, 10**9, [7, 8, 1, 2]),
        (INNER, 41, [1] * 30),
        (INNER, 168, [3, 4, 4, 4] * 2),
        (INNER[3:4], 168, [1, 2]),
    ],
)
def test_batches_hold_what_fits_for_two_cores_and_every_model_once(rows, folds, most, expected):
    rows(most)
    found = batches(folds)
    assert [len(batch.models) for batch in found] == expected
    assert len({batch.label for batch in found}) == len(found)
    for batch in found:
        for (_, fold), source, target in zip(batch.models, batch.source, batch.target, strict=True):
            found_pairs = list(zip(source.tolist(), target.tolist(), strict=True))
            assert found_pairs == trained_pairs(fold)
    network, history, beside = in_order(found, [recognisable(batch) for batch in found])
    models = [100.0 * member + fold.index for member in range(MEMBERS) for fold in folds]
    labels = torch.tensor(models)
    assert beside == models
    assert torch.equal(network.weights[0].flatten(), labels)
    assert torch.equal(network.biases[0].flatten(), -labels)
    assert torch.equal(history, torch.stack([labels, 0.5 + labels])[None].expand(4, -1, -1))


def test_an_accelerator_takes_all_folds_at_once():
    """One program for the folds that leave a level out, one for the fold that does not."""
    found = batches(device=ACCELERATOR)
    assert [len(batch.models) for batch in found] == [MEMBERS * LEVELS, MEMBERS]
    assert {batch.source.device.type for batch in found} == {"meta"}


# A model costs 4 x 3 pairs of 120 kB beside its own 300 kB, 1.74 MB; 2.1 MB where nothing is left
# out.
@pytest.mark.parametrize(
    ("memory_mb", "expected"),
    [
        (100, [(7, 1), (8, 1), (1, 1), (2, 1)]),
        (4, [(1, 1)] + [(2, 1)] * 7 + [(1, 1)] * 3),
        (2, [(1, 1)] * 15 + [(1, 2)] * 3),
    ],
)
def test_batches_and_parts_fit_into_the_memory_that_is_given(rows, one_core, memory_mb, expected):
    rows(10**9)
    device = replace(CPU, memory_mb=memory_mb)
    found = batches(device=device, memory=Footprint(7, 300_000, 120_000))
    assert [(len(batch.models), batch.parts) for batch in found] == expected


def test_a_message_names_member_and_what_is_left_out():
    none = torch.zeros(3, 1, dtype=torch.int64)
    models = [Model(m, Fold(7, LEVELS, left)) for m, left in enumerate([(3,), (1, 4), ()])]
    batch = Batch(models, none, none)
    assert [batch.name(place) for place in range(3)] == [
        "member 0 of the fold without 3",
        "member 1 of the fold without 1 and 4",
        "member 2 of the fold of all",
    ]


# of whole trainings


def decoders(device=None, report=silent):
    device = device or cpu(torch.float64)
    return trained_decoders(TrainingRun(OUTER, MEMBERS, device, report=report), 11, epochs=EPOCHS)


def assert_rounding_alone(found, expected):
    for one, other in zip(found, expected, strict=True):
        # Adam divides by the root of a squared gradient, so that a gradient that is rounding
        # alone still moves a weight; 1e-9 is 1e6 roundings and 1e-7 of a step's size.
        torch.testing.assert_close(one, other, rtol=0, atol=1e-9)


@pytest.fixture
def trained(monkeypatch):
    """Models, parts, thread and number of threads of every batch that is trained."""
    found, plain = [], objective.train

    def train(groups, *given, **options):
        thread = (threading.current_thread(), torch.get_num_threads())
        found.append((groups[0][0].models, options["parts"], *thread))
        return plain(groups, *given, **options)

    monkeypatch.setattr(objective, "train", train)
    return found


def test_little_memory_changes_results_by_rounding_alone(one_core, monkeypatch, trained):
    monkeypatch.setattr(path_decoder, "OF_PAIR", 7_000)  # 56 kB and more a row, 300 kB a pair
    whole = decoders(replace(cpu(torch.float64), memory_mb=1_000))
    assert {parts for _, parts, *_ in trained} == {1}
    trained.clear()
    in_parts = decoders(replace(cpu(torch.float64), memory_mb=1))
    assert [parts for _, parts, *_ in trained] == [4] * 15 + [5] * 3  # of three pairs at most
    assert not torch.equal(in_parts[0], whole[0])
    assert_rounding_alone(in_parts, whole)


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_every_core_has_one_thread_and_the_count_is_restored(rows, two_threads, trained):
    rows(1)
    decoders()
    assert {threads for *_, threads in trained} == {1}
    assert threading.main_thread() not in {thread for *_, thread, _ in trained}
    assert torch.get_num_threads() == 2


def test_the_number_of_cores_changes_not_a_bit(rows, two_threads, monkeypatch):
    rows(150)  # so that there is work for several
    results = []
    for cores, threads in ((1, 1), (5, 3)):
        monkeypatch.setattr(profile, "usable_cores", lambda cores=cores: cores)
        torch.set_num_threads(threads)
        results.append([*trained_metrics(run(LEVELS, 2)), *decoders(CPU)])
    assert all(torch.equal(*pair) for pair in zip(*results, strict=True))


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


@pytest.mark.parametrize(("most", "parts"), [(4, 1), (1, 3)])
def test_a_card_short_of_memory_trains_less_at_once(rows, monkeypatch, caplog, most, parts):
    rows(10**9)
    reported, whole = [], decoders()
    tried = short_of_memory(monkeypatch, most, parts)
    halved = decoders(report=reported.append)
    done = [one for one in tried if one[0] <= most and one[1] >= parts]
    assert sum(models for models, _ in done) == MEMBERS * len(OUTER)
    assert len(caplog.messages) == len(tried) - len(done) > 1
    assert sum(reported) == EPOCHS * MEMBERS * len(OUTER)
    assert_rounding_alone(halved, whole)


def test_a_card_without_memory_for_one_pair_is_an_error(two_threads, monkeypatch):
    short_of_memory(monkeypatch, 0)
    with pytest.raises(TrainingError, match=r"no memory for one pair of member 0 of the fold"):
        decoders()
    assert torch.get_num_threads() == 2
