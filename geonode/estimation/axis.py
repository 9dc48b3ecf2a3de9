"""Spectral axis of measured spectra: checks, and interpolation onto that of a model.

Nothing is converted and nothing is extrapolated: units must agree, the axis must cover that of the
model, and no wavelength of the model may lie in a gap of it.

A single spectrum does not show that its axis is too coarse or off, as it is smooth in any case; the
series does. Its own spectra must still be estimated as their levels when sampled on the axis of the
unknown ones, and no shift of the axis may explain a spectrum much better than a concentration does.
"""

from dataclasses import replace

import numpy as np
from jaxtyping import Float
from scipy.interpolate import PchipInterpolator
from scipy.optimize import minimize_scalar

from geonode.errors import SpectraError
from geonode.estimation.curve import Curve
from geonode.estimation.estimates import CalibrationModel, Unknowns
from geonode.estimation.image import Image
from geonode.reading.headers import axis_kind, unknown_unit
from geonode.spectra.common_axis import WIDEST_GAP, gap_around, interpolated, is_same, tolerance
from geonode.spectra.noise import noise_along_the_axis
from geonode.spectra.series import Series
from geonode.spectra.table import Spectra
from geonode.ties import first_smallest

SAMPLING_NOISES = 1.5**0.5
"""Deviation that sampling may cause, in standard deviations of the noise: that of a value, and of
the mean of the two values that it is interpolated from."""

LARGEST_SHIFT = 0.05
"""Largest shift to try, as a share of the range of the axis."""

SHIFTS = 20
"""Number of shifts to try in either direction."""

BETTER = 4.0
"""Smallest ratio of squared distances to the curve, without and with the shift, to report one."""

EVERY = 8
"""Shifted spectra are compared with every eighth node of the curve."""


def require_axis(series: Series, spectra: Spectra | Image) -> None:
    """Refuse spectra without values at some wavelengths of a series.

    Raises:
        SpectraError: units differ, a part of the range is missing, or wavelengths are in a gap.
    """
    expected, given = series.labels["axis_unit"], spectra.axis_unit
    if given == "1":
        given = unknown_unit(spectra.axis_name) or "1"
    own, other = (axis_kind(name) for name in (series.labels["axis"], spectra.axis_name))
    differs = own is not None and other is not None and own != other
    if differs or ("1" not in (expected, given) and expected != given):
        raise SpectraError(
            f"axis: found a {spectra.axis_name} in {given}, expected {expected} as in the model; "
            "convert it first"
        )
    axis, unit = spectra.axis, "" if expected == "1" else f" {expected}"
    if is_same(axis, series.axis):
        return
    low, high, near = series.axis[0], series.axis[-1], tolerance(series.axis)
    missing = [
        f"{start:.10g} to {stop:.10g}"
        for start, stop in ((low, min(axis[0], high)), (max(axis[-1], low), high))
        if stop - start > near
    ]
    if missing:
        raise SpectraError(
            f"axis: found {axis[0]:.10g} to {axis[-1]:.10g}{unit}, expected all of {low:.10g} to "
            f"{high:.10g}{unit} as in the model; {' and '.join(missing)}{unit} is missing"
        )
    if gap := gap_around(axis, series.axis):
        widest = WIDEST_GAP * np.median(np.diff(axis))
        raise SpectraError(
            f"axis: found nothing between {gap[0]:.10g} and {gap[1]:.10g}{unit}, expected steps of "
            f"at most {widest:.6g}{unit}, {WIDEST_GAP:g} times the median; measure there, or learn "
            "a model without"
        )


def own_values(series: Series, spectra: Spectra) -> Float[np.ndarray, "spectrum wavelength"]:
    """Spectra that passed `require_axis`, on the axis of a series, preprocessed as its own were.

    Raises:
        SpectraError: naming a spectrum that is too flat for a step.
    """
    values = interpolated(spectra.axis, spectra.values, series.axis)
    return series.preprocessing.transform(series.axis, values, spectra.names)


def require_resolution(model: CalibrationModel, axis: Float[np.ndarray, "measured"]) -> None:
    """Refuse an axis too coarse to distinguish the levels or the samples of a calibration.

    Args:
        model: the calibration.
        axis: axis that passed `require_axis`.

    Raises:
        SpectraError: a spectrum of the series, sampled on the axis, is estimated as another one.
    """
    series = model.series
    if is_same(axis, series.axis):
        return
    sampled = interpolated(series.axis, series.signal, axis)
    back = interpolated(axis, sampled, series.axis)
    noise = noise_along_the_axis(series.axis, series.signal)
    lost = np.flatnonzero(
        ((back - series.signal) ** 2).mean(axis=1) > (SAMPLING_NOISES * noise) ** 2
    )
    if not len(lost):
        return
    names = [str(at) for at in lost]
    each = (model.estimates(rows[lost], names) for rows in (series.signal, back))
    for known, own, sampled_one in zip(series.amounts[lost], *each, strict=True):
        before, after = own.by_geonode or own, sampled_one.by_geonode or sampled_one
        knew = before.contains(known)
        for place, name in enumerate(series.substances):
            overlap = after.fits and any(
                low <= top and bottom <= high
                for low, high in before.sets[place]
                for bottom, top in after.sets[place]
            )
            if before.fits and knew[place] and not overlap:
                raise SpectraError(
                    f"axis: found steps of {np.median(np.diff(axis)):.6g}, at which the spectrum "
                    f"of {known[place]:g}{name and f' of {name}'} of the series itself is "
                    f"estimated as {after.amounts[place]:.4g}, expected finer ones; the model has "
                    f"{np.median(np.diff(series.axis)):.6g}"
                )


def shifts(curve: Curve, series: Series, spectra: Unknowns) -> Float[np.ndarray, "unknown"]:
    """Apparent shift of the axis of every spectrum (axis unit); 0 for none.

    A shift of less than half a step of the axis is none.

    Args:
        curve: curve of predicted spectra.
        series: series whose axis the curve and the spectra have.
        spectra: measured spectra.
    """
    axis = series.axis
    largest = LARGEST_SHIFT * (axis[-1] - axis[0])
    inside = (axis >= axis[0] + largest) & (axis <= axis[-1] - largest)
    tried = np.linspace(-largest, largest, 2 * SHIFTS + 1)
    nodes = curve.spectra(slice(None, None, EVERY))[:, inside]
    at = PchipInterpolator(axis, spectra, axis=1)
    away = np.stack([_distances(at(axis[inside] + shift), nodes, curve.offset) for shift in tried])
    order = np.argsort(np.abs(tried), kind="stable")  # of equal ones the smallest shift
    shift = tried[order[first_smallest(away[order].T)]]
    gained = away[SHIFTS] / np.maximum(away.min(axis=0), np.finfo(float).tiny)
    is_shift = (gained > BETTER) & (np.abs(shift) >= np.median(np.diff(axis)) / 2)
    return np.where(is_shift, shift, 0.0)


def aligned(
    curve: Curve | None, series: Series, spectra: Spectra, values: Float[np.ndarray, "n wavelength"]
) -> tuple[Spectra, float]:
    """Spectra of one file less the constant by which their axis is off, and that (axis unit).

    It is the one of least squares over all spectra of the file, if most of them are shifted to the
    same side; else there is none.

    Args:
        curve: curve of predicted spectra.
        series: series whose axis the curve has.
        spectra: measured spectra.
        values: the same as of `own_values`.

    Raises:
        SpectraError: there is no curve, or without the shift the axis does not cover that of the
            series.
    """
    if curve is None:
        raise SpectraError("found a calibration without a curve, by which alone axes are aligned")
    each = shifts(curve, series, values)
    side = np.sign(np.median(each))
    if not side:
        return spectra, 0.0
    axis, step = series.axis, LARGEST_SHIFT * np.ptp(series.axis) / SHIFTS
    middle = float(np.median(each[np.sign(each) == side]))
    inside = (axis >= axis[0] + abs(middle) + step) & (axis <= axis[-1] - abs(middle) - step)
    nodes = curve.spectra(slice(None))[:, inside]
    at = PchipInterpolator(axis, values, axis=1)
    found = minimize_scalar(
        lambda shift: _distances(at(axis[inside] + shift), nodes, curve.offset).sum(),
        bounds=(middle - step, middle + step),
        method="bounded",
    )
    moved = replace(spectra, axis=spectra.axis - found.x)
    try:
        require_axis(series, moved)
    except SpectraError as error:
        raise SpectraError(f"less a shift of the axis by {found.x:.4g}: {error}") from error
    return moved, float(found.x)


def _distances(rows: np.ndarray, nodes: np.ndarray, offset: bool) -> np.ndarray:
    """Squared distance of every row to the nearest node."""
    if offset:
        rows, nodes = (part - part.mean(axis=1, keepdims=True) for part in (rows, nodes))
    squares = (rows**2).sum(axis=1)[:, None] + (nodes**2).sum(axis=1) - 2 * rows @ nodes.T
    return squares.min(axis=1).clip(min=0)
