"""Every way to learn the metrics of a series, by name.

All of them take the same series and give one metric network for every (member, fold) on a chart
for every fold. None lets a left-out spectrum reach its fold.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from geonode.config import MetricParameters
from geonode.devices.device import Device
from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.metric import SIZES
from geonode.geometry.perceptron import Perceptron
from geonode.learning.end_to_end import TERMS, fit_metric
from geonode.learning.evidence import charts_by_evidence
from geonode.progress import Report
from geonode.spectra.chart import Chart
from geonode.spectra.series import Series


class MetricFit(NamedTuple):
    """Learned metrics and how their losses fell.

    Attributes:
        metrics: of every (member, fold).
        history: the terms of the loss before every step; no steps where nothing is trained.
    """

    metrics: LearnedMetrics
    history: Float[Tensor, "epoch term model"]


LearningMethod = Callable[[Series, MetricParameters, Device, Path, Report], MetricFit]


def flat(
    series: Series,
    parameters: MetricParameters,  # noqa: ARG001
    device: Device,  # noqa: ARG001
    scratch: Path,  # noqa: ARG001
    report: Report,  # noqa: ARG001
) -> MetricFit:
    """The same metric everywhere: geodesics are straight lines on the given chart."""
    return _flat([series.chart] * (len(series.concentrations) + 1))


def evidence(
    series: Series,
    parameters: MetricParameters,
    device: Device,  # noqa: ARG001
    scratch: Path,  # noqa: ARG001
    report: Report,  # noqa: ARG001
) -> MetricFit:
    """A reference metric 1 / (c^2 + kappa^2) for every fold, whose arc length is its chart.

    Raises:
        TrainingError: a level is negative.
    """
    margin = parameters.evidence_margin
    return _flat(charts_by_evidence(series.chart, series.concentrations, series.signal, margin))


def end_to_end(
    series: Series, parameters: MetricParameters, device: Device, scratch: Path, report: Report
) -> MetricFit:
    """Metric networks on the given chart, each trained together with a decoder.

    Checkpoints of the training, if the parameters ask for them, are kept in `scratch`.

    Raises:
        TrainingError: a loss is not finite, or a checkpoint is of another training.
    """
    charts = [series.chart] * (len(series.concentrations) + 1)
    network, history = fit_metric(
        series.signal,
        np.stack([chart.position(series.concentrations) for chart in charts]),
        series.wavelengths,
        parameters,
        device=device.place,
        dtype=device.training,
        report=report,
        scratch=scratch,
    )
    return MetricFit(LearnedMetrics(network, charts), history)


LEARNING: dict[str, LearningMethod] = {
    "flat": flat,
    "evidence": evidence,
    "end_to_end": end_to_end,
}


def _flat(charts: list[Chart]) -> MetricFit:
    """One member of networks that are constant on these charts."""
    network = Perceptron.initial(SIZES, [(0,)] * len(charts))
    for parameter in network.parameters:
        parameter.zero_()
    return MetricFit(LearnedMetrics(network, charts), torch.zeros(0, len(TERMS), len(charts)))
