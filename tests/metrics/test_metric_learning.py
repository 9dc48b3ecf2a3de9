import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from geonode.config import InnerParameters
from geonode.errors import GeonodeError, TrainingError
from geonode.geometry.metric import Metric
from geonode.metrics.end_to_end import fit_metric
from geonode.metrics.evidence import charts_by_evidence
from geonode.metrics.metric_learning import LEARNING, learn
from geonode.spectra.chart import Chart
from geonode.spectra.series import Series
from geonode.training.context import NestedRuns, TrainingRun
from geonode.training.folds import leave_one_out, leave_two_out
from tests.geometry.closed_forms import nodes
from tests.geometry.small_series import LABELS
from tests.training.series import cpu, metric_parameters, spectra

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


def test_flat_networks_have_no_curvature():
    found = fit("flat")
    assert (found.metrics.members, len(found.metrics.charts)) == (1, 6)
    metric = Metric(found.metrics.network.to(torch.device("cpu"), torch.float64))
    log_sqrt, symbol = metric.with_symbol(nodes(7)[None], nodes(4))
    assert not symbol.any()
    assert torch.equal(log_sqrt, log_sqrt[:1, :1, :1].expand(6, 7, 4))
    assert found.history.shape[0] == 0


def test_flat_keeps_the_given_chart():
    series = replace(BENT, chart=Chart.of("asinh", 3.0, LEVELS))
    assert fit("flat", series, evidence_margin=0.0).metrics.charts == [series.chart] * 6


BY_EVIDENCE = sorted(LEARNING.keys() - {"flat", "shared"})


@pytest.mark.parametrize("name", BY_EVIDENCE)
def test_charts_follow_the_margin(name):
    bent = fit(name, BENT, evidence_margin=0.0).metrics.charts
    assert bent[-1].kappa < 16.0
    stiff = fit(name, BENT, evidence_margin=1e6).metrics.charts
    assert stiff == [BENT.chart] * 6


@pytest.mark.parametrize("name", BY_EVIDENCE)
def test_without_a_margin_the_given_chart_is_kept(name):
    given = replace(BENT, chart=Chart.of("asinh", 20.0, LEVELS))
    assert fit(name, given, evidence_margin=None).metrics.charts == [given.chart] * 6
    # Nothing is asked of the spectra, so that a level may be negative.
    levels = LEVELS - 2
    below = replace(BENT, concentrations=levels, chart=Chart.of("linear", None, levels))
    assert fit(name, below, evidence_margin=None).metrics.charts == [below.chart] * 6
    with pytest.raises(TrainingError, match="found the level -1"):
        fit(name, below)


@pytest.mark.parametrize("folds", [leave_one_out(5), leave_two_out(5, 3)], ids=len)
def test_end_to_end_is_the_fit_on_the_charts_by_evidence(folds):
    run = TrainingRun(folds, 2, CPU)
    found = fit("end_to_end", BENT, run, evidence_margin=0.0)
    charts = charts_by_evidence(BENT.chart, LEVELS, BENT.signal, folds, 0.0)
    positions = np.stack([chart.position(LEVELS) for chart in charts])
    network, history = fit_metric(BENT, positions, parameters(), run)
    assert torch.equal(found.history, history)
    for one, other in zip(found.metrics.network.parameters, network.parameters, strict=True):
        assert torch.equal(one, other)
    assert found.metrics.charts == charts
    assert found.metrics.members == 2


@pytest.mark.parametrize("name", LEARNING)
def test_inner_metrics_are_those_of_the_inner_folds(name):
    block = parameters(learning=name)
    metrics, history, terms = learn(SERIES, block, RUNS)
    outer = LEARNING[name](SERIES, block, RUNS.outer)
    inner = LEARNING[name](SERIES, block, RUNS.inner).metrics
    assert torch.equal(history, outer.history)
    assert terms == outer.terms
    assert history.shape[1] == len(terms)
    for found, expected in ((metrics, outer.metrics), (metrics.inner, inner)):
        assert found.charts == expected.charts
        for one, other in zip(found.network.parameters, expected.network.parameters, strict=True):
            assert torch.equal(one, other)
    assert len(metrics.inner.charts) == 10
    assert metrics.inner.inner is None
    assert learn(SERIES, block, NestedRuns(RUNS.outer, None)).metrics.inner is None


@pytest.mark.parametrize(("value", "named"), [(0.0, "zero"), (2.5, "same at every concentration")])
def test_a_series_that_does_not_vary_is_refused(value, named):
    constant = replace(SERIES, signal=np.full_like(SERIES.signal, value))
    with pytest.raises(TrainingError, match=rf"spectra: found .*{named}"):
        learn(constant, parameters(), RUNS)


def test_an_unknown_way_of_learning_is_refused():
    unknown = parameters().model_copy(update={"learning": "guess"})
    with pytest.raises(GeonodeError, match=r"metric\.learning.*guess.*" + re.escape("end_to_end")):
        learn(SERIES, unknown, RUNS)
