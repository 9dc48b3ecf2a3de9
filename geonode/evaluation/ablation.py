"""What every part of the learning buys: one part exchanged at a time, on every series at hand."""

import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from geonode.config import DecodersParameters, InnerParameters, MetricParameters, Parameters
from geonode.devices.device import Device
from geonode.errors import TrainingError
from geonode.evaluation.comparison import Comparison
from geonode.evaluation.coverage import coverage
from geonode.evaluation.scores import series_scores
from geonode.learning.blend import (
    BLENDS,
    Blend,
    InnerPredictions,
    Prediction,
    left_out_by,
    training_steps,
)
from geonode.learning.decoders import KINDS, Decoders
from geonode.learning.folds import training_wavelengths
from geonode.learning.metric_learning import LEARNING, learn
from geonode.learning.path_decoder import PathDecoders
from geonode.learning.path_features import path_features
from geonode.learning.run import Runs
from geonode.progress import Report, silent
from geonode.spectra.series import Series

PREDICTORS = BLENDS | {
    "blend without mean": ("evidence_process", "path"),
    "blend of all": ("evidence_process", "path", "scores", "mean"),
}
"""Kinds of decoders, alone and together."""

AUGMENTATION = {"shift": 0.001, "scatter": 0.01, "offset": 0.01, "slope": 0.01, "detector": 0.005}
"""Disturbances, relative to the span of the axis, to one, and to the deviation of the signal.

It is the deviation of the whole series, as it would be who chose them by eye.
"""

PLAIN, AUGMENTED = "none", "all kinds"
BASELINE = "baseline"


@dataclass(frozen=True)
class Geometry:
    """One way to come to a geometry, and to train on it.

    Attributes:
        learning: name of the metric learning.
        chart: `given`, or by `evidence`.
        augmentation: of the spectra that are trained on.
    """

    learning: str
    chart: str
    augmentation: str = PLAIN


GEOMETRIES = (
    *(Geometry(name, "evidence") for name in LEARNING if name != "flat"),
    Geometry("flat", "given"),
    Geometry("end_to_end", "given"),
    Geometry("end_to_end", "evidence", AUGMENTED),
)


@dataclass(frozen=True)
class Row:
    """One predictor on one series with one seed.

    Attributes:
        series, seed, learning, chart, augmentation, predictor, members: what was done.
        pooled_r2, interior_pooled_r2, mean_r2, worst_r2, rmse: how far off it was.
        interior90, ends90: coverage of the 90% intervals between the end levels and at them; a
            baseline has none.
        seconds: of learning the metric and training all decoders on it, inner folds included;
            predictors of the same geometry share it.
    """

    series: str
    seed: int
    learning: str
    chart: str
    augmentation: str
    predictor: str
    members: int
    pooled_r2: float | None
    interior_pooled_r2: float | None
    mean_r2: float | None
    worst_r2: float | None
    rmse: float
    interior90: float | None
    ends90: float | None
    seconds: float


def ablate(
    name: str,
    series: Series,
    geometry: Geometry,
    parameters: Parameters,
    members: list[int],
    device: Device,
    report: Report = silent,
) -> list[Row]:
    """Score every predictor on one geometry, with ensembles of several sizes.

    A smaller ensemble is the first part of the largest. All are trained to the end: no fold stops
    early, whatever `decoders.patience` says.

    Args:
        name: of the series.
        series: on its given chart.
        geometry: how to learn.
        parameters: what the ablation leaves alone, among it the seeds, which are those of `metric`.
        members: sizes of the ensembles.
        device: where to train.
        report: told of every step.

    Raises:
        TrainingError: as the learning of metrics and the training of decoders.
    """
    metric, decoders = _blocks(series, geometry, parameters, max(members))
    start = time.perf_counter()
    fitted = _Fitted.of(series, metric, decoders, parameters.inner, device, report)
    seconds = time.perf_counter() - start
    rows = []
    for predictor, kinds in PREDICTORS.items():
        trained = any(isinstance(fitted.decoders[kind], PathDecoders) for kind in kinds)
        for size in members if trained else (1,):
            prediction = fitted.left_out(kinds, size)
            rows.append(
                Row(
                    series=name,
                    seed=metric.seed,
                    **asdict(geometry),
                    predictor=predictor,
                    members=size,
                    **_scores(series, prediction.spectra),
                    **_coverage(series, prediction),
                    seconds=seconds,
                )
            )
    return rows


def baselines(name: str, series: Series, report: Report = silent) -> list[Row]:
    """Score every baseline.

    Args:
        name: of the series.
        series: on its given chart.
        report: told of every baseline and, while choosing among them, of every fold.
    """
    start = time.perf_counter()
    found = Comparison.of(series, report)
    seconds = time.perf_counter() - start
    return [
        Row(
            series=name,
            seed=0,
            learning=BASELINE,
            chart="given",
            augmentation=PLAIN,
            predictor=predictor,
            members=1,
            **_scores(series, predicted),
            interior90=None,
            ends90=None,
            seconds=seconds,
        )
        for predictor, predicted in found.predictions.items()
    ]


def steps(series: Series, members: int, parameters: Parameters, device: Device) -> int:
    """Steps of training of one geometry: of its metrics, and of two trained kinds of decoders."""
    runs = Runs.of(len(series.concentrations), members, parameters.inner, device)
    of_metric = runs.models * parameters.metric.epochs
    return of_metric + training_steps(KINDS, parameters.decoders, runs)


def _blocks(
    series: Series, geometry: Geometry, parameters: Parameters, members: int
) -> tuple[MetricParameters, DecodersParameters]:
    changes: dict[str, object] = {"members": members, "seed": parameters.metric.seed}
    if geometry.augmentation == AUGMENTED:
        deviation, span = float(series.signal.std()), float(series.axis[-1] - series.axis[0])
        units = {"shift": span, "scatter": 1.0}
        levels = {kind: units.get(kind, deviation) * by for kind, by in AUGMENTATION.items()}
        changes["augmentation"] = parameters.metric.augmentation.model_copy(update=levels)
    metric = {**changes, "learning": geometry.learning}
    if geometry.chart == "given":
        metric["evidence_margin"] = None
    return (
        parameters.metric.model_copy(update=metric),
        parameters.decoders.model_copy(update=changes),
    )


@dataclass(frozen=True)
class _Fitted:
    """Decoders of all kinds on one geometry."""

    series: Series
    runs: Runs
    features: Float[np.ndarray, "member fold pair training feature"]
    decoders: dict[str, Decoders]
    inside: InnerPredictions

    @classmethod
    def of(
        cls,
        series: Series,
        metric: MetricParameters,
        parameters: DecodersParameters,
        inner: InnerParameters,
        device: Device,
        report: Report,
    ) -> "_Fitted":
        levels = len(series.concentrations)
        runs = Runs.of(levels, metric.members, inner, device).telling(report)
        learned = learn(series, metric, runs).metrics
        if runs.inner is None or learned.inner is None:
            raise TrainingError("inner.members: found 0, expected 1 or more for an ablation")
        chosen = training_wavelengths(len(series.axis), parameters.wavelengths)
        features, inner_features = (
            path_features(metrics, series, chosen) for metrics in (learned, learned.inner)
        )
        inside = InnerPredictions.of(series, tuple(KINDS), runs.outer.folds)
        decoders = {}
        for name, kind in KINDS.items():
            decoders[name], _ = kind.fit(series, features, parameters, runs.outer)
            of_inner, _ = kind.fit(series, inner_features, parameters, runs.inner)
            inside.enter(name, runs.inner.folds, left_out_by(of_inner, series, inner_features))
        return cls(series, runs, features, decoders, inside)

    def left_out(self, kinds: tuple[str, ...], members: int) -> Prediction:
        """Left-out spectra by some kinds together, of so many members."""
        folds = self.runs.outer.folds[:-1]
        inside = self.inside.of_kinds(kinds)
        weights = inside.weights(folds)
        decoders = {kind: self.decoders[kind] for kind in kinds}
        for kind, part in decoders.items():
            if isinstance(part, PathDecoders):
                decoders[kind] = part.first(members)
        judged = inside.calibration(folds, weights)
        training = np.arange(self.features.shape[3])
        blend = Blend(decoders, weights, *judged, training, len(self.series.axis))
        return blend.left_out(self.series, self.features)


def _scores(series: Series, predicted: np.ndarray) -> dict[str, Any]:
    scores = series_scores(series.axis, series.concentrations, series.signal, predicted)
    r2 = [fold["r2"] for fold in scores["folds"].values() if fold["r2"] is not None]
    return {
        "pooled_r2": scores["pooled_r2"],
        "interior_pooled_r2": scores["interior_pooled_r2"],
        "mean_r2": scores["mean_r2"],
        "worst_r2": min(r2, default=None),
        "rmse": scores["rmse"],
    }


def _coverage(series: Series, prediction: Prediction) -> dict[str, Any]:
    if prediction.half_width is None:
        raise TrainingError("inner.members: found 0, expected 1 or more for an ablation")
    held = coverage(series.signal, prediction.spectra, prediction.half_width)["90"]
    return {"interior90": held["interior"], "ends90": held["ends"]}
