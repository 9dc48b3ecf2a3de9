"""All that is computed on MPS, on a stand-in: the CPU, without double precision.

What is computed in double precision by intention, on the CPU beside such a device, is done outside
of the stand-in or left out: the expansion of metrics, their evidence, and checks on the network.
"""

import numpy as np
import pytest
import torch

from geonode.compute import device as devices
from geonode.compute.device import Device
from geonode.compute.products import fast_products
from geonode.compute.profile import profile_of
from geonode.learning import batches, trainer
from geonode.learning.context import TrainingRun
from geonode.learning.end_to_end import EndToEnd
from geonode.learning.folds import leave_one_out
from geonode.learning.objective import fit
from geonode.learning.path_decoder import PathDecoders
from tests.geometry.precision import NoFloat64
from tests.learning.series import (
    cpu,
    decoder_parameters,
    flat_features,
    metric_parameters,
    positions,
    series,
)

LEVELS, WAVELENGTHS = 5, 11


class OnCPU(Device):
    """Takes itself for MPS."""

    place = torch.device("cpu")


MPS = OnCPU("mps", "a stand-in", torch.float32, torch.float32)


@pytest.fixture(autouse=True)
def of_mps(monkeypatch):
    """The CPU has the profile of MPS, and has found out before how it multiplies."""
    with fast_products(OnCPU.place):
        for module in (devices, batches, trainer):
            monkeypatch.setattr(module, "profile_of", lambda place: profile_of(torch.device("mps")))


def test_metrics_and_decoders_are_trained():
    data, features = series(LEVELS, WAVELENGTHS), flat_features(LEVELS, WAVELENGTHS)
    metric = metric_parameters(members=2)
    decoder = decoder_parameters(members=2)

    def trained(device):
        run = TrainingRun(leave_one_out(LEVELS), 2, device)
        network, history = fit(EndToEnd(data, positions(LEVELS), metric), run)
        _, other = PathDecoders.fit(data, features.astype(np.float32), decoder, run)
        return [history, other, *network.parameters]

    with NoFloat64():
        found = trained(MPS)
    assert {part.dtype for part in found[2:]} == {torch.float32}
    for place, (one, expected) in enumerate(zip(found, trained(cpu()), strict=True)):
        tolerances = {"rtol": 1e-4, "atol": 1e-6} if place < 2 else {"rtol": 0, "atol": 1e-4}
        torch.testing.assert_close(one, expected, **tolerances)
