"""Accuracy of left-out concentrations estimated from left-out spectra."""

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from geonode.calibration.methods import INVERSE, ConcentrationScores, estimate_left_out_by
from geonode.compute.device import in_threads
from geonode.estimation.curve import Curve
from geonode.estimation.posterior import Estimates, estimate, posterior
from geonode.learning.folds import Fold, leave_one_out
from geonode.progress import Progress, silent
from geonode.spectra.series import Series, level_names

MERGED = 2  # neighbouring cells of a posterior per line of its table


@dataclass(frozen=True)
class LeftOutEstimates:
    """Estimates of the concentration of every left-out spectrum by its fold.

    Attributes:
        levels: true concentrations.
        estimates: estimates of one spectrum each.
        concentrations: concentrations of the posterior densities.
        densities: posterior densities (per unit of concentration).
    """

    levels: Float[np.ndarray, "level"]
    estimates: list[Estimates]
    concentrations: list[Float[np.ndarray, "cell"]]
    densities: list[Float[np.ndarray, "cell"]]

    @property
    def held(self) -> Bool[np.ndarray, "level"]:
        """Whether the credible set holds the true concentration."""
        return np.array(
            [
                any(low <= true <= high for low, high in one.sets[0])
                for true, one in zip(self.levels, self.estimates, strict=True)
            ]
        )

    @property
    def errors(self) -> Float[np.ndarray, "level"]:
        """Absolute errors of the most likely concentrations."""
        modes = np.array([one.mode[0] for one in self.estimates])
        return np.abs(modes - self.levels)

    def summary(self) -> dict[str, Any]:
        """Errors and coverage, overall and by level, for the metrics of a pipeline."""
        errors, held = self.errors, self.held
        modes = np.array([one.mode[0] for one in self.estimates])
        scores = ConcentrationScores.of(self.levels, modes)
        return {
            "median_absolute_error": scores.median_absolute_error,
            "mean_absolute_error": float(errors.mean()),
            "median_error_of_range": scores.median_error_of_range,
            "rmsep": scores.rmsep,
            "rmsep_of_range": scores.rmsep_of_range,
            "coverage90": float(held.mean()),
            "coverage90_interior": float(held[1:-1].mean()),
            "coverage90_ends": float(held[[0, -1]].mean()),
            "disconnected": int(sum(one.disconnected[0] for one in self.estimates)),
            "levels": {
                name: {
                    "mode": float(one.mode[0]),
                    "mean": float(one.mean[0]),
                    "error": float(error),
                    "set90": one.sets[0],
                    "disconnected": bool(one.disconnected[0]),
                    "p_value": float(one.p_value[0]),
                }
                for name, one, error in zip(
                    level_names(self.levels), self.estimates, errors, strict=True
                )
            },
        }


def calibration_scores(series: Series) -> dict[str, dict[str, float]]:
    """Errors of left-out concentrations of the inverse calibrations, by name."""
    found = {}
    for name in INVERSE:
        estimates = estimate_left_out_by(name, series)
        scores = asdict(ConcentrationScores.of(series.concentrations, estimates))
        found[name] = {key: value for key, value in scores.items() if key != "q2"}
    return found


def estimate_left_out(series: Series, report: Progress = silent) -> LeftOutEstimates:
    """Estimate every level from its spectrum by the fold without it.

    Args:
        series: three levels or more are left in every fold.
        report: called after every level.

    Raises:
        TrainingError: as `Curve.of`.
    """
    folds = leave_one_out(len(series.concentrations))[:-1]
    found = in_threads(partial(_left_out, series), folds, report)
    estimates, places, densities = zip(*found, strict=True)
    return LeftOutEstimates(series.concentrations, [*estimates], [*places], [*densities])


def _left_out(series: Series, fold: Fold) -> tuple[Estimates, np.ndarray, np.ndarray]:
    """Estimate of the level that a fold leaves out, with its posterior by merged cells."""
    curve = Curve.of(series, fold)
    spectrum = series.signal[[fold.index]]
    probability = posterior(curve, spectrum)[0]
    starts = np.arange(0, len(probability), MERGED)
    edges = np.append(curve.edges[starts], curve.edges[-1])
    density = np.add.reduceat(probability, starts) / np.diff(edges)
    return estimate(curve, spectrum), (edges[1:] + edges[:-1]) / 2, density
