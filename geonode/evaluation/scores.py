"""Scores of predicted spectra: of one spectrum, of a series of left-out ones, and of intervals.

Every score is a plain number, or None where it is undefined or meaningless, as JSON takes them.
Errors are distances: zero for equal spectra, and without a sign.
"""

import math
from typing import TypedDict

import numpy as np
from jaxtyping import Bool, Float

from geonode.errors import SpectraError
from geonode.learning.half_widths import PROBABILITIES
from geonode.spectra.series import level_names

SMALLEST_SHARE = 0.01
"""Smallest value with a relative error, as a share of the range of the spectrum."""

SMALLEST_BAND = 3
"""Fewest wavelengths of a band with scores."""

FAINT = 0.01
"""Variance below which a spectrum is faint, relative to the mean variance of the others."""

MEANINGLESS_IF_FAINT = ("r2", "peak_position_error", "fwhm_error")
"""Scores relative to the variance of the measured spectrum, or of a peak that may be noise."""

ROUNDING = 1e-12
"""Largest range of a constant spectrum, relative to its largest absolute value."""

Axis = Float[np.ndarray, "wavelength"]
Spectrum = Float[np.ndarray, "wavelength"]
Points = Float[np.ndarray, "point"]
Levels = Float[np.ndarray, "level"]
Spectra = Float[np.ndarray, "level wavelength"]
SpectrumScores = dict[str, float | None]


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


# one spectrum


def spectrum_scores(axis: Axis, measured: Spectrum, predicted: Spectrum) -> SpectrumScores:
    """Score one predicted spectrum.

    Args:
        axis: spectral axis, ascending, at least two wavelengths, evenly spaced or not.
        measured: the measured spectrum.
        predicted: the predicted spectrum, in the unit of the measured one.

    Returns:
        `r2` = 1 - SSE / SST over wavelengths, None if the measured spectrum is constant; the
        `point_scores`; the `shape_scores`.

    Raises:
        SpectraError: the axis does not ascend, or a value is not finite.
    """
    if not (np.diff(axis) > 0).all():
        raise SpectraError("axis: found values that do not ascend, expected every value once")
    for name, spectrum in (("measured", measured), ("predicted", predicted)):
        if not np.isfinite(spectrum).all():
            raise SpectraError(f"{name}: found NaN or infinity, expected finite numbers only")
    return {
        "r2": pooled_r2(measured[None], predicted[None]),
        **point_scores(measured, predicted),
        **shape_scores(axis, measured, predicted),
    }


def point_scores(measured: Points, predicted: Points) -> SpectrumScores:
    """Scores that compare point by point, independent of the axis.

    Args:
        measured: values of one spectrum, or of several concatenated.
        predicted: predicted values in the same order.

    Returns:
        `rmse`, `mae` and `max_error` (largest absolute error) in the unit of the spectra; `mape`,
        the mean of |error / measured| (a fraction), None if measured values touch or cross zero, or
        one is smaller than `SMALLEST_SHARE` of their range; `pearson`, the correlation, None if
        measured or predicted values are constant; `spectral_angle` between the two as vectors (rad)
        and `cosine`, its cosine, which ignore a common factor, None if one of them is zero.
    """
    error = np.abs(predicted - measured)
    smallest = np.min(np.abs(measured))
    one_sign = measured.min() > 0 or measured.max() < 0
    relative = one_sign and smallest >= SMALLEST_SHARE * np.ptp(measured)
    varied = not (_is_constant(measured) or _is_constant(predicted))
    angle = _angle(measured, predicted)
    return {
        "rmse": float(np.sqrt(np.mean(error**2))),
        "mae": float(np.mean(error)),
        "mape": float(np.mean(error / np.abs(measured))) if relative else None,
        "max_error": float(np.max(error)),
        "pearson": float(np.corrcoef(measured, predicted)[0, 1]) if varied else None,
        "spectral_angle": angle,
        "cosine": None if angle is None else math.cos(angle),
    }


def shape_scores(axis: Axis, measured: Spectrum, predicted: Spectrum) -> SpectrumScores:
    """Scores of the shape of a spectrum over its axis.

    Args:
        axis: spectral axis, ascending, at least two wavelengths.
        measured: the measured spectrum.
        predicted: the predicted spectrum.

    Returns:
        `peak_position_error` between the two maxima (unit of the axis); `peak_height_error` between
        them (unit of the spectra); `fwhm_error` between the full widths of the highest peaks,
        halfway from the minimum of the spectrum to its maximum (unit of the axis), None if one of
        the spectra does not fall below that on both sides; `area_error` between the integrals, by
        the trapezoid rule (unit of the spectra times unit of the axis); `derivative_rmse` between
        the derivatives, by second-order differences (unit of the spectra per unit of the axis).
    """
    error = predicted - measured
    found, expected = _width(axis, predicted), _width(axis, measured)
    width_error = None if found is None or expected is None else abs(found - expected)
    return {
        "peak_position_error": float(abs(axis[measured.argmax()] - axis[predicted.argmax()])),
        "peak_height_error": float(abs(measured.max() - predicted.max())),
        "fwhm_error": width_error,
        "area_error": float(abs(np.trapezoid(error, axis))),
        "derivative_rmse": float(np.sqrt(np.mean(np.gradient(error, axis) ** 2))),
    }


def _is_constant(values: Points) -> bool:
    return bool(np.ptp(values) <= ROUNDING * np.max(np.abs(values)))


def _angle(a: Points, b: Points) -> float | None:
    """Angle between two vectors (rad), accurate for small angles too, where arccos is not.

    Source: W. Kahan, How Futile are Mindless Assessments of Roundoff, section 12 (2006).
    """
    if not (a.any() and b.any()):
        return None
    a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
    return float(2 * np.arctan2(np.linalg.norm(a - b), np.linalg.norm(a + b)))


def _width(axis: Axis, spectrum: Spectrum) -> float | None:
    """Full width at half height above the minimum, by straight lines between wavelengths."""
    half = (spectrum.max() + spectrum.min()) / 2
    top = int(spectrum.argmax())
    below = spectrum < half
    if not (below[:top].any() and below[top:].any()):
        return None
    left = int(np.flatnonzero(below[:top])[-1])
    right = top + int(np.flatnonzero(below[top:])[0])
    rise, fall = slice(left, left + 2), slice(right, right - 2, -1)
    start = np.interp(half, spectrum[rise], axis[rise])
    stop = np.interp(half, spectrum[fall], axis[fall])
    return float(stop - start)


# a series


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
    means: SpectrumScores = {}
    for key in folds[names[0]]:
        defined = [value for fold in folds.values() if (value := fold[key]) is not None]
        means[key] = float(np.mean(defined)) if defined else None
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


def pooled_r2(measured: Spectra, predicted: Spectra) -> float | None:
    """1 - sum SSE / sum SST over folds, None if no measured spectrum varies.

    SST is taken over wavelengths about the mean of each measured spectrum.
    """
    sst = np.sum(_variances(measured)) * measured.shape[1]
    return float(1 - np.sum((predicted - measured) ** 2) / sst) if sst > 0 else None


def q2(measured: Spectra, predicted: Spectra) -> float | None:
    """Skill against the mean of the other spectra: 1 - PRESS / SS.

    Source: S. Wold, Cross-validatory estimation of the number of components in factor and principal
    components models, Technometrics 20 (1978) 397 (PRESS over its value for no model).
    """
    count = len(measured)
    from_others = (measured - measured.mean(axis=0)) * count / (count - 1)
    total = float(np.sum(from_others**2))
    return 1 - float(np.sum((predicted - measured) ** 2)) / total if total > 0 else None


def coverage(
    measured: Spectra,
    predicted: Spectra,
    half_width: Float[np.ndarray, "probability level wavelength"],
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


def _variances(spectra: Spectra) -> Float[np.ndarray, "level"]:
    """Variance over wavelengths of every spectrum, exactly zero for a constant one."""
    # Less its first value, a constant spectrum is exactly zero.
    return np.var(spectra - spectra[:, :1], axis=1)


def _is_faint(measured: Spectra) -> Bool[np.ndarray, "level"]:
    """Whether a spectrum varies too little, compared with the others, for scores of its shape."""
    variance = _variances(measured)
    others = (variance.sum() - variance) / max(len(variance) - 1, 1)
    return (variance == 0) | (variance < FAINT * others)
