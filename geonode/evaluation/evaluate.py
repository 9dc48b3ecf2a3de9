"""The harness: what a method says of every level that it has not seen, and how good that is.

A method predicts spectra of left-out levels, or estimates their concentrations, or both. Stages and
commands differ in the methods and series that they evaluate; scores and tables are the same.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from geonode.calibration.intervals import Sets, are_held
from geonode.calibration.methods import INVERSE, ConcentrationScores, estimate_left_out_by
from geonode.compute.device import Device, one_thread
from geonode.config import Parameters
from geonode.estimation.series_fit import Blocks, fit_series, fit_steps
from geonode.evaluation.baselines import (
    FEWEST_TO_CHOOSE,
    chosen_inside,
    left_out_predictions,
)
from geonode.evaluation.estimates import LeftOutEstimates, estimate_left_out
from geonode.evaluation.scores import (
    Coverage,
    Levels,
    SeriesScores,
    Spectra,
    band_scores,
    coverage,
    series_scores,
)
from geonode.learning.blend import Blend
from geonode.learning.predicted import Predicted
from geonode.progress import Progress, silent
from geonode.spectra.series import Series

GEONODE, PUBLISHED = "geonode", "published method"
CHOSEN = "baseline chosen inside"
"""Names of methods beside those of the registries `BASELINES` and `CALIBRATIONS`."""


@dataclass(frozen=True)
class LeftOut:
    """What a method says of every level, with that level left out; None: it says nothing.

    Attributes:
        spectra: predicted spectra.
        half_width: half the width of their intervals of `PROBABILITIES`.
        band: name and half width of the band to draw about the predictions.
        estimates: estimated concentrations.
        sets: their 90% sets.
    """

    spectra: Spectra | None = None
    half_width: Float[np.ndarray, "probability level wavelength"] | None = None
    band: tuple[str, Spectra] | None = None
    estimates: Levels | None = None
    sets: Sets | None = None

    @classmethod
    def of(cls, predicted: Predicted, estimated: LeftOutEstimates | None = None) -> "LeftOut":
        """Predictions of a model, and its estimates where there are some."""
        estimates = (None, None) if estimated is None else (estimated.modes, estimated.sets)
        return cls(predicted.spectra, predicted.half_width, predicted.band, *estimates)


Method = Callable[[Series, Progress], dict[str, LeftOut]]
"""Leaves every level of a series out in turn; answers under one or several names."""


@dataclass(frozen=True)
class Evaluation:
    """Scores of a method on a series.

    Attributes:
        series: the measured series.
        left_out: what the method says of it.
    """

    series: Series
    left_out: LeftOut

    @cached_property
    def spectra(self) -> SeriesScores:
        """Scores of the spectra of a method that predicts some."""
        assert self.left_out.spectra is not None
        one = self.series
        return series_scores(one.axis, one.concentrations, one.signal, self.left_out.spectra)

    def bands(self, bands: dict[str, tuple[float, float]]) -> dict[str, SeriesScores]:
        """`spectra` band by band; `bands` as of `band_scores`."""
        assert self.left_out.spectra is not None
        one = self.series
        return band_scores(one.axis, one.concentrations, one.signal, self.left_out.spectra, bands)

    @cached_property
    def coverage(self) -> dict[str, Coverage] | None:
        """Coverage of the intervals of spectra, by probability in per cent; None without any."""
        if self.left_out.spectra is None or self.left_out.half_width is None:
            return None
        return coverage(self.series.signal, self.left_out.spectra, self.left_out.half_width)

    @cached_property
    def concentrations(self) -> ConcentrationScores:
        """Scores of the concentrations of a method that estimates some."""
        assert self.left_out.estimates is not None
        return ConcentrationScores.of(self.series.concentrations, self.left_out.estimates)

    @property
    def row(self) -> dict[str, float | None]:
        """Scores as a row of the table; what the method says nothing about is not in it.

        Returns:
            `rmse`, `q2`, `mean_r2`, `pooled_r2` and `interior_pooled_r2` as of `SeriesScores`;
            `coverage90`, `coverage90_interior` and `coverage90_ends`: the share of measured points
            in the 90% intervals; `concentration_error` and `concentration_rmsep`: median and root
            mean squared error of the estimates, as shares of the range of the levels;
            `concentration_coverage90` and so on: the share of 90% sets that hold the true level.
        """
        row: dict[str, float | None] = {}
        if self.left_out.spectra is not None:
            scores = self.spectra
            row |= {"rmse": scores["rmse"], "q2": scores["q2"], "mean_r2": scores["mean_r2"]}
            row |= {"pooled_r2": scores["pooled_r2"]}
            row |= {"interior_pooled_r2": scores["interior_pooled_r2"]}
        if self.coverage is not None:
            points = self.coverage["90"]
            row |= {"coverage90": points["all"], "coverage90_interior": points["interior"]}
            row |= {"coverage90_ends": points["ends"]}
        if self.left_out.estimates is not None:
            row |= {"concentration_error": self.concentrations.median_error_of_range}
            row |= {"concentration_rmsep": self.concentrations.rmsep_of_range}
        if self.left_out.sets is not None:
            inside = are_held(self.series.concentrations, self.left_out.sets)
            row |= {"concentration_coverage90": float(inside.mean())}
            row |= {"concentration_coverage90_interior": float(inside[1:-1].mean())}
            row |= {"concentration_coverage90_ends": float(inside[[0, -1]].mean())}
        return row


def evaluate(method: Method, series: Series, report: Progress = silent) -> dict[str, Evaluation]:
    """Leave every level of a series out, and score what a method says of it.

    Args:
        method: a method of this module, or a function like them.
        series: series on its given chart, of four levels or more.
        report: called after every step of the method.

    Returns:
        The evaluation by each name under which the method answers.
    """
    return {name: Evaluation(series, found) for name, found in method(series, report).items()}


def skill(rmse: float, best_classical_rmse: float) -> float | None:
    """Skill against the best classical method: 1 - rmse / best_classical_rmse.

    1 is a perfect prediction, 0 one as good as the classical, below zero a worse one. None if the
    classical one is perfect.
    """
    return 1 - rmse / best_classical_rmse if best_classical_rmse > 0 else None


# methods


def by_baselines(series: Series, report: Progress = silent) -> dict[str, LeftOut]:
    """Every baseline, and the one chosen inside every fold if there are levels enough to choose."""
    parts = series.chart, series.concentrations, series.signal
    predicted = left_out_predictions(*parts, report)
    if len(series.concentrations) >= FEWEST_TO_CHOOSE:
        names = chosen_inside(*parts, report)
        predicted[CHOSEN] = np.stack([predicted[name][fold] for fold, name in enumerate(names)])
    return {name: LeftOut(spectra) for name, spectra in predicted.items()}


def by_calibrations(series: Series, report: Progress = silent) -> dict[str, LeftOut]:  # noqa: ARG001
    """The inverse calibrations, which estimate concentrations alone."""
    return {name: LeftOut(estimates=estimate_left_out_by(name, series)) for name in INVERSE}


def classical(series: Series, report: Progress = silent) -> dict[str, LeftOut]:
    """All classical methods: baselines and calibrations."""
    return by_baselines(series, report) | by_calibrations(series)


@dataclass(frozen=True)
class Trained:
    """A trained blend, which also answers as the published method if it has path decoders.

    Attributes:
        blend: decoders of every fold of the series that is evaluated.
        features: of all geodesics between its levels; None for the posterior alone.
    """

    blend: Blend
    features: Float[np.ndarray, "member fold pair training feature"] | None

    def __call__(self, series: Series, report: Progress = silent) -> dict[str, LeftOut]:  # noqa: ARG002
        """Predictions by the folds without each level."""
        blends = {GEONODE: self.blend}
        if "path" in self.blend.decoders:
            blends[PUBLISHED] = self.blend.only("path")
        return {
            name: LeftOut.of(blend.left_out(series, self.features))
            for name, blend in blends.items()
        }


@dataclass(frozen=True)
class Learned:
    """Geonode as `parameters` say, learned on the series; read from the store if it was before.

    As in the pipeline, but without the grid: path features come from the networks.

    Attributes:
        parameters: the blocks `metric`, `inner` and `decoders` are used.
        device: device to train on.
    """

    parameters: Parameters
    device: Device

    @property
    def blocks(self) -> Blocks:
        """Blocks of parameters of the learning."""
        return self.parameters.inner, self.parameters.metric, self.parameters.decoders

    def steps(self, levels: int) -> int:
        """Steps that are reported for a series of so many levels."""
        return fit_steps(levels, self.blocks, self.device) + levels

    def __call__(self, series: Series, report: Progress = silent) -> dict[str, LeftOut]:
        """Predictions and estimates by the folds without each level.

        Raises:
            TrainingError: as `fit_series` and `estimate_left_out`.
        """
        _, blend, features = fit_series(series, self.blocks, self.device, report)
        predicted = blend.left_out(series, features)
        return {GEONODE: LeftOut.of(predicted, estimate_left_out(series, report))}


# tables


class Job(NamedTuple):
    """A method to be evaluated on a series, maybe in another process.

    Attributes:
        name: name of the series.
        series: the series.
        method: the method.
        seed: seed of its networks; 0 without networks.
    """

    name: str
    series: Series
    method: Method
    seed: int = 0


def rows_of(job: Job, report: Progress = silent) -> list[dict[str, Any]]:
    """Rows of the table of scores: one for every name under which the method answers.

    Returns:
        `series`, `levels`, `wavelengths`, `method`, `seed`, the scores of `Evaluation.row`, and the
        `seconds` of the whole job.
    """
    start = time.perf_counter()
    levels, wavelengths = job.series.signal.shape
    head = {"series": job.name, "levels": levels, "wavelengths": wavelengths}
    with one_thread():
        found = evaluate(job.method, job.series, report)
        rows = [head | {"method": name, "seed": job.seed} | one.row for name, one in found.items()]
    return [row | {"seconds": time.perf_counter() - start} for row in rows]
