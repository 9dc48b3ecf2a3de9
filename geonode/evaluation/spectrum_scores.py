"""Scores of one predicted spectrum against the measured one.

Every score is a plain number, or None where it is undefined or meaningless, as JSON takes them.
Errors are distances: they are zero for equal spectra and have no sign.
"""

import math

import numpy as np
from jaxtyping import Float
from scipy.special import rel_entr  # scipy.stats takes 0.3 s to import
from skimage.metrics import structural_similarity

from geonode.errors import SpectraError

SSIM_WINDOW = 7
"""Window of the structural similarity (wavelengths), the default of scikit-image."""

SMALLEST_SHARE = 0.01
"""Smallest value with a relative error, as a share of the range of the spectrum."""

NEGATIVE_SHARE = 0.05
"""Largest area below zero that counts as noise about zero, relative to the area above zero.

Measured fluorescence with clear bands has up to 0.03, without a band 0.09.
"""

ROUNDING = 1e-12
"""Largest range of a constant spectrum, relative to its largest absolute value."""

Axis = Float[np.ndarray, "wavelength"]
Spectrum = Float[np.ndarray, "wavelength"]
Spectra = Float[np.ndarray, "fold wavelength"]
Points = Float[np.ndarray, "point"]
SpectrumScores = dict[str, float | None]


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


def pooled_r2(measured: Spectra, predicted: Spectra) -> float | None:
    """1 - sum SSE / sum SST over folds, None if no measured spectrum varies.

    SST is taken over wavelengths about the mean of each measured spectrum.
    """
    sst = np.sum(variances(measured)) * measured.shape[1]
    return float(1 - np.sum((predicted - measured) ** 2) / sst) if sst > 0 else None


def variances(spectra: Spectra) -> Float[np.ndarray, "fold"]:
    """Variance over wavelengths of every spectrum, exactly zero for a constant one."""
    # Less its first value, a constant spectrum is exactly zero.
    return np.var(spectra - spectra[:, :1], axis=1)


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

    `wasserstein` and `jensen_shannon` take the spectra as distributions over the axis. Each is
    divided by its area, values below zero count as zero. They are None if one of the spectra has
    no positive area, or more than `NEGATIVE_SHARE` of that below zero.

    Args:
        axis: spectral axis, ascending, at least two wavelengths.
        measured: the measured spectrum.
        predicted: the predicted spectrum.

    Returns:
        `ssim`, the mean structural similarity over windows of `SSIM_WINDOW` neighbouring
        wavelengths, whatever their distance, in the range of the measured spectrum, None if there
        are fewer wavelengths or the measured spectrum is constant; `wasserstein`, the earth mover's
        distance (unit of the axis); `jensen_shannon`, the distance to base 2, from 0 to 1;
        `peak_position_error` between the two maxima (unit of the axis); `peak_height_error` between
        them (unit of the spectra); `fwhm_error` between the full widths of the highest peaks,
        halfway from the minimum of the spectrum to its maximum (unit of the axis), None if one of
        the spectra does not fall below that on both sides; `area_error` between the integrals, by
        the trapezoid rule (unit of the spectra times unit of the axis); `derivative_rmse` between
        the derivatives, by second-order differences (unit of the spectra per unit of the axis).

    Source: Z. Wang et al., IEEE Trans. Image Process. 13, 600 (2004) for the similarity; D. M.
    Endres and J. E. Schindelin, IEEE Trans. Inf. Theory 49, 1858 (2003) for the distance.
    """
    error = predicted - measured
    return {
        "ssim": _similarity(measured, predicted),
        **_distribution_scores(axis, measured, predicted),
        "peak_position_error": float(abs(axis[measured.argmax()] - axis[predicted.argmax()])),
        "peak_height_error": float(abs(measured.max() - predicted.max())),
        "fwhm_error": _width_error(axis, measured, predicted),
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


def _similarity(measured: Spectrum, predicted: Spectrum) -> float | None:
    if len(measured) < SSIM_WINDOW or _is_constant(measured):
        return None
    extent = float(np.ptp(measured))
    return float(
        structural_similarity(measured, predicted, win_size=SSIM_WINDOW, data_range=extent)
    )


def _distribution_scores(axis: Axis, measured: Spectrum, predicted: Spectrum) -> SpectrumScores:
    """Scores `wasserstein` and `jensen_shannon`."""
    p, q = _distribution(axis, measured), _distribution(axis, predicted)
    if p is None or q is None:
        return {"wasserstein": None, "jensen_shannon": None}
    # Not scipy.spatial.distance.jensenshannon: for distributions that are equal up to rounding it
    # takes the root of a divergence that is rounded to below zero.
    middle = (p + q) / 2
    divergence = np.sum(rel_entr(p, middle) + rel_entr(q, middle)) / 2
    return {
        # The integral of |P - Q|, of distribution functions that are constant between wavelengths.
        "wasserstein": float(np.sum(np.abs(np.cumsum(p - q)[:-1]) * np.diff(axis))),
        "jensen_shannon": math.sqrt(min(max(divergence / math.log(2), 0.0), 1.0)),
    }


def _distribution(axis: Axis, spectrum: Spectrum) -> Spectrum | None:
    """Share of the area that lies at every wavelength, by the weights of the trapezoid rule."""
    weights = np.zeros_like(axis)
    weights[:-1] += np.diff(axis) / 2
    weights[1:] += np.diff(axis) / 2
    positive = np.sum(weights * spectrum.clip(min=0))
    negative = np.sum(weights * -spectrum.clip(max=0))
    if positive == 0 or negative > NEGATIVE_SHARE * positive:
        return None
    return weights * spectrum.clip(min=0) / positive


def _width_error(axis: Axis, measured: Spectrum, predicted: Spectrum) -> float | None:
    found, expected = _width(axis, predicted), _width(axis, measured)
    return None if found is None or expected is None else abs(found - expected)


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
