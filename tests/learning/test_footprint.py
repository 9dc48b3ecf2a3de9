from functools import partial

import numpy as np
import pytest
import torch

from geonode.compute import profile
from geonode.compute.device import Device
from geonode.learning.context import TrainingRun
from geonode.learning.end_to_end import EndToEnd
from geonode.learning.folds import SOURCES, Fold
from geonode.learning.objective import fit
from geonode.learning.path_decoder import PathDecoding
from tests.compute.allocated import peak_bytes
from tests.learning.series import (
    decoder_parameters,
    flat_features,
    metric_parameters,
    positions,
    series,
)

LEVELS, WIDTH = 12, 31
PAIRS = LEVELS * SOURCES
WEIGHTS = 64 * 3 + 64 * 128 + 128 + 129  # of a metric; of a decoder three times 64 more


class InOneThread(Device):
    """The CPU, where the profiler sees it."""

    place = torch.device("cpu")


def allocated_in_training(kind, dtype):
    """Bytes of a model, and what is counted for it."""
    device = InOneThread("mps", "test", dtype, torch.float64)
    run = TrainingRun([Fold(0, LEVELS, ())], 1, device)
    data, changes = series(LEVELS, WIDTH), {"wavelengths": WIDTH}
    # parameters, gradients, two moments, and what a step makes of them
    weights = 5 * dtype.itemsize * (WEIGHTS + 3 * 64)
    if kind == "decoder":
        features = flat_features(LEVELS, WIDTH, folds=1, training=WIDTH).astype(np.float32)
        block = decoder_parameters(**changes)
        objective = PathDecoding.of(data, features, block, run)
        return peak_bytes(partial(fit, objective, run)), weights, objective.footprint(device)
    block = metric_parameters(**changes)
    weights += 5 * dtype.itemsize * WEIGHTS
    objective = EndToEnd(data, positions(LEVELS, 1), block)
    return peak_bytes(partial(fit, objective, run)), weights, objective.footprint(device)


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("metric", torch.float32), ("decoder", torch.float64), ("decoder", torch.float32)],
)
def test_what_is_counted_is_what_torch_allocates(kind, dtype, monkeypatch):
    monkeypatch.setattr(profile, "usable_cores", lambda: 1)  # else cores share the memory
    found, weights, footprint = allocated_in_training(kind, dtype)
    counted = footprint.model + footprint.pair * PAIRS
    assert counted + weights == pytest.approx(found, rel=0.15)
