"""Scores of a series of left-out spectra, band by band, against another method, of intervals.

Every score is a plain number, or None where it is undefined or meaningless, as JSON takes them.
"""

from typing import TypedDict

import numpy as np
from jaxtyping import Bool, Float

from geonode.evaluation.spectrum_scores import (
    Axis,
    SpectrumScores,
    point_scores,
    pooled_r2,
    spectrum_scores,
    variances,
)
from geonode.posterior.prior import PROBABILITIES
from geonode.spectra.series import level_names

Levels = Float[np.ndarray, "concentration"]
Spectra = Float[np.ndarray, "concentration wavelength"]

SMALLEST_BAND = 3
"""Fewest wavelengths of a band with scores."""

FAINT = 0.01
"""Variance below which a spectrum is faint, relative to the mean variance of the others."""

MEANINGLESS_IF_FAINT = ("r2", "peak_position_error", "fwhm_error")
"""Scores relative to the variance of the measured spectrum, or of a peak that may be noise."""


class SeriesScores(TypedDict):
    """Scores of a series of left-out spectra.

    Attributes:
        q2: by the function `q2`.
        mean_r2: mean over the folds that have an R2; None if none has.
        undefined_r2: names of the other folds.
        pooled_r2: 1 - sum SSE / sum SST over all folds; None if no spectrum varies.
        interior_pooled_r2: `pooled_r2` without the lowest and the highest level, which are
            extrapolated.
        rmse: over all points.
        pooled: `point_scores` over all points, and means of the `shape_scores` over the folds that
            have them.
        folds: `spectrum_scores` by `level_names`.
    """

    q2: float | None
    mean_r2: float | None
    undefined_r2: list[str]
    pooled_r2: float | None
    interior_pooled_r2: float | None
    rmse: float
    pooled: SpectrumScores
    folds: dict[str, SpectrumScores]


def series_scores(
    axis: Axis, levels: Levels, measured: Spectra, predicted: Spectra
) -> SeriesScores:
    """Score the left-out spectra of a series, each by itself and all together.

    A measured spectrum whose variance over wavelengths is zero, or below `FAINT` of the mean
    variance of the others, is faint: usually a blank. An error that lowers the R2 of a typical
    spectrum by 0.01 makes that of a faint one negative, and its peak may be noise. Its
    `MEANINGLESS_IF_FAINT` scores are therefore None.

    Args:
        axis: spectral axis, ascending.
        levels: concentration of every row.
        measured: the measured spectra.
        predicted: row i is the spectrum predicted with level i left out.

    Raises:
        SpectraError: the axis does not ascend, or a value is not finite.
    """
    names = level_names(levels)
    folds = {
        name: spectrum_scores(axis, *spectra)
        for name, *spectra in zip(names, measured, predicted, strict=True)
    }
    for name, faint in zip(names, _is_faint(measured), strict=True):
        if faint:
            folds[name] |= dict.fromkeys(MEANINGLESS_IF_FAINT)
    means = {key: _mean(folds, key) for key in folds[names[0]]}
    points = point_scores(measured.ravel(), predicted.ravel())
    interior = (levels > levels.min()) & (levels < levels.max())
    return {
        "q2": q2(measured, predicted),
        "mean_r2": means.pop("r2"),
        "undefined_r2": [name for name in names if folds[name]["r2"] is None],
        "pooled_r2": pooled_r2(measured, predicted),
        "interior_pooled_r2": pooled_r2(measured[interior], predicted[interior]),
        "rmse": float(np.sqrt(np.mean((predicted - measured) ** 2))),
        "pooled": means | points,
        "folds": folds,
    }


def band_scores(
    axis: Axis,
    levels: Levels,
    measured: Spectra,
    predicted: Spectra,
    bands: dict[str, tuple[float, float]],
) -> dict[str, SeriesScores]:
    """Score a series band by band.

    Args:
        axis: spectral axis.
        levels: concentration of every row.
        measured: the measured spectra.
        predicted: row i is the spectrum predicted with level i left out.
        bands: (low, high) by name, both included (unit of the axis).

    Returns:
        `series_scores` of the part of the axis inside each band. A band that covers fewer than
        `SMALLEST_BAND` wavelengths is left out.
    """
    scores = {}
    for name, (low, high) in bands.items():
        inside = (axis >= low) & (axis <= high)
        if inside.sum() >= SMALLEST_BAND:
            scores[name] = series_scores(
                axis[inside], levels, measured[:, inside], predicted[:, inside]
            )
    return scores


def q2(measured: Spectra, predicted: Spectra) -> float | None:
    """Skill against the mean of the other spectra: 1 - PRESS / SS.

    Source: S. Wold, Cross-validatory estimation of the number of components in factor and principal
    components models, Technometrics 20 (1978) 397 (PRESS over its value for no model).
    """
    count = len(measured)
    from_others = (measured - measured.mean(axis=0)) * count / (count - 1)
    total = float(np.sum(from_others**2))
    return 1 - float(np.sum((predicted - measured) ** 2)) / total if total > 0 else None


def skill(rmse: float, best_classical_rmse: float) -> float | None:
    """Skill against the best classical method: 1 - rmse / best_classical_rmse.

    1 is a perfect prediction, 0 one as good as the classical, below zero a worse one. None if the
    classical one is perfect.
    """
    return 1 - rmse / best_classical_rmse if best_classical_rmse > 0 else None


class Coverage(TypedDict):
    """Shares of the measured points inside their intervals, and the mean half width.

    Attributes:
        all, interior, ends: share of the points of all levels, of those between the lowest and the
            highest, and of these two.
        half_width: mean half width over all points (signal unit).
    """

    all: float
    interior: float
    ends: float
    half_width: float


def coverage(
    measured: Spectra,
    predicted: Spectra,
    half_width: Float[np.ndarray, "probability concentration wavelength"],
) -> dict[str, Coverage]:
    """Coverage of the intervals of `PROBABILITIES`, by their probability in per cent.

    Args:
        measured: the measured spectra, levels ascending, at least three.
        predicted: row i is the spectrum predicted with level i left out.
        half_width: half the width of the intervals about the predictions.
    """
    error = np.abs(predicted - measured)
    found: dict[str, Coverage] = {}
    for probability, widths in zip(PROBABILITIES, half_width, strict=True):
        held = (error <= widths).mean(axis=1)
        found[f"{100 * probability:g}"] = {
            "all": float(held.mean()),
            "interior": float(held[1:-1].mean()),
            "ends": float(held[[0, -1]].mean()),
            "half_width": float(widths.mean()),
        }
    return found


def _is_faint(measured: Spectra) -> Bool[np.ndarray, "concentration"]:
    """Whether a spectrum varies too little, compared with the others, for scores of its shape."""
    variance = variances(measured)
    others = (variance.sum() - variance) / max(len(variance) - 1, 1)
    return (variance == 0) | (variance < FAINT * others)


def _mean(folds: dict[str, SpectrumScores], key: str) -> float | None:
    """Mean of a score over the folds that have it, None if none has."""
    defined = [value for fold in folds.values() if (value := fold[key]) is not None]
    return float(np.mean(defined)) if defined else None
