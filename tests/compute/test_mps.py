"""All that is computed on MPS, on a stand-in: the CPU, without double precision.

What is computed in double precision by intention, on the CPU beside such a device, is done outside
of the stand-in or left out: the expansion of metrics, their evidence, and checks on the network.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from geonode.compute import device as devices
from geonode.compute.device import Device
from geonode.compute.products import fast_products
from geonode.compute.profile import profile_of
from geonode.config import GeodesicsParameters
from geonode.geometry import solved
from geonode.geometry.chebyshev import ChebyshevSource
from geonode.geometry.grid import uniform_nodes
from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.metric import Metric
from geonode.geometry.solved import Geodesics, read_features
from geonode.geometry.stored import StoredGrids, write_grids
from geonode.geometry.verification import NetworkErrors
from geonode.learning import batches, trainer
from geonode.learning.context import TrainingRun
from geonode.learning.end_to_end import EndToEnd
from geonode.learning.folds import leave_one_out
from geonode.learning.objective import fit
from geonode.learning.path_decoder import PathDecoders
from tests.geometry.precision import NoFloat64
from tests.geometry.small_series import small_metrics, small_series
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
SINGLE = torch.empty(0)
METHODS = ("closed_form", "newton")


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


class Prepared(ChebyshevSource):
    """Hands out lines that were made before, in double precision."""

    def lines(self, model, like):
        return self.made[model]


@pytest.mark.slow
def test_grids_are_made_and_geodesics_solved(tmp_path, monkeypatch):
    data = small_series()
    learned = small_metrics(data)
    learned = replace(learned, network=learned.network[: len(learned.charts)])  # one member
    wavelengths = torch.from_numpy(data.wavelengths)
    source = ChebyshevSource.of(
        learned.metric(MPS.reference), wavelengths, tolerance=1e-9, largest_degree=192
    )
    made = [source.lines(model, SINGLE) for model in range(source.models)]
    prepared = Prepared(source.coefficients, source.in_w, source.calls)
    object.__setattr__(prepared, "made", made)
    none = NetworkErrors(SINGLE, SINGLE)
    monkeypatch.setattr(solved, "network_errors", lambda *given, **named: none)
    monkeypatch.setattr(LearnedMetrics, "metric", lambda self, place: Metric(self.network))
    block = GeodesicsParameters(
        method="closed_form",
        tolerance=1e-4,
        patience=1,
        steps=10,
        time_points=5,
        check_rows=20,
        allow_unconverged=0,
    )
    path, training = tmp_path / "geodesics.zarr", np.array([0, 3])
    with NoFloat64():
        nodes = uniform_nodes(200, SINGLE.device, SINGLE.dtype)
        for model in range(prepared.models):
            assert prepared.grid(model, nodes).symbol.dtype == torch.float32
    check = {"check": lambda model, grid: None}
    write_grids(tmp_path / "grids", prepared.grid, nodes, learned, data, **check)
    for method in METHODS:
        with NoFloat64():
            grids = StoredGrids(tmp_path / "grids", learned, data)
            chosen = block.model_copy(update={"method": method})
            summary = Geodesics(grids, learned, data, training, chosen, MPS).solve(path)
        assert (summary.method, summary.unconverged) == (method, 0)
        assert np.isfinite(read_features(path, data, training)).all()
