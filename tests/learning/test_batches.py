from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from geonode.compute import profile
from geonode.compute.device import Device
from geonode.errors import TrainingError
from geonode.geometry.perceptron import Perceptron
from geonode.learning.batches import Footprint, TrainedModels, batches_of, in_model_order
from geonode.learning.context import TrainingRun
from geonode.learning.end_to_end import EndToEnd
from geonode.learning.folds import Fold, leave_one_out, leave_two_out
from geonode.learning.objective import fit
from geonode.learning.path_decoder import PathDecoding
from tests.compute.allocated import peak_bytes
from tests.learning.series import (
    cpu,
    decoder_parameters,
    flat_features,
    metric_parameters,
    positions,
    run,
    series,
    trained_decoders,
    trained_metrics,
    trained_pairs,
)

MEMBERS, LEVELS, EPOCHS = 3, 5, 6
OUTER, INNER = leave_one_out(LEVELS), leave_two_out(LEVELS, None)


CPU, NONE = cpu(), Footprint(7, 0, 1)


def batches(folds=OUTER, device=CPU, memory=NONE):
    return batches_of(TrainingRun(folds, MEMBERS, device), memory)


@pytest.fixture
def rows(monkeypatch):
    return lambda count: monkeypatch.setattr(profile, "CPU_BATCH_ROWS", count)


def recognisable(batch):
    """In place of trained networks: values that say whose they are."""
    label = torch.tensor([float(100 * member + fold.index) for member, fold in batch.models])
    network = Perceptron((label[:, None, None],), (-label[:, None, None],))
    return TrainedModels(network, label.expand(4, 2, -1))


# A model costs 4 x 3 pairs of 7 rows, or 5 x 3 where nothing is left out: 84 and 105 rows. Inside
# the folds it costs 3 x 2 pairs: 42 rows.
@pytest.mark.parametrize(
    ("folds", "most", "expected"),
    [
        (OUTER, 167, [1] * 18),
        (OUTER, 168, [1] + [2] * 7 + [1] * 3),
        (OUTER, 10**9, [7, 8, 1, 2]),
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
    network, history = in_model_order(found, [recognisable(batch) for batch in found])
    models = [100.0 * member + fold.index for member in range(MEMBERS) for fold in folds]
    labels = torch.tensor(models)
    assert torch.equal(network.weights[0].flatten(), labels)
    assert torch.equal(network.biases[0].flatten(), -labels)
    assert torch.equal(history, labels.expand(4, 2, -1))


# A model costs 4 x 3 pairs of 120 kB beside its own 300 kB, 1.74 MB; 2.1 MB where nothing is left
# out.
@pytest.mark.parametrize(
    ("memory_mb", "expected"), [(100, [7, 8, 1, 2]), (4, [1] + [2] * 7 + [1] * 3)]
)
@pytest.mark.parametrize("cores", [1, 128])
def test_batches_fit_into_the_memory_that_is_given_on_any_cores(
    rows, monkeypatch, cores, memory_mb, expected
):
    rows(10**9)
    monkeypatch.setattr(profile, "usable_cores", lambda: cores)
    footprint = Footprint(7, 300_000, 120_000)
    found = batches(device=replace(CPU, memory_mb=memory_mb), memory=footprint)
    assert [len(batch.models) for batch in found] == expected
    with pytest.raises(TrainingError, match=r"found 2 MB .*expected at least the 2\.1 MB of one"):
        batches(device=replace(CPU, memory_mb=2), memory=footprint)


# of whole trainings


def test_the_number_of_cores_changes_not_a_bit(rows, monkeypatch):
    rows(150)  # so that there is work for several
    results = []
    for cores in (1, 5):
        monkeypatch.setattr(profile, "usable_cores", lambda cores=cores: cores)
        decoders = trained_decoders(run(LEVELS, MEMBERS), 11, epochs=EPOCHS)
        results.append([*trained_metrics(run(LEVELS, 2)), *decoders])
    assert all(torch.equal(*pair) for pair in zip(*results, strict=True))


# memory

MANY, WIDTH = 12, 31
WEIGHTS = 64 * 3 + 64 * 128 + 128 + 129  # of a metric; of a decoder three times 64 more


class InOneThread(Device):
    """The CPU, where the profiler sees it."""

    place = torch.device("cpu")


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("metric", torch.float32), ("decoder", torch.float64), ("decoder", torch.float32)],
)
def test_what_is_counted_is_what_torch_allocates(kind, dtype, monkeypatch):
    device = InOneThread("mps", "test", dtype, torch.float64)
    run = TrainingRun([Fold(0, MANY, ())], 1, device)
    data, changes = series(MANY, WIDTH), {"wavelengths": WIDTH}
    if kind == "decoder":
        features = flat_features(MANY, WIDTH, folds=1, training=WIDTH).astype(np.float32)
        objective = PathDecoding.of(data, features, decoder_parameters(**changes), run)
        weights = WEIGHTS + 3 * 64
    else:
        objective = EndToEnd(data, positions(MANY, 1), metric_parameters(**changes))
        weights = 2 * WEIGHTS + 3 * 64  # of a metric and of a decoder
    found, footprint = peak_bytes(partial(fit, objective, run)), objective.footprint(device)
    counted = footprint.model + footprint.pair * MANY * Fold.sources
    # parameters, gradients, two moments, and what a step makes of them
    assert counted + 5 * dtype.itemsize * weights == pytest.approx(found, rel=0.15)
