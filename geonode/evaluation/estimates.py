"""Concentrations of left-out levels, estimated by geonode from their spectra."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from geonode.calibration.intervals import Sets, are_held
from geonode.calibration.methods import ConcentrationScores
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
    def modes(self) -> Float[np.ndarray, "level"]:
        """Most likely concentrations."""
        return np.array([one.mode[0] for one in self.estimates])

    @property
    def sets(self) -> Sets:
        """Their 90% sets."""
        return [one.sets[0] for one in self.estimates]

    def summary(self) -> dict[str, Any]:
        """Errors and coverage, overall and by level, for the metrics of a pipeline."""
        errors, inside = np.abs(self.modes - self.levels), are_held(self.levels, self.sets)
        scores = ConcentrationScores.of(self.levels, self.modes)
        return {
            "median_absolute_error": scores.median_absolute_error,
            "mean_absolute_error": float(errors.mean()),
            "median_error_of_range": scores.median_error_of_range,
            "rmsep": scores.rmsep,
            "rmsep_of_range": scores.rmsep_of_range,
            "coverage90": float(inside.mean()),
            "coverage90_interior": float(inside[1:-1].mean()),
            "coverage90_ends": float(inside[[0, -1]].mean()),
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
