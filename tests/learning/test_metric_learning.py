from dataclasses import replace

import numpy as np
import pytest
import torch

from geonode.config import InnerParameters
from geonode.errors import TrainingError
from geonode.geometry.metric import Metric
from geonode.learning.context import NestedRuns
from geonode.learning.metric_learning import LEARNING, learn
from geonode.spectra.chart import Chart
from geonode.spectra.series import Series
from tests.geometry.closed_forms import nodes
from tests.geometry.small_series import LABELS
from tests.learning.series import cpu, metric_parameters, spectra

CPU = cpu(torch.float64)
LEVELS = np.array([1.0, 4.0, 16.0, 64.0, 256.0])
SERIES = Series(
    LEVELS, np.linspace(400, 700, 11), spectra(5, 11), Chart.of("linear", None, LEVELS), LABELS
)
BENT = replace(SERIES, signal=np.sin(np.log(LEVELS)[:, None] / 3 + SERIES.axis / 100))
RUNS = NestedRuns.of(5, 2, InnerParameters(members=1, levels=None), CPU)


def parameters(**changes):
    return metric_parameters(members=2, epochs=5, **changes)


def fit(name, series=SERIES, run=RUNS.outer, **changes):
    return LEARNING[name](series, parameters(learning=name, **changes), run)


def test_flat_networks_have_no_curvature_on_the_given_chart():
    series = replace(BENT, chart=Chart.of("asinh", 3.0, LEVELS))
    found = fit("flat", series, evidence_margin=0.0)
    assert (found.metrics.members, found.metrics.charts) == (1, [series.chart] * 6)
    metric = Metric(found.metrics.network.to(torch.device("cpu"), torch.float64))
    log_sqrt, symbol = metric.with_symbol(nodes(7)[None], nodes(4))
    assert not symbol.any()
    assert torch.equal(log_sqrt, log_sqrt[:1, :1, :1].expand(6, 7, 4))
    assert found.history.shape[0] == 0


@pytest.mark.parametrize("margin", [1e6, None])
def test_the_given_chart_is_kept_without_a_margin_and_for_a_large_one(margin):
    given = replace(BENT, chart=Chart.of("asinh", 20.0, LEVELS))
    charts = fit("end_to_end", given, evidence_margin=margin).metrics.charts
    assert charts == [given.chart] * 6


@pytest.mark.parametrize("name", LEARNING)
def test_inner_metrics_are_those_of_the_inner_folds(name):
    block = parameters(learning=name, evidence_margin=None)
    metrics, history, terms = learn(SERIES, block, RUNS)
    outer = LEARNING[name](SERIES, block, RUNS.outer)
    inner = LEARNING[name](SERIES, block, RUNS.inner).metrics
    assert torch.equal(history, outer.history)
    assert history.shape[1] == len(terms) == len(outer.terms)
    for found, expected in ((metrics, outer.metrics), (metrics.inner, inner)):
        assert found.charts == expected.charts
        for one, other in zip(found.network.parameters, expected.network.parameters, strict=True):
            assert torch.equal(one, other)
    assert metrics.inner.left_out == tuple(fold.left_out for fold in RUNS.inner.folds)
    assert learn(SERIES, block, NestedRuns(RUNS.outer, None)).metrics.inner is None


@pytest.mark.parametrize(("value", "named"), [(0.0, "zero"), (2.5, "same at every concentration")])
def test_a_series_that_does_not_vary_is_refused(value, named):
    constant = replace(SERIES, signal=np.full_like(SERIES.signal, value))
    with pytest.raises(TrainingError, match=rf"spectra: found .*{named}"):
        learn(constant, parameters(), RUNS)
