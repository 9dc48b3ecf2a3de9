"""Registry of the methods that learn the metrics of a series.

Each gives one metric network per (member, fold) on one chart per fold. Only the methods in
`LEAKING` let a left-out spectrum reach its fold.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from geonode.config import MetricParameters
from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.metric import SIZES
from geonode.geometry.perceptron import Perceptron
from geonode.learning.context import NestedRuns, TrainingRun
from geonode.learning.end_to_end import TERMS, fit_metric
from geonode.learning.folds import Fold
from geonode.learning.kriging_evidence import charts_by_evidence
from geonode.spectra.series import Series, require_response


class MetricFit(NamedTuple):
    """Learned metrics and their training history.

    Attributes:
        metrics: metrics of every (member, fold).
        history: terms of the loss before every step; no epochs where nothing is trained.
        terms: names of the terms.
    """

    metrics: LearnedMetrics
    history: Float[Tensor, "epoch term model"]
    terms: tuple[str, ...]


LearningMethod = Callable[[Series, MetricParameters, TrainingRun], MetricFit]


def flat(series: Series, parameters: MetricParameters, run: TrainingRun) -> MetricFit:  # noqa: ARG001
    """Constant metric, one member per fold: geodesics are straight lines on the given chart."""
    charts = [series.chart] * len(run.folds)
    network = Perceptron.initial(SIZES, [(0,)] * len(charts))
    for parameter in network.parameters:
        parameter.zero_()
    return MetricFit(LearnedMetrics(network, charts), torch.zeros(0, 0, len(charts)), ())


def end_to_end(series: Series, parameters: MetricParameters, run: TrainingRun) -> MetricFit:
    """Metric networks on charts by evidence, each trained together with a decoder.

    Raises:
        TrainingError: a loss is not finite, or a checkpoint is of another training.
    """
    charts = [series.chart] * len(run.folds)
    if parameters.evidence_margin is not None:
        charts = charts_by_evidence(series, run.folds, parameters.evidence_margin)
    positions = np.stack([chart.position(series.concentrations) for chart in charts])
    network, history = fit_metric(series, positions, parameters, run)
    return MetricFit(LearnedMetrics(network, charts), history, TERMS)


def shared(series: Series, parameters: MetricParameters, run: TrainingRun) -> MetricFit:
    """One metric for all folds, trained end to end on all spectra. It leaks.

    The left-out spectrum of a fold has shaped its metric. The published procedure does so; its
    scores are no estimate of the error of a new spectrum.
    """
    levels = len(series.concentrations)
    whole = replace(run, folds=[Fold(0, levels, ())])
    metrics, history, terms = end_to_end(series, parameters, whole)
    folds = len(run.folds)
    copies = [member for member in range(metrics.members) for _ in range(folds)]
    learned = LearnedMetrics(metrics.network[copies], metrics.charts * folds)
    return MetricFit(learned, history[..., copies], terms)


LEARNING: dict[str, LearningMethod] = {
    "flat": flat,
    "end_to_end": end_to_end,
    "shared": shared,
}

LEAKING = {"shared"}
"""Methods that let a left-out spectrum reach its fold."""


def learn(series: Series, parameters: MetricParameters, runs: NestedRuns) -> MetricFit:
    """Learn the metrics of all folds and inner folds; the history is that of the outer folds.

    Raises:
        TrainingError: all spectra are equal, a loss is not finite, a level is not in the domain of
            the method, or a checkpoint is of another training.
    """
    require_response(series.signal)
    method = LEARNING[parameters.learning]
    fit = method(series, parameters, runs.outer)
    if runs.inner is None:
        return fit
    left_out = tuple(fold.left_out for fold in runs.inner.folds)
    inner = replace(method(series, parameters, runs.inner).metrics, left_out=left_out)
    return fit._replace(metrics=replace(fit.metrics, inner=inner))
