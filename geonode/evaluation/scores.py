"""Scores of predicted spectra against measured ones: of a spectrum, of a series, of a band.

Every score is a plain number, or None where it is undefined, so that scores go into JSON as they
are. R2 = 1 - SSE / SST, with SST taken over wavelengths about the mean of each measured spectrum.
"""

from collections import Counter
from typing import TypedDict

import numpy as np
from jaxtyping import Float

SMALLEST_BAND = 3
"""Wavelengths that a band must cover to be scored."""

SpectrumScores = dict[str, float | None]


class SeriesScores(TypedDict):
    """Scores of a series of left-out spectra."""

    mean_r2: float | None
    pooled_r2: float | None
    interior_pooled_r2: float | None
    rmse: float
    folds: dict[str, SpectrumScores]


def spectrum_scores(
    axis: Float[np.ndarray, "wavelength"],
    measured: Float[np.ndarray, "wavelength"],
    predicted: Float[np.ndarray, "wavelength"],
) -> SpectrumScores:
    """Score one predicted spectrum.

    Args:
        axis: spectral axis.
        measured: the measured spectrum.
        predicted: the predicted spectrum, in the unit of the measured one.

    Returns:
        `r2` over wavelengths, None if the measured spectrum is constant; `rmse`, `mae` and
        `max_error` (largest absolute error) in the unit of the spectra; `spectral_angle` between
        the two as vectors (rad), which ignores a common factor, None if one of them is zero;
        `peak_position_error`, the distance between the two maxima (unit of the axis).
    """
    error = predicted - measured
    return {
        "r2": _pooled_r2(measured[None], predicted[None]),
        "rmse": float(np.sqrt(np.mean(error**2))),
        "mae": float(np.mean(np.abs(error))),
        "max_error": float(np.max(np.abs(error))),
        "spectral_angle": _angle(measured, predicted),
        "peak_position_error": float(abs(axis[measured.argmax()] - axis[predicted.argmax()])),
    }


def series_scores(
    axis: Float[np.ndarray, "wavelength"],
    levels: Float[np.ndarray, "concentration"],
    measured: Float[np.ndarray, "concentration wavelength"],
    predicted: Float[np.ndarray, "concentration wavelength"],
) -> SeriesScores:
    """Score the left-out spectra of a series, each by itself and all together.

    Args:
        axis: spectral axis.
        levels: concentration of every row.
        measured: the measured spectra.
        predicted: row i is the spectrum predicted with level i left out.

    Returns:
        `mean_r2`, the mean over the folds that have an R2; `pooled_r2` = 1 - sum SSE / sum SST over
        folds; `interior_pooled_r2`, the same without the lowest and the highest level, which are
        extrapolated; `rmse` over all points; `folds`, the `spectrum_scores` by `level_names`. An R2
        is None where no spectrum varies.
    """
    interior = (levels > levels.min()) & (levels < levels.max())
    folds = {
        name: spectrum_scores(axis, *spectra)
        for name, *spectra in zip(level_names(levels), measured, predicted, strict=True)
    }
    defined = [fold["r2"] for fold in folds.values() if fold["r2"] is not None]
    return {
        "mean_r2": float(np.mean(defined)) if defined else None,
        "pooled_r2": _pooled_r2(measured, predicted),
        "interior_pooled_r2": _pooled_r2(measured[interior], predicted[interior]),
        "rmse": float(np.sqrt(np.mean((predicted - measured) ** 2))),
        "folds": folds,
    }


def band_scores(
    axis: Float[np.ndarray, "wavelength"],
    levels: Float[np.ndarray, "concentration"],
    measured: Float[np.ndarray, "concentration wavelength"],
    predicted: Float[np.ndarray, "concentration wavelength"],
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


def level_names(levels: Float[np.ndarray, "concentration"]) -> list[str]:
    """Name levels for keys and labels: six digits, or all of them where six do not tell apart."""
    short = [f"{level:g}" for level in levels]
    count = Counter(short)
    return [
        name if count[name] == 1 else repr(float(level))
        for name, level in zip(short, levels, strict=True)
    ]


def _pooled_r2(
    measured: Float[np.ndarray, "fold wavelength"], predicted: Float[np.ndarray, "fold wavelength"]
) -> float | None:
    """1 - sum SSE / sum SST over folds, None if no measured spectrum varies."""
    # Counted from its first value, a constant spectrum has a variance of exactly zero.
    shifted = measured - measured[:, :1]
    sst = np.sum((shifted - shifted.mean(axis=1, keepdims=True)) ** 2)
    return float(1 - np.sum((predicted - measured) ** 2) / sst) if sst > 0 else None


def _angle(a: Float[np.ndarray, "wavelength"], b: Float[np.ndarray, "wavelength"]) -> float | None:
    """Angle between two vectors (rad), accurate for small angles too, where arccos is not.

    Source: W. Kahan, How Futile are Mindless Assessments of Roundoff, section 12 (2006).
    """
    if not (a.any() and b.any()):
        return None
    a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
    return float(2 * np.arctan2(np.linalg.norm(a - b), np.linalg.norm(a + b)))
