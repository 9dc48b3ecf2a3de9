"""Predictions and scores of all baselines on one series."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from geonode.evaluation.baselines import (
    BASELINES,
    FEWEST_TO_CHOOSE,
    chosen_inside,
    left_out_predictions,
)
from geonode.evaluation.scores import SeriesScores, series_scores, skill
from geonode.progress import Progress, silent
from geonode.spectra.series import Series


@dataclass(frozen=True)
class Comparison:
    """Left-out predictions of all baselines, and their scores.

    Attributes:
        predictions: predictions by baseline.
        scores: scores by baseline.
        best: baseline with the smallest RMSE, picked afterwards.
        chosen_rmse: RMSE of the baselines chosen by inner leave-one-out in every fold; None with
            too few levels to choose.
    """

    predictions: dict[str, Float[np.ndarray, "concentration wavelength"]]
    scores: dict[str, SeriesScores]
    best: str
    chosen_rmse: float | None

    @classmethod
    def of(cls, series: Series, report: Progress = silent) -> "Comparison":
        """Predict every level of a series from the others by every baseline.

        Args:
            series: series on its given chart.
            report: called after every baseline and, in the choice among them, after every fold.
        """
        measured, levels = series.signal, series.concentrations
        predictions = {}
        for name, baseline in BASELINES.items():
            on_chart = partial(baseline, series.chart)
            predictions[name] = left_out_predictions(on_chart, levels, measured)
            report(1)
        scores = {
            name: series_scores(series.axis, levels, measured, predicted)
            for name, predicted in predictions.items()
        }
        chosen_rmse = None
        if len(levels) >= FEWEST_TO_CHOOSE:
            chosen, _ = chosen_inside(series.chart, levels, measured, report)
            chosen_rmse = float(np.sqrt(np.mean((chosen - measured) ** 2)))
        best = min(scores, key=lambda name: scores[name]["rmse"])
        return cls(predictions, scores, best, chosen_rmse)

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
