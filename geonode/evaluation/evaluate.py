"""The harness: answers of a method for every level that it has not seen, and their scores.

A method predicts spectra of left-out levels, or estimates their concentrations, or both. Stages and
commands differ in the methods and series that they evaluate; scores and tables are the same.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from geonode.calibration.intervals import Sets, are_covered
from geonode.calibration.methods import INVERSE, ConcentrationScores, estimate_left_out_by
from geonode.compute.device import CPU, Device
from geonode.compute.threads import in_threads
from geonode.config import Parameters
from geonode.estimation.curve import Curve, posteriors_at_knots
from geonode.estimation.posterior import Estimates, Law
from geonode.evaluation.baselines import FEWEST_TO_CHOOSE, chosen_inside, left_out_predictions
from geonode.evaluation.scores import (
    PerLevel,
    SeriesScores,
    SpectraAtLevels,
    interval_coverage,
    named_coverage,
    series_scores,
    shares,
)
from geonode.learning.folds import Fold, leave_one_out
from geonode.learning.posterior_decoder import FoldPosterior
from geonode.learning.predicted import Predicted
from geonode.posterior.prior import packaged_prior
from geonode.prediction.model import SpectralModel
from geonode.progress import Progress, silent
from geonode.spectra.series import Series, level_names
from geonode.storage.table import Column, Table

GEONODE, PUBLISHED, POSTERIOR = "geonode", "published method", "posterior alone"
CHOSEN_BASELINE = "baseline chosen inside"
"""Names of methods beside those of the registries `BASELINES` and `CALIBRATIONS`."""

METRIC_PLACES = 101  # concentrations at which the posterior of the metric is drawn
MERGED = 2  # neighbouring cells of a posterior per line of its table


@dataclass(frozen=True)
class LeftOutEstimates:
    """Estimates of the concentration of every left-out spectrum by its fold."""

    levels: Float[np.ndarray, "level"]  # true concentrations
    found: Estimates  # estimates of all of them
    densities: list[Float[np.ndarray, "2 cell"]]
    """Concentrations, and posterior densities there (per unit of concentration), of every level."""

    def csv(self) -> str:
        """Posterior density of the concentration of every left-out level, as a table."""
        counts = [one.shape[1] for one in self.densities]
        levels = Column("level", np.repeat(level_names(self.levels), counts))
        both = zip(("concentration", "density"), np.hstack(self.densities), strict=True)
        columns = [levels, *(Column(*one, exponent=True) for one in both)]
        return Table("posterior", "Posterior densities of left-out levels", columns).csv()

    def summary(self) -> dict[str, Any]:
        """Errors and coverage, overall and by level, for the metrics of a pipeline."""
        found = self.found
        errors, scores = (
            np.abs(found.mode - self.levels),
            asdict(ConcentrationScores.of(self.levels, found.mode)),
        )
        columns = {
            "mode": found.mode.tolist(),
            "mean": found.mean.tolist(),
            "error": errors.tolist(),
            "set90": found.sets,
            "disconnected": found.disconnected.tolist(),
            "p_value": found.p_value.tolist(),
        }
        rows = zip(*columns.values(), strict=True)
        return {
            **{name: score for name, score in scores.items() if name != "q2"},
            "mean_absolute_error": float(errors.mean()),
            **named_coverage("", shares(are_covered(self.levels, found.sets))),
            "disconnected": int(found.disconnected.sum()),
            "levels": {
                name: dict(zip(columns, row, strict=True))
                for name, row in zip(level_names(self.levels), rows, strict=True)
            },
        }


def estimate_left_out(
    series: Series,
    report: Progress = silent,
    given: list[FoldPosterior] | None = None,
    place: torch.device = CPU,
) -> LeftOutEstimates:
    """Estimate every level from its spectrum by the fold without it.

    Args:
        series: three levels or more are left in every fold.
        report: called after every level.
        given: what `posteriors_at_knots` found of every fold that leaves one level out; None: it is
            computed.
        place: device with double precision on which it is.

    Raises:
        TrainingError: as `Curve.of`.
    """
    folds = leave_one_out(len(series.concentrations))[:-1]
    if given is None:
        given = posteriors_at_knots([(series, fold) for fold in folds], packaged_prior(place))
    found = in_threads(partial(_estimated_by_fold, series), zip(folds, given, strict=True), report)
    estimates, densities = zip(*found, strict=True)
    return LeftOutEstimates(series.concentrations, Estimates.joined(estimates), [*densities])


def _estimated_by_fold(
    series: Series, one: tuple[Fold, FoldPosterior]
) -> tuple[Estimates, np.ndarray]:
    """Estimate of the level that a fold leaves out, with its posterior by merged cells."""
    fold, given = one
    curve = Curve.of(series, fold, given=given)
    law = Law(curve)
    found = law.posteriors(series.signal[[fold.index]])
    probability = found.probability[0].numpy()
    starts = np.arange(0, len(probability), MERGED)
    edges = np.append(curve.edges[starts], curve.edges[-1])
    density = np.add.reduceat(probability, starts) / np.diff(edges)
    return law.estimates(found), np.stack([(edges[1:] + edges[:-1]) / 2, density])


@dataclass(frozen=True)
class Evaluation:
    """Answers of a method for every level of a series, left out in turn, and their scores."""

    series: Series
    spectra: SpectraAtLevels | None = None
    """Predicted spectra; None: it predicts none."""
    half_width: Float[np.ndarray, "probability level wavelength"] | None = None
    """Half the width of their intervals of `PROBABILITIES`."""
    band: tuple[str, SpectraAtLevels] | None = None
    """Name and half width of the band to draw about the predictions."""
    estimates: PerLevel | None = None  # estimated concentrations
    sets: Sets | None = None  # their 90% sets

    @classmethod
    def of(
        cls, series: Series, predicted: Predicted, estimated: LeftOutEstimates | None = None
    ) -> "Evaluation":
        """Predictions of a model, and its estimates where there are some."""
        found = (None, None) if estimated is None else (estimated.found.mode, estimated.found.sets)
        return cls(series, predicted.spectra, predicted.half_width, predicted.band(), *found)

    @cached_property
    def scores(self) -> SeriesScores:
        """Scores of the spectra of a method that predicts some."""
        assert self.spectra is not None
        series = self.series
        return series_scores(series.axis, series.concentrations, series.signal, self.spectra)

    @cached_property
    def coverage(self) -> dict[str, dict[str, float]] | None:
        """Coverage of the intervals of spectra, by probability in per cent; None without any."""
        if self.spectra is None or self.half_width is None:
            return None
        return interval_coverage(self.series.signal, self.spectra, self.half_width)

    @cached_property
    def concentrations(self) -> ConcentrationScores:
        """Scores of the concentrations of a method that estimates some."""
        assert self.estimates is not None
        return ConcentrationScores.of(self.series.concentrations, self.estimates)

    def by_wavelength(self) -> str:
        """RMSE and R2 over levels at every wavelength, as a table; no R2 where levels are equal."""
        assert self.spectra is not None
        signal, axis = self.series.signal, self.series.axis
        error = np.square(self.spectra - signal).mean(0)
        variance = np.where(np.ptp(signal, axis=0) > 0, signal.var(0), np.nan)
        columns = {"wavelength": axis, "rmse": np.sqrt(error), "r2": 1 - error / variance}
        numbers = [Column(*one, exponent=True) for one in columns.items()]
        return Table("wavelengths", "Left-out levels by wavelength", numbers).csv()

    def csv(self) -> str:
        """Measured and predicted spectrum of every level, with the half width of the band."""
        assert self.spectra is not None and self.band is not None  # of a model
        series, (name_of_band, half_width) = self.series, self.band
        levels, wavelengths = series.signal.shape
        columns = {
            "level": np.repeat(level_names(series.concentrations), wavelengths),
            "wavelength": np.tile(series.axis, levels),
            "measured": series.signal.ravel(),
            "predicted": self.spectra.ravel(),
            name_of_band: half_width.ravel(),
        }
        numbers = [Column(*one, exponent=True) for one in columns.items()]
        return Table("predictions", "Left-out levels", numbers).csv()

    @property
    def row(self) -> dict[str, float | None]:
        """Scores as a row of the table, without those of what the method does not give.

        Returns:
            `rmse`, `q2`, `mean_r2`, `pooled_r2` and `interior_pooled_r2` as of `SeriesScores`;
            `coverage90`, `coverage90_interior` and `coverage90_ends`: the share of measured points
            in the 90% intervals; `concentration_error` and `concentration_rmsep`: median and root
            mean squared error of the estimates, as shares of the range of the levels;
            `concentration_coverage90` and so on: the share of 90% sets that contain the true level.
        """
        row: dict[str, float | None] = {}
        if self.spectra is not None:
            found = self.scores
            row |= {"rmse": found["rmse"], "q2": found["q2"], "mean_r2": found["mean_r2"]}
            row |= {"pooled_r2": found["pooled_r2"]}
            row |= {"interior_pooled_r2": found["interior_pooled_r2"]}
        if self.coverage is not None:
            row |= named_coverage("", self.coverage["90"])
        if self.estimates is not None:
            row |= {"concentration_error": self.concentrations.median_error_of_range}
            row |= {"concentration_rmsep": self.concentrations.rmsep_of_range}
        if self.sets is not None:
            held = are_covered(self.series.concentrations, self.sets)
            row |= named_coverage("concentration_", shares(held))
        return row


LeaveOneOut = Callable[[Series, Progress], dict[str, Evaluation]]
"""Leaves every level of a series out in turn; answers under one or several names."""


# methods


def by_baselines(series: Series, report: Progress = silent) -> dict[str, Evaluation]:
    """Every baseline, and the one chosen inside every fold if there are levels enough to choose."""
    parts = series.chart, series.concentrations, series.signal
    predicted = left_out_predictions(*parts, report)
    if len(series.concentrations) >= FEWEST_TO_CHOOSE:
        names = chosen_inside(*parts, report)
        predicted[CHOSEN_BASELINE] = np.stack(
            [predicted[name][fold] for fold, name in enumerate(names)]
        )
    return {name: Evaluation(series, spectra) for name, spectra in predicted.items()}


def by_calibrations(series: Series, report: Progress = silent) -> dict[str, Evaluation]:  # noqa: ARG001
    """The inverse calibrations, which estimate concentrations alone."""
    found = {name: estimate_left_out_by(name, series) for name in INVERSE}
    return {name: Evaluation(series, estimates=one) for name, one in found.items()}


def classical(series: Series, report: Progress = silent) -> dict[str, Evaluation]:
    """All classical methods: baselines and calibrations."""
    return by_baselines(series, report) | by_calibrations(series)


def by_model(model: SpectralModel) -> dict[str, Evaluation]:
    """A trained model, which also answers by each kind of its decoders alone."""
    found = {GEONODE: model.left_out()}
    for name, kind in ((PUBLISHED, "path"), (POSTERIOR, "posterior")):
        if kind in model.blend.decoders:
            found[name] = model.left_out(kind)
    return {name: Evaluation.of(model.series, one) for name, one in found.items()}


def by_kind(model: SpectralModel, found: dict[str, Evaluation]) -> dict[str, dict[str, Any]]:
    """RMSE of every left-out level by each kind of decoder alone, and the weight of paths.

    Keys are `blend`, `posterior`, `path`, as far as `by_model` found them, and `weight_of_paths`.
    """
    kinds = {"blend": GEONODE, "posterior": POSTERIOR, "path": PUBLISHED}
    levels = {kind: found[name].scores["folds"] for kind, name in kinds.items() if name in found}
    weights = zip(levels["blend"], model.blend.weights_of_paths, strict=False)
    return {
        level: {kind: of[level]["rmse"] for kind, of in levels.items()}
        | {"weight_of_paths": weight}
        for level, weight in weights
    }


@dataclass(frozen=True)
class Learned:
    """Geonode by `parameters`, learned on the series, or read from the store if it was before."""

    parameters: Parameters  # the blocks `metric`, `inner` and `decoders` are used
    device: Device
    given: list[FoldPosterior] | None = None  # of a series, as for `estimate_left_out`

    def steps(self, levels: int) -> int:
        """Steps that are reported for a series of so many levels."""
        return SpectralModel.steps(levels, self.parameters, self.device) + levels

    def __call__(self, series: Series, report: Progress = silent) -> dict[str, Evaluation]:
        """Predictions and estimates by the folds without each level.

        Raises:
            TrainingError: as `SpectralModel.fit` and `estimate_left_out`.
        """
        model = SpectralModel.fit(series, self.parameters, self.device, report)
        estimated = estimate_left_out(series, report, self.given)
        return {GEONODE: Evaluation.of(series, model.left_out(), estimated)}


# tables


class Job(NamedTuple):
    """A method to be evaluated on a series, maybe in another process."""

    name: str
    series: Series  # series on its given chart, of four levels or more
    method: LeaveOneOut
    seed: int = 0  # seed of its networks; 0 without networks


def score_rows(job: Job, report: Progress = silent) -> list[dict[str, Any]]:
    """Rows of the table of scores: one for every name under which the method answers.

    Returns:
        `series`, `levels`, `wavelengths`, `method`, `seed`, the scores of `Evaluation.row`, and the
        `seconds` of the whole job.
    """
    start = time.perf_counter()
    levels, wavelengths = job.series.signal.shape
    head = {"series": job.name, "levels": levels, "wavelengths": wavelengths}
    found = job.method(job.series, report)
    rows = [head | {"method": name, "seed": job.seed} | one.row for name, one in found.items()]
    return [row | {"seconds": time.perf_counter() - start} for row in rows]


def metric_csv(model: SpectralModel) -> str:
    """Posterior of sqrt(g) over concentration; the header alone without a posterior."""
    names = ["concentration", "sqrt_g", "deviation"]
    levels = model.series.concentrations
    places = np.union1d(levels, np.linspace(levels[0], levels[-1], METRIC_PLACES))
    places = places[places > 0]
    metric = model.predict(places).sqrt_metric if model.blend.has_intervals else None
    numbers = np.empty((3, 0)) if metric is None else np.stack([places, *metric])
    columns = [Column(*one, exponent=True) for one in zip(names, numbers, strict=True)]
    return Table("metric_posterior", "Posterior of sqrt(g)", columns).csv()
