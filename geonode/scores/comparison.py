"""Left-out predictions of the baselines on one series, and their scores."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from geonode.progress import Progress, silent
from geonode.scores.baselines import BASELINES, Baseline, Concentrations, Spectra
from geonode.scores.series_scores import SeriesScores, series_scores, skill
from geonode.spectra.chart import Chart
from geonode.spectra.series import Series

FEWEST_TO_CHOOSE = 5
"""Fewest levels of a series with which baselines can be compared inside every fold."""

MOST_LEFT_OUT = 10
"""Largest number of training levels that are left out in turn to choose among the baselines."""


@dataclass(frozen=True)
class Comparison:
    """Scores of the left-out predictions of all baselines.

    Attributes:
        scores: scores by baseline.
        chosen_rmse: RMSE of the baselines chosen by inner leave-one-out in every fold; None with
            too few levels to choose.
    """

    scores: dict[str, SeriesScores]
    chosen_rmse: float | None

    @classmethod
    def of(cls, series: Series, report: Progress = silent) -> "Comparison":
        """Predict every level of a series from the others by every baseline.

        Args:
            series: series on its given chart.
            report: called after every baseline and, in the choice among them, after every fold.
        """
        measured, levels = series.signal, series.concentrations
        scores = {}
        for name, baseline in BASELINES.items():
            predicted = left_out_predictions(baseline, series.chart, levels, measured)
            scores[name] = series_scores(series.axis, levels, measured, predicted)
            report(1)
        chosen_rmse = None
        if len(levels) >= FEWEST_TO_CHOOSE:
            chosen = chosen_inside(series.chart, levels, measured, report)
            chosen_rmse = float(np.sqrt(np.mean((chosen - measured) ** 2)))
        return cls(scores, chosen_rmse)

    @property
    def best(self) -> str:
        """Baseline with the smallest RMSE, picked afterwards."""
        return min(self.scores, key=lambda name: self.scores[name]["rmse"])

    def summary(self, rmse: float) -> dict[str, Any]:
        """Entries of `validate.json` about the baselines.

        Args:
            rmse: RMSE of the prediction to compare with them.
        """
        details = ("folds", "pooled")
        return {
            "baselines": {
                name: {key: value for key, value in found.items() if key not in details}
                for name, found in self.scores.items()
            },
            "best_baseline": self.best,
            "best_baseline_rmse": self.scores[self.best]["rmse"],
            "chosen_baseline_rmse": self.chosen_rmse,
            "skill": None if self.chosen_rmse is None else skill(rmse, self.chosen_rmse),
        }


def left_out_predictions(
    baseline: Baseline,
    chart: Chart,
    levels: Concentrations,
    spectra: Spectra,
    left_out: Int[np.ndarray, "fold"] | None = None,
) -> Float[np.ndarray, "fold wavelength"]:
    """Predict every spectrum from the others.

    Args:
        baseline: one of `BASELINES`. It gets the rows of the other levels only.
        chart: chart of the series.
        levels: concentrations, ascending, one more than a baseline takes.
        spectra: the measured spectra.
        left_out: indices of the levels to leave out in turn; None for all.

    Returns:
        Row i is the spectrum predicted at the i-th of these levels with its row left out.
    """
    folds = range(len(levels)) if left_out is None else left_out.tolist()
    return np.stack(
        [
            baseline(
                chart,
                np.delete(levels, fold),
                np.delete(spectra, fold, axis=0),
                float(levels[fold]),
            )
            for fold in folds
        ]
    )


def chosen_inside(
    chart: Chart, concentrations: Concentrations, spectra: Spectra, report: Progress = silent
) -> Spectra:
    """Predict every spectrum by the baseline with the smallest inner leave-one-out error.

    This is the choice open to a careful user without the method under test: for every fold the
    baseline with the least squared error when each training spectrum is left out in turn, or
    `MOST_LEFT_OUT` of them, evenly spaced, where there are more.

    Args:
        chart: chart of the series.
        concentrations: levels, ascending, at least five.
        spectra: the measured spectra.
        report: called after every fold.
    """
    predictions = []
    for fold, concentration in enumerate(concentrations):
        training, known = np.delete(concentrations, fold), np.delete(spectra, fold, axis=0)
        some = np.unique(np.linspace(0, len(training) - 1, MOST_LEFT_OUT).round().astype(int))
        errors = {
            name: np.sum(
                (left_out_predictions(baseline, chart, training, known, some) - known[some]) ** 2
            )
            for name, baseline in BASELINES.items()
        }
        best = BASELINES[min(errors, key=lambda name: errors[name])]
        predictions.append(best(chart, training, known, float(concentration)))
        report(1)
    return np.stack(predictions)
