import dataclasses

import numpy as np
import pytest
import torch

from geonode.errors import ArtifactError, CorruptArtifactError, MissingArtifactError
from geonode.geometry.learned import LearnedMetrics
from geonode.spectra.chart import Chart
from geonode.storage.weights import write_weights
from tests.geometry.small_series import MEMBERS, small_metrics, small_series

SERIES = small_series()
LEARNED = small_metrics(SERIES)


def test_what_is_written_is_read(tmp_path):
    charts = [Chart(np.inf, 0.0, 30.0), Chart(0.1 + 0.2, 0.0, 1 / 3), Chart(0.0, 1e-3, 30.0)]
    learned = dataclasses.replace(LEARNED, network=LEARNED.network[:6], charts=charts)
    learned.write(tmp_path / "metric.safetensors")
    read = LearnedMetrics.read(tmp_path / "metric.safetensors")
    assert read.charts == charts
    for one, other in zip(read.network.parameters, learned.network.parameters, strict=True):
        assert torch.equal(one, other)


def test_inner_metrics_are_written_beside_them(tmp_path):
    charts = [Chart(2.0, 0.0, 30.0), Chart(np.inf, 0.0, 30.0)]
    inner = LearnedMetrics(LEARNED.network[[7, 2]], charts)
    dataclasses.replace(LEARNED, inner=inner).write(tmp_path / "metric.safetensors")
    read = LearnedMetrics.read(tmp_path / "metric.safetensors")
    assert read.charts == LEARNED.charts
    assert read.inner.charts == charts
    assert read.inner.inner is None
    for found, expected in ((read, LEARNED), (read.inner, inner)):
        for one, other in zip(found.network.parameters, expected.network.parameters, strict=True):
            assert torch.equal(one, other)
    LEARNED.write(tmp_path / "metric.safetensors")
    assert LearnedMetrics.read(tmp_path / "metric.safetensors").inner is None


def test_models_are_in_the_order_member_fold():
    assert LEARNED.members == MEMBERS
    assert [LEARNED.index(model) for model in (0, 4, 5, 9)] == [(0, 0), (0, 4), (1, 0), (1, 4)]
    metric = LEARNED.metric(torch.device("cpu"))
    assert metric.network.models == 10
    assert all(tensor.dtype == torch.float64 for tensor in metric.network.parameters)
    first = LEARNED.network.tensors("metric", MEMBERS, 5)["metric.weight0"]
    assert torch.equal(metric.network.weights[0][7].float(), first[LEARNED.index(7)])


def test_positions_are_those_of_every_folds_own_chart():
    positions = LEARNED.positions(np.array([0.0, 15.0, 30.0]))
    assert positions.shape == (5, 3)
    np.testing.assert_allclose(positions[0], [-1, 0, 1], atol=1e-15)
    bent = 2 * np.arcsinh(15 / 5) / np.arcsinh(30 / 5) - 1
    np.testing.assert_allclose(positions[4], [-1, bent, 1], atol=1e-15)


def test_another_number_of_levels_is_refused(tmp_path):
    LEARNED.require_levels(tmp_path / "m", 4)
    for levels in (3, 6):
        message = f"m: holds metrics of 4 levels, but the spectra have {levels}"
        with pytest.raises(ArtifactError, match=message):
            LEARNED.require_levels(tmp_path / "m", levels)


def test_absent_and_foreign_files_are_named(tmp_path):
    with pytest.raises(MissingArtifactError, match="none"):
        LearnedMetrics.read(tmp_path / "none")
    decoders = LEARNED.network.tensors("decoder", MEMBERS, 5)
    metrics = LEARNED.network.tensors("metric", MEMBERS, 5)
    for tensors, metadata, absent in (
        (decoders, {"kinds": "[]"}, "metric"),
        (decoders, {"metric": "[]"}, "metric"),
        (metrics, {}, "metric"),
        (metrics, {"metric": "[]", "inner": "[]"}, "inner"),
    ):
        write_weights(tmp_path / "other", tensors, metadata)
        message = f"other: holds no metrics: '{absent}' is absent"
        with pytest.raises(CorruptArtifactError, match=message):
            LearnedMetrics.read(tmp_path / "other")
