"""Learning of metrics and decoders of a series in memory: path features from the networks."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from geonode.compute.device import Device
from geonode.config import DecodersParameters, InnerParameters, MetricParameters
from geonode.estimation.model_store import ModelStore, key_of
from geonode.geometry.learned import LearnedMetrics
from geonode.learning.blend import BLENDS, Blend, fit_blend, training_steps
from geonode.learning.context import NestedRuns
from geonode.learning.folds import training_wavelengths
from geonode.learning.metric_learning import learn
from geonode.learning.path_features import path_features
from geonode.progress import Progress, silent
from geonode.spectra.series import Series

Blocks = tuple[InnerParameters, MetricParameters, DecodersParameters]
"""The blocks `inner`, `metric` and `decoders` of the parameters."""


class SeriesFit(NamedTuple):
    """Metrics and decoders of every fold of leave-one-out.

    Attributes:
        learned: the metrics.
        blend: the blend of decoders.
        features: of all geodesics between levels, at the training wavelengths; None for the
            posterior alone.
    """

    learned: LearnedMetrics
    blend: Blend
    features: Float[np.ndarray, "member fold pair training feature"] | None


def fit_series(
    series: Series, blocks: Blocks, device: Device, report: Progress = silent
) -> SeriesFit:
    """Learn metrics and decoders of a series, or read those learned before.

    Models that take a training are kept in the store of the user.

    Args:
        series: series on its given chart.
        blocks: parameters.
        device: device to train on.
        report: called after every step.

    Raises:
        TrainingError: as `learn` and `fit_blend`.
    """
    _, metric, decoders = blocks
    steps = fit_steps(len(series.concentrations), blocks, device)
    store, key = ModelStore.of_user(), key_of(series, blocks, device) if steps else ""
    if steps and (known := store.read(key)) is not None:
        report(steps)
        return SeriesFit(*known, _features(known[0], series, decoders))
    of_metric, of_decoders = (
        runs.with_progress(report) for runs in _runs(len(series.concentrations), blocks, device)
    )
    learned = learn(series, metric, of_metric).metrics
    features = _features(learned, series, decoders)
    inside = None if learned.inner is None else _features(learned.inner, series, decoders)
    blend, _ = fit_blend(series, features, inside, decoders, of_decoders)
    if steps:
        store.write(key, learned, blend)
    return SeriesFit(learned, blend, features)


def fit_steps(levels: int, blocks: Blocks, device: Device) -> int:
    """Training steps that `fit_series` reports; 0 if nothing is trained."""
    _, metric, decoders = blocks
    of_metric, of_decoders = _runs(levels, blocks, device)
    steps = 0 if metric.learning == "flat" else of_metric.models * metric.epochs
    return steps + training_steps(decoders, of_decoders)


def _runs(levels: int, blocks: Blocks, device: Device) -> tuple[NestedRuns, NestedRuns]:
    """Runs of metrics and of decoders."""
    inner, metric, decoders = blocks
    of_metric = NestedRuns.of(levels, metric.members, inner, device)
    return of_metric, NestedRuns.of(levels, decoders.members, inner, device)


def _features(
    learned: LearnedMetrics, series: Series, decoders: DecodersParameters
) -> Float[np.ndarray, "member fold pair training feature"] | None:
    """Features of all geodesics between levels; None for the posterior alone."""
    if "path" not in BLENDS[decoders.kind]:
        return None
    chosen = training_wavelengths(len(series.axis), decoders.wavelengths)
    return path_features(learned, series, chosen)
