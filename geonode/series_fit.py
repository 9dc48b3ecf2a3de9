"""Fit of metrics and decoders of a series without the grid: path features from the networks."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from geonode.config import DecodersParameters, InnerParameters, MetricParameters
from geonode.decoders.blend import BLENDS, Blend, fit_blend
from geonode.decoders.path_features import path_features
from geonode.devices.device import Device
from geonode.geometry.learned import LearnedMetrics
from geonode.metrics.metric_learning import learn
from geonode.progress import Progress, silent
from geonode.spectra.series import Series
from geonode.training.context import NestedRuns
from geonode.training.folds import training_wavelengths


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
    series: Series,
    blocks: tuple[InnerParameters, MetricParameters, DecodersParameters],
    device: Device,
    report: Progress = silent,
) -> SeriesFit:
    """Learn metrics and decoders of a series.

    Args:
        series: series on its given chart.
        blocks: the blocks `inner`, `metric` and `decoders` of the parameters.
        device: device to train on.
        report: called after every step.

    Raises:
        TrainingError: as `NestedRuns.of`, `learn` and `fit_blend`.
    """
    inner, metric, decoders = blocks
    levels = len(series.concentrations)
    of_metric, of_decoders = (
        NestedRuns.of(levels, members, inner, device).with_progress(report)
        for members in (metric.members, decoders.members)
    )
    learned = learn(series, metric, of_metric).metrics
    features = inside = None
    if "path" in BLENDS[decoders.kind]:
        chosen = training_wavelengths(len(series.axis), decoders.wavelengths)
        features = path_features(learned, series, chosen)
        inside = None if learned.inner is None else path_features(learned.inner, series, chosen)
    blend, _ = fit_blend(series, features, inside, decoders, of_decoders)
    return SeriesFit(learned, blend, features)
