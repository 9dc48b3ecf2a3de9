"""All baselines on one series: what a prediction is compared with."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from geonode.evaluation.baselines import BASELINES, FEWEST_TO_CHOOSE, chosen_inside, leave_one_out
from geonode.evaluation.scores import SeriesScores, series_scores, skill
from geonode.progress import Progress, silent
from geonode.spectra.series import Series


@dataclass(frozen=True)
class Comparison:
    """Left-out predictions of all baselines, and their scores.

    Attributes:
        predictions: by baseline.
        scores: by baseline.
        best: the baseline with the smallest RMSE, picked afterwards.
        chosen_rmse: of the baselines that inner leave-one-out chooses in every fold, None where
            there are too few levels to choose.
    """

    predictions: dict[str, Float[np.ndarray, "concentration wavelength"]]
    scores: dict[str, SeriesScores]
    best: str
    chosen_rmse: float | None

    @classmethod
    def of(cls, series: Series, report: Progress = silent) -> "Comparison":
        """Predict every level of a series from the others by every baseline.

        Args:
            series: on its given chart.
            report: told of every baseline and, while choosing among them, of every fold.
        """
        measured, levels = series.signal, series.concentrations
        predictions = {}
        for name, baseline in BASELINES.items():
            predictions[name] = leave_one_out(partial(baseline, series.chart), levels, measured)
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
        """What `validate.json` says of the baselines.

        Args:
            rmse: of the prediction that is compared with them.
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
