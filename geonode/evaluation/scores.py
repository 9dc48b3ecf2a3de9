"""Scores of predicted spectra: of one spectrum, of a series of left-out ones, and of intervals.

Every score is a plain number, or None where it is undefined or meaningless, as JSON takes them.
Errors are distances: zero for equal spectra, and without a sign.
"""

from typing import TypedDict

import numpy as np
from jaxtyping import Bool, Float

from geonode.errors import SpectraError
from geonode.posterior.prior import PROBABILITIES
from geonode.spectra.series import level_names
from geonode.ties import EQUAL

FAINT = 0.01
"""Variance below which a spectrum is faint, relative to the mean variance of the others."""

MEANINGLESS_IF_FAINT = ("r2", "peak_position_error")
"""Scores relative to the variance of the measured spectrum, or of a peak that may be noise."""

CONSTANT_RANGE = 1e-12
"""Largest range of a constant spectrum, relative to its largest absolute value."""

Axis = Float[np.ndarray, "wavelength"]
Spectrum = Float[np.ndarray, "wavelength"]
PerLevel = Float[np.ndarray, "level"]
SpectraAtLevels = Float[np.ndarray, "level wavelength"]
SpectrumScores = dict[str, float | None]


class SeriesScores(TypedDict):
    """Scores of a series of left-out spectra."""

    q2: float | None  # by the function `q2`
    mean_r2: float | None  # mean over the folds that have an R2; None if none has
    undefined_r2: list[str]  # names of the other folds
    pooled_r2: float | None  # 1 - sum SSE / sum SST over all folds; None if no spectrum varies
    interior_pooled_r2: float | None
    """`pooled_r2` without the lowest and the highest level, which are extrapolated."""
    rmse: float  # over all points
    folds: dict[str, SpectrumScores]  # `spectrum_scores` by `level_names`


# one spectrum


def spectrum_scores(axis: Axis, measured: Spectrum, predicted: Spectrum) -> SpectrumScores:
    """Score one predicted spectrum.

    The axis ascends, evenly or not, over at least two wavelengths; spectra have one unit.

    Returns:
        `r2` = 1 - SSE / SST over wavelengths, None if the measured spectrum is constant; `rmse`,
        `mae` and `max_error` (largest absolute error) in the unit of the spectra; `pearson`, the
        correlation, None if one of the two is constant; `peak_position_error` between the two
        maxima (unit of the axis).

    Raises:
        SpectraError: the axis does not ascend, or a value is not finite.
    """
    if not (np.diff(axis) > 0).all():
        raise SpectraError("axis: found values that do not ascend, expected every value once")
    for name, spectrum in (("measured", measured), ("predicted", predicted)):
        if not np.isfinite(spectrum).all():
            raise SpectraError(f"{name}: found NaN or infinity, expected finite numbers only")
    error = np.abs(predicted - measured)
    varied = not (_is_constant(measured) or _is_constant(predicted))
    return {
        "r2": pooled_r2(measured[None], predicted[None]),
        "rmse": float(np.sqrt(np.mean(error**2))),
        "mae": float(np.mean(error)),
        "max_error": float(np.max(error)),
        "pearson": float(np.corrcoef(measured, predicted)[0, 1]) if varied else None,
        "peak_position_error": float(abs(axis[measured.argmax()] - axis[predicted.argmax()])),
    }


def _is_constant(values: Spectrum) -> bool:
    return bool(np.ptp(values) <= CONSTANT_RANGE * np.max(np.abs(values)))


# a series


def series_scores(
    axis: Axis, levels: PerLevel, measured: SpectraAtLevels, predicted: SpectraAtLevels
) -> SeriesScores:
    """Score the left-out spectra of a series, each by itself and all together.

    A measured spectrum whose variance over wavelengths is zero, or below `FAINT` of the mean
    variance of the others, is faint: usually a blank. An error that lowers the R2 of a typical
    spectrum by 0.01 makes that of a faint one negative, and its peak may be noise. Its
    `MEANINGLESS_IF_FAINT` scores are therefore None. The axis ascends; row i is the spectrum
    predicted with level i left out.

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
    defined = [fold["r2"] for fold in folds.values() if fold["r2"] is not None]
    interior = (levels > levels.min()) & (levels < levels.max())
    return {
        "q2": q2(measured, predicted),
        "mean_r2": float(np.mean(defined)) if defined else None,
        "undefined_r2": [name for name in names if folds[name]["r2"] is None],
        "pooled_r2": pooled_r2(measured, predicted),
        "interior_pooled_r2": pooled_r2(measured[interior], predicted[interior]),
        "rmse": float(np.sqrt(np.mean((predicted - measured) ** 2))),
        "folds": folds,
    }


def pooled_r2(measured: SpectraAtLevels, predicted: SpectraAtLevels) -> float | None:
    """1 - sum SSE / sum SST over folds, None if no measured spectrum varies.

    SST is taken over wavelengths about the mean of each measured spectrum.
    """
    sst = np.sum(_variances(measured)) * measured.shape[1]
    return float(1 - np.sum((predicted - measured) ** 2) / sst) if sst > 0 else None


def q2(measured: SpectraAtLevels, predicted: SpectraAtLevels) -> float | None:
    """Skill against the mean of the other spectra: 1 - PRESS / SS, and 0 of equal ones.

    Source: S. Wold, Cross-validatory estimation of the number of components in factor and principal
    components models, Technometrics 20 (1978) 397 (PRESS over its value for no model).
    """
    count = len(measured)
    from_others = (measured - measured.mean(axis=0)) * count / (count - 1)
    total = float(np.sum(from_others**2))
    if total == 0:
        return None
    skill = 1 - float(np.sum((predicted - measured) ** 2)) / total
    return skill if abs(skill) > EQUAL else 0.0


def interval_coverage(
    measured: SpectraAtLevels,
    predicted: SpectraAtLevels,
    half_width: Float[np.ndarray, "probability level wavelength"],
) -> dict[str, dict[str, float]]:
    """Coverage of the intervals of `PROBABILITIES`, by their probability in per cent.

    Levels ascend and are at least three; row i is predicted with level i left out.

    Returns:
        Shares of the measured points inside their intervals as of `shares`, and `half_width`, the
        mean half width over all points (signal unit).
    """
    error = np.abs(predicted - measured)
    return {
        f"{100 * probability:g}": shares((error <= widths).mean(axis=1))
        | {"half_width": float(widths.mean())}
        for probability, widths in zip(PROBABILITIES, half_width, strict=True)
    }


def shares(held: Float[np.ndarray, "level"] | Bool[np.ndarray, "level"]) -> dict[str, float]:
    """Mean over `all` levels, over the `interior` between the ends, and over the `ends`.

    Given is, of every level, ascending, the share that its intervals or sets hold.
    """
    parts = {"all": held, "interior": held[1:-1], "ends": held[[0, -1]]}
    return {name: float(part.mean()) for name, part in parts.items()}


def named_coverage(name: str, found: dict[str, float]) -> dict[str, float]:
    """The `shares` of 90% intervals or sets by their names among other scores, with a prefix."""
    keys = {"all": "coverage90", "interior": "coverage90_interior", "ends": "coverage90_ends"}
    return {name + key: found[part] for part, key in keys.items()}


def skill(rmse: float, best_classical_rmse: float) -> float | None:
    """Skill against the best classical method: 1 - rmse / best_classical_rmse.

    1 is a perfect prediction, 0 one as good as the classical, below zero a worse one. None if the
    classical one is perfect.
    """
    return 1 - rmse / best_classical_rmse if best_classical_rmse > 0 else None


def _variances(spectra: SpectraAtLevels) -> Float[np.ndarray, "level"]:
    """Variance over wavelengths of every spectrum, exactly zero for a constant one."""
    # Less its first value, a constant spectrum is exactly zero.
    return np.var(spectra - spectra[:, :1], axis=1)


def _is_faint(measured: SpectraAtLevels) -> Bool[np.ndarray, "level"]:
    """True where a spectrum varies too little beside the others for scores of its shape."""
    variance = _variances(measured)
    others = (variance.sum() - variance) / max(len(variance) - 1, 1)
    return (variance == 0) | (variance < FAINT * others)
