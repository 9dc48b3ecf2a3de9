"""Left-out predictions of the baselines on one series, and their errors."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool

from geonode.evaluation.baselines import BASELINES, Concentrations, Spectra, predict_by_baselines
from geonode.evaluation.series_scores import SeriesScores, series_scores, skill
from geonode.progress import Progress, silent
from geonode.spectra.chart import Chart
from geonode.spectra.series import Series

FEWEST_TO_CHOOSE = 5
"""Fewest levels of a series with which baselines can be compared inside every fold."""

MOST_LEFT_OUT = 10
"""Largest number of training levels that are left out in turn to choose among the baselines."""


@dataclass(frozen=True)
class Comparison:
    """Left-out predictions of all baselines.

    Attributes:
        series: the measured series.
        predicted: by baseline, row i is the spectrum predicted with level i left out.
        chosen: the same by the baseline chosen inside every fold; None with too few levels to
            choose.
    """

    series: Series
    predicted: dict[str, Spectra]
    chosen: Spectra | None

    @classmethod
    def of(cls, series: Series, report: Progress = silent) -> "Comparison":
        """Predict every level of a series from the others by every baseline.

        Args:
            series: series on its given chart.
            report: called after every fold, and again in the choice among the baselines.
        """
        parts = series.chart, series.concentrations, series.signal
        predicted = left_out_predictions(*parts, report)
        if len(series.concentrations) < FEWEST_TO_CHOOSE:
            return cls(series, predicted, None)
        names = chosen_inside(*parts, report)
        chosen = np.stack([predicted[name][fold] for fold, name in enumerate(names)])
        return cls(series, predicted, chosen)

    @cached_property
    def rmse(self) -> dict[str, float]:
        """Errors over all points, by baseline."""
        return {name: self._error(predicted) for name, predicted in self.predicted.items()}

    @property
    def best(self) -> str:
        """Baseline with the smallest RMSE, picked afterwards."""
        return min(self.rmse, key=self.rmse.__getitem__)

    @property
    def chosen_rmse(self) -> float | None:
        """RMSE of the baselines chosen inside every fold; None with too few levels to choose."""
        return None if self.chosen is None else self._error(self.chosen)

    def summary(self, rmse: float) -> dict[str, Any]:
        """Entries of `validate.json` about the baselines.

        Args:
            rmse: RMSE of the prediction to compare with them.
        """
        details = ("folds", "pooled")
        return {
            "baselines": {
                name: {
                    key: value for key, value in self._scores(name).items() if key not in details
                }
                for name in self.predicted
            },
            "best_baseline": self.best,
            "best_baseline_rmse": self.rmse[self.best],
            "chosen_baseline_rmse": self.chosen_rmse,
            "skill": None if self.chosen_rmse is None else skill(rmse, self.chosen_rmse),
        }

    def _error(self, predicted: Spectra) -> float:
        return float(np.sqrt(np.mean((predicted - self.series.signal) ** 2)))

    def _scores(self, baseline: str) -> SeriesScores:
        measured, predicted = self.series.signal, self.predicted[baseline]
        return series_scores(self.series.axis, self.series.concentrations, measured, predicted)


def left_out_predictions(
    chart: Chart, levels: Concentrations, spectra: Spectra, report: Progress = silent
) -> dict[str, Spectra]:
    """Predict every spectrum from the others by every baseline.

    Args:
        chart: chart of the series.
        levels: concentrations, ascending, one more than a baseline takes.
        spectra: the measured spectra.
        report: called after every fold.

    Returns:
        By baseline, row i is the spectrum predicted at level i with its row left out.
    """
    folds = []
    for fold in range(len(levels)):
        others, known = np.delete(levels, fold), np.delete(spectra, fold, axis=0)
        folds.append(predict_by_baselines(chart, others, known, levels[[fold]]))
        report(1)
    return {name: np.concatenate([found[name] for found in folds]) for name in folds[0]}


def chosen_inside(
    chart: Chart, levels: Concentrations, spectra: Spectra, report: Progress = silent
) -> list[str]:
    """Choose for every fold the baseline with the smallest leave-one-out error inside it.

    This is the choice open to a careful user without the method under test. Two levels are left
    out of a series together, one by the fold and one inside it. Either may be the fold, so that
    every pair is predicted from the rest once.

    Args:
        chart: chart of the series.
        levels: concentrations, ascending, at least five.
        spectra: the measured spectra. Neither that of a fold nor its error counts in its choice.
        report: called once for every level.
    """
    count = len(levels)
    inside = _left_out_inside(count)
    errors = np.zeros((len(BASELINES), count))
    for first in range(count):
        for second in range(first + 1, count):
            pair = [first, second]
            if not inside[first, second] and not inside[second, first]:
                continue
            others, known = np.delete(levels, pair), np.delete(spectra, pair, axis=0)
            found = predict_by_baselines(chart, others, known, levels[pair])
            predicted = np.stack([found[name] for name in BASELINES])
            squared = np.sum((predicted - spectra[pair]) ** 2, axis=2)
            errors[:, first] += inside[first, second] * squared[:, 1]
            errors[:, second] += inside[second, first] * squared[:, 0]
        report(1)
    return [BASELINES[best] for best in errors.argmin(axis=0)]


def _left_out_inside(count: int) -> Bool[np.ndarray, "fold level"]:
    """Whether a fold leaves out a level inside: all others, or `MOST_LEFT_OUT` evenly spaced."""
    inside = np.zeros((count, count), dtype=bool)
    some = np.linspace(0, count - 2, MOST_LEFT_OUT).round().astype(int)
    for fold in range(count):
        inside[fold, np.delete(np.arange(count), fold)[some]] = True
    return inside
