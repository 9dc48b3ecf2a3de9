"""Concentrations of left-out levels, estimated by geonode from their spectra."""

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from geonode.calibration.intervals import are_held
from geonode.calibration.methods import ConcentrationScores
from geonode.compute.device import in_threads
from geonode.estimation.curve import Curve
from geonode.estimation.posterior import Estimates, estimate, posterior
from geonode.evaluation.scores import shares
from geonode.learning.folds import Fold, leave_one_out
from geonode.progress import Progress, silent
from geonode.spectra.series import Series, level_names

MERGED = 2  # neighbouring cells of a posterior per line of its table


@dataclass(frozen=True)
class LeftOutEstimates:
    """Estimates of the concentration of every left-out spectrum by its fold.

    Attributes:
        levels: true concentrations.
        found: estimates of all of them.
        densities: concentrations, and posterior densities there (per unit of concentration), of
            every level.
    """

    levels: Float[np.ndarray, "level"]
    found: Estimates
    densities: list[Float[np.ndarray, "2 cell"]]

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
            **shares("", are_held(self.levels, found.sets)),
            "disconnected": int(found.disconnected.sum()),
            "levels": {
                name: dict(zip(columns, row, strict=True))
                for name, row in zip(level_names(self.levels), rows, strict=True)
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
    estimates, densities = zip(*in_threads(partial(_left_out, series), folds, report), strict=True)
    return LeftOutEstimates(series.concentrations, Estimates.joined(estimates), [*densities])


def _left_out(series: Series, fold: Fold) -> tuple[Estimates, np.ndarray]:
    """Estimate of the level that a fold leaves out, with its posterior by merged cells."""
    curve = Curve.of(series, fold)
    spectrum = series.signal[[fold.index]]
    probability = posterior(curve, spectrum)[0]
    starts = np.arange(0, len(probability), MERGED)
    edges = np.append(curve.edges[starts], curve.edges[-1])
    density = np.add.reduceat(probability, starts) / np.diff(edges)
    return estimate(curve, spectrum), np.stack([(edges[1:] + edges[:-1]) / 2, density])
