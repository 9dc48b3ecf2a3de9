from dataclasses import replace

import numpy as np
import pytest
import torch

from geonode.config import InnerParameters
from geonode.errors import TrainingError
from geonode.geometry.metric import Metric
from geonode.learning.context import NestedRuns
from geonode.learning.folds import leave_one_out, leave_two_out
from geonode.learning.metric_learning import LEARNING, charts_by_evidence, learn
from geonode.spectra.chart import Chart
from tests.factory import series_of
from tests.geometry.closed_forms import nodes
from tests.learning.series import cpu, metric_parameters, smooth, spectra

CPU = cpu(torch.float64)
LEVELS = np.array([1.0, 4.0, 16.0, 64.0, 256.0])
SERIES = series_of(LEVELS, spectra(5, 11))
RUNS = NestedRuns.of(5, metric_parameters(members=2), InnerParameters(members=1, levels=None), CPU)


def test_flat_networks_have_no_curvature_on_the_given_chart():
    bent = np.sin(np.log(LEVELS)[:, None] / 3 + SERIES.axis / 100)
    series = replace(SERIES, signal=bent, charts=(Chart.of("asinh", 3.0, LEVELS),))
    found = LEARNING["flat"](series, metric_parameters(evidence_margin=0.0), RUNS.outer)
    assert (found.metrics.members, found.metrics.charts) == (1, [series.chart] * 6)
    metric = Metric(found.metrics.network.to(torch.device("cpu"), torch.float64))
    log_sqrt, symbol = metric.with_symbol(nodes(7)[None], nodes(4))
    assert not symbol.any()
    assert torch.equal(log_sqrt, log_sqrt[:1, :1, :1].expand(6, 7, 4))
    assert found.history.shape[0] == 0


@pytest.mark.parametrize(("value", "named"), [(0.0, "zero"), (2.5, "same at every concentration")])
def test_a_series_that_does_not_vary_is_refused(value, named):
    constant = replace(SERIES, signal=np.full_like(SERIES.signal, value))
    with pytest.raises(TrainingError, match=rf"spectra: found .*{named}"):
        learn(constant, metric_parameters(), RUNS)


# charts by evidence

WIDE = np.array([1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0])
EVEN = np.linspace(1.0, 7.0, 7)


def noisy(coordinate):
    """Spectra that are smooth functions of a coordinate, and a little noise."""
    spectra = smooth(coordinate, 40)
    return spectra + 1e-3 * np.random.default_rng(0).normal(size=spectra.shape)


def charts(levels, spectra, margin=1.0, folds=None, given=None):
    series = series_of(levels, spectra, chart=given)
    return charts_by_evidence(series, folds or leave_one_out(len(levels)), margin)


BLANK = np.append(0.0, EVEN)


@pytest.mark.parametrize(
    ("levels", "spectra", "low", "high"),
    [
        (WIDE, noisy(np.log(WIDE)), 0.0, 3.0),  # where it is linear there is but one level
        (EVEN, noisy(EVEN), np.inf, np.inf),
        (BLANK, noisy(BLANK), np.inf, np.inf),
        (np.append(0.0, WIDE), noisy(np.arcsinh(np.append(0.0, WIDE) / 10.0)), 1.0, 100.0),
    ],
)
def test_spectra_choose_the_chart_on_which_they_are_smooth(levels, spectra, low, high):
    found = charts(levels, spectra)
    assert all(low <= chart.kappa <= high for chart in found)
    assert {(chart.low, chart.high) for chart in found} == {(levels[0], levels[-1])}


def test_no_chart_has_two_levels_at_one_position():
    """Linear, 0 and 1e-9 would be one beside 1e12, with no geodesic from one to the other."""
    levels = np.array([0.0, 1e-9, 1.0, 1e9, 1e12])
    for chart in charts(levels, noisy(levels), given=Chart.of("asinh", 1e-3, levels)):
        assert (np.diff(chart.position(levels)) > 0).all()


def test_no_chart_of_a_series_with_a_blank_is_logarithmic():
    """Neither where the blank is trained on nor where it is left out and has to be predicted."""
    levels, spectra = np.append(0.0, WIDE), np.vstack([np.zeros(40), noisy(np.log(WIDE))])
    assert charts(WIDE, spectra[1:], 0.0)[-1].kappa == 0
    for chart in charts(levels, spectra, 0.0, leave_one_out(8)[::8]):
        assert chart.kappa > 0
        assert np.isfinite(chart.position(levels)).all()


def test_the_chart_that_is_given_stays_where_the_evidence_is_weak():
    given, folds = Chart.of("asinh", 20.0, WIDE), leave_one_out(7)[5:]
    spectra = noisy(np.log(WIDE))
    assert charts(WIDE, spectra, 1e3, folds, given) == [given] * 3
    assert max(chart.kappa for chart in charts(WIDE, spectra, 0.1, folds, given)) < 3.0


def test_the_chart_of_a_fold_is_that_of_its_own_spectra():
    folds = [*leave_one_out(7)[:-1], *leave_two_out(7, 2)]
    spectra = noisy(np.log(WIDE)) + 0.1 * np.random.default_rng(1).normal(size=(7, 40))
    found = charts(WIDE, spectra, 0.0, folds)
    assert len(set(found)) > 1
    for fold, chart in zip(folds, found, strict=True):
        unknown = spectra.copy()
        unknown[list(fold.left_out)] = np.nan
        assert charts(WIDE, unknown, 0.0, [fold]) == [chart]
