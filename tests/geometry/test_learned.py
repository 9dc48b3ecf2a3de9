import dataclasses

import numpy as np
import pytest
import torch

from geonode.errors import ArtifactError, CorruptArtifactError, MissingArtifactError
from geonode.geometry.learned import LearnedMetrics
from geonode.spectra.chart import Chart
from geonode.storage.weights import write_weights
from tests.geometry.small_series import MEMBERS, small_metrics, small_series

LEARNED = small_metrics(small_series())


def test_what_is_written_is_read_with_inner_metrics_beside_them(tmp_path):
    charts = [Chart(np.inf, 0.0, 30.0), Chart(0.1 + 0.2, 0.0, 1 / 3), Chart(0.0, 1e-3, 30.0)]
    inner = LearnedMetrics(LEARNED.network[:6], charts, left_out=((0, 1), (2,), (3, 1)))
    path = tmp_path / "metric.safetensors"
    dataclasses.replace(LEARNED, inner=inner).write(path)
    read = LearnedMetrics.read(path)
    for found, expected in ((read, LEARNED), (read.inner, inner)):
        assert found.charts == expected.charts
        pairs = zip(found.network.parameters, expected.network.parameters, strict=True)
        assert all(torch.equal(*pair) for pair in pairs)
    read.require_inner(path, inner.left_out)
    with pytest.raises(ArtifactError, match=r"metrics of 3 inner folds, expected .* the 0"):
        read.require_inner(path, ())
    LEARNED.write(path)
    assert LearnedMetrics.read(path).inner is None


def test_models_are_in_the_order_member_fold():
    assert LEARNED.members == MEMBERS
    assert [LEARNED.index(model) for model in (0, 4, 5, 9)] == [(0, 0), (0, 4), (1, 0), (1, 4)]
    metric = LEARNED.metric(torch.device("cpu"))
    assert all(tensor.dtype == torch.float64 for tensor in metric.network.parameters)
    first = LEARNED.network.tensors("metric", MEMBERS, 5)["metric.weight0"]
    assert torch.equal(metric.network.weights[0][7].float(), first[LEARNED.index(7)])


def test_positions_are_those_of_every_folds_own_chart():
    positions = LEARNED.positions(np.array([0.0, 15.0, 30.0]))
    np.testing.assert_allclose(positions[0], [-1, 0, 1], atol=1e-15)
    bent = 2 * np.arcsinh(15 / 5) / np.arcsinh(30 / 5) - 1
    np.testing.assert_allclose(positions[4], [-1, bent, 1], atol=1e-15)


def test_absent_and_foreign_files_are_named(tmp_path):
    with pytest.raises(MissingArtifactError, match="none"):
        LearnedMetrics.read(tmp_path / "none")
    decoders, metrics = (LEARNED.network.tensors(name, 2, 5) for name in ("decoder", "metric"))
    for tensors, metadata, found in (
        (decoders, {"metric": "[]"}, "'metric' is absent"),
        (metrics, {}, "'metric' is absent"),
        (metrics, {"metric": "[]", "inner": "[]"}, "'inner' is absent"),
        (metrics, {"metric": "[7, 7]"}, "not iterable"),
    ):
        write_weights(tmp_path / "other", tensors, metadata)
        with pytest.raises(CorruptArtifactError, match=f"other: contains no metrics: .*{found}"):
            LearnedMetrics.read(tmp_path / "other")
