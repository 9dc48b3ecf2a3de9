from functools import partial

import numpy as np
import pytest
import torch

from geonode.compute import profile
from geonode.compute.device import Device
from geonode.learning.context import TrainingRun
from geonode.learning.end_to_end import EndToEnd, fit_metric
from geonode.learning.folds import SOURCES, Fold
from geonode.learning.path_decoder import PathDecoding, fit_path_decoders
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
        call = partial(fit_path_decoders, data, features, block, run)
        objective = PathDecoding(data, lambda: features, block)
        return peak_bytes(call), weights, objective.footprint(device)
    block = metric_parameters(**changes)
    call = partial(fit_metric, data, positions(LEVELS, 1), block, run)
    weights += 5 * dtype.itemsize * WEIGHTS
    objective = EndToEnd(data, positions(LEVELS, 1), block)
    return peak_bytes(call), weights, objective.footprint(device)


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("metric", torch.float32), ("decoder", torch.float64), ("decoder", torch.float32)],
)
def test_what_is_counted_is_what_torch_allocates(kind, dtype, monkeypatch):
    monkeypatch.setattr(profile, "usable_cores", lambda: 1)  # else cores share the memory
    found, weights, footprint = allocated_in_training(kind, dtype)
    counted = footprint.model + footprint.pair * PAIRS
    assert counted + weights == pytest.approx(found, rel=0.15)
