"""The methods that learn the metrics of a series: `LEARNING`.

Each gives one metric network per (member, fold) on one chart per fold. Only `shared` lets a
left-out spectrum reach its fold.

Charts are chosen by the evidence of the training spectra. Candidates are the arc lengths of the
reference metrics g0(c) = 1 / (c^2 + kappa^2): linear for kappa -> inf, logarithmic for kappa -> 0.
On each a Gaussian process is fitted to the training spectra. The chart of the largest restricted
likelihood is taken if it exceeds that of the given chart by a margin, as a few spectra are weak
evidence about charts.
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
from geonode.learning.end_to_end import TERMS, EndToEnd
from geonode.learning.folds import Fold
from geonode.learning.gaussian_process import fit_process
from geonode.learning.objective import fit
from geonode.spectra.chart import Chart
from geonode.spectra.series import Series, require_levels, require_response
from geonode.ties import EQUAL, first_largest

KAPPAS_TRIED = 16  # between a fifth of the smallest positive level and three times the largest


class MetricFit(NamedTuple):
    """Learned metrics and their training history."""

    metrics: LearnedMetrics  # metrics of every (member, fold)
    history: Float[Tensor, "epoch term model"]
    """Terms of the loss before every step; no epochs where nothing is trained."""
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
    network, history = fit(EndToEnd(series, positions, parameters), run)
    return MetricFit(LearnedMetrics(network, charts), history, TERMS)


def charts_by_evidence(series: Series, folds: list[Fold], margin: float) -> list[Chart]:
    """Chart of every fold.

    Args:
        series: the measured series on its given chart, which is kept unless another exceeds the
            margin. The concentration of a left-out level is known to its fold, its spectrum is not.
        folds: the folds.
        margin: smallest excess of the log likelihood per wavelength over that of the given chart.
    """
    levels = series.concentrations
    low, high = float(levels[0]), float(levels[-1])
    smallest = float(levels[levels > 0].min())
    kappas = [np.inf, *np.geomspace(smallest / 5, 3 * high, KAPPAS_TRIED).tolist()]
    if low > 0:  # ln c has no place for 0
        kappas.append(0.0)
    charts = []
    for fold in folds:
        # known from the lowest to the highest training level
        known = (float(levels[fold.training[0]]), float(levels[fold.training[-1]]))
        others = (Chart(kappa, low, high, known) for kappa in kappas)
        apart = [chart for chart in others if np.diff(chart.position(levels)).all()]
        candidates, spectra = [series.chart, *apart], series.signal[fold.training]
        evidence = [
            fit_process(chart.position(levels)[fold.training], spectra, "constant")[1]
            for chart in candidates
        ]
        best = int(first_largest(np.array(evidence), size=1.0))
        better = evidence[best] > evidence[0] + margin + EQUAL
        charts.append(candidates[best if better else 0])
    return charts


def shared(series: Series, parameters: MetricParameters, run: TrainingRun) -> MetricFit:
    """One metric for all folds, trained end to end on all spectra. It leaks.

    The left-out spectrum of a fold has shaped its metric. The published procedure does so; its
    scores are no estimate of the error of a new spectrum.
    """
    whole = replace(run, folds=[replace(run.folds[-1], index=0, left_out=())])
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


def learn(series: Series, parameters: MetricParameters, runs: NestedRuns) -> MetricFit:
    """Learn the metrics of all folds and inner folds; the history is that of the outer folds.

    Raises:
        TrainingError: all spectra are equal, a loss is not finite, a level is not in the domain of
            the method, or a checkpoint is of another training.
    """
    require_levels(series.concentrations)
    require_response(series.signal)
    method = LEARNING[parameters.learning]
    outer = method(series, parameters, runs.outer)
    if runs.inner is None:
        return outer
    left_out = tuple(fold.left_out for fold in runs.inner.folds)
    inner = replace(method(series, parameters, runs.inner).metrics, left_out=left_out)
    return outer._replace(metrics=replace(outer.metrics, inner=inner))
