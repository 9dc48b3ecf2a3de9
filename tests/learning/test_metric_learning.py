from dataclasses import replace

import numpy as np
import pytest
import torch

from geonode.devices.device import Device
from geonode.geometry.metric import Metric
from geonode.learning.end_to_end import fit_metric
from geonode.learning.metric_learning import LEARNING
from geonode.progress import silent
from geonode.spectra.chart import Chart
from geonode.spectra.series import Series
from tests.geometry.closed_forms import nodes
from tests.geometry.small_series import LABELS
from tests.learning.series import metric_parameters, spectra

CPU = Device("cpu", "test", torch.float64, torch.float64)
LEVELS = np.array([1.0, 4.0, 16.0, 64.0, 256.0])
PARAMETERS = metric_parameters(members=2, epochs=5)
SERIES = Series(
    LEVELS, np.linspace(400, 700, 11), spectra(5, 11), Chart.of("linear", None, LEVELS), LABELS
)


def learn(name, tmp_path, series=SERIES, **changes):
    parameters = PARAMETERS.model_copy(update={"learning": name, **changes})
    return LEARNING[name](series, parameters, CPU, tmp_path / "scratch", silent)


def of_fold(fit, fold):
    """Every number that belongs to one fold."""
    network, charts = fit.metrics.network, fit.metrics.charts
    models = range(fold, network.models, len(charts))
    return charts[fold], [p[model].tolist() for p in network.parameters for model in models]


@pytest.mark.parametrize("name", LEARNING)
def test_a_left_out_spectrum_does_not_reach_the_metric_of_its_fold(name, tmp_path):
    expected = learn(name, tmp_path, evidence_margin=0.0)
    noise = 5 * np.random.default_rng(9).normal(size=(5, 11))
    for fold in range(5):
        signal = SERIES.signal.copy()
        signal[fold] = noise[fold]
        again = learn(name, tmp_path, replace(SERIES, signal=signal), evidence_margin=0.0)
        assert of_fold(again, fold) == of_fold(expected, fold)
    assert expected.metrics.charts[0].low == 1.0


@pytest.mark.parametrize("name", ["flat", "evidence"])
def test_flat_networks_have_no_curvature(name, tmp_path):
    fit = learn(name, tmp_path)
    assert (fit.metrics.members, len(fit.metrics.charts)) == (1, 6)
    metric = Metric(fit.metrics.network.to(torch.device("cpu"), torch.float64))
    log_sqrt, symbol = metric.with_symbol(nodes(7)[None], nodes(4))
    assert not symbol.any()
    assert torch.equal(log_sqrt, log_sqrt[:1, :1, :1].expand(6, 7, 4))
    assert fit.history.shape[0] == 0


def test_flat_keeps_the_given_chart(tmp_path):
    series = replace(SERIES, chart=Chart.of("asinh", 3.0, LEVELS))
    assert learn("flat", tmp_path, series).metrics.charts == [series.chart] * 6


def test_evidence_follows_its_margin(tmp_path):
    positions = np.log(LEVELS)[:, None] / 3
    signal = np.sin(positions + SERIES.axis / 100)
    series = replace(SERIES, signal=signal)
    bent = learn("evidence", tmp_path, series, evidence_margin=0.0).metrics.charts
    assert bent[-1].kappa < 16.0
    stiff = learn("evidence", tmp_path, series, evidence_margin=1e6).metrics.charts
    assert stiff == [series.chart] * 6


def test_end_to_end_is_the_fit_of_the_given_chart(tmp_path):
    fit = learn("end_to_end", tmp_path)
    positions = np.tile(SERIES.chart.position(LEVELS), (6, 1))
    network, history = fit_metric(
        SERIES.signal,
        positions,
        SERIES.wavelengths,
        PARAMETERS,
        device=torch.device("cpu"),
        dtype=torch.float64,
    )
    assert torch.equal(fit.history, history)
    for found, expected in zip(fit.metrics.network.parameters, network.parameters, strict=True):
        assert torch.equal(found, expected)
    assert fit.metrics.charts == [SERIES.chart] * 6
    assert fit.metrics.members == 2
