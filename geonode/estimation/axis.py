"""Interpolation of spectra onto the axis of a model.

Nothing is converted and nothing is extrapolated: units must agree, the axis must cover that of the
model, and no wavelength of the model may lie in a gap of it.
"""

import numpy as np
from jaxtyping import Float
from scipy.interpolate import PchipInterpolator

from geonode.errors import SpectraError
from geonode.spectra.headers import axis_kind, unknown_unit
from geonode.spectra.reading import Spectra
from geonode.spectra.series import Series

WIDEST_GAP = 5.0
"""Widest step of an axis to interpolate over, in median steps."""

SAME = 1e-6
"""Largest difference of equal wavelengths, in median steps of the axis of the model."""


def require_axis(series: Series, spectra: Spectra) -> None:
    """Refuse spectra without values at some wavelengths of a series.

    Raises:
        SpectraError: units differ, a part of the range is missing, or wavelengths are in a gap.
    """
    expected, found = series.labels["axis_unit"], spectra.axis_unit
    if found == "1":
        found = unknown_unit(spectra.axis_name) or "1"
    kinds = [axis_kind(name) for name in (series.labels["axis"], spectra.axis_name)]
    other = None not in kinds and kinds[0] != kinds[1]
    if ("1" not in (expected, found) and expected != found) or other:
        raise SpectraError(
            f"axis: found a {spectra.axis_name} in {found}, expected {expected} as in the model; "
            "convert it first"
        )
    unit = "" if expected == "1" else f" {expected}"
    low, high, axis = series.axis[0], series.axis[-1], spectra.axis
    if is_same(series, axis):
        return
    near = _near(series)
    missing = []
    if axis[0] > low + near:
        missing.append((low, min(axis[0], high)))
    if axis[-1] < high - near:
        missing.append((max(axis[-1], low), high))
    if missing:
        parts = " and ".join(f"{start:.10g} to {stop:.10g}" for start, stop in missing)
        raise SpectraError(
            f"axis: found {axis[0]:.10g} to {axis[-1]:.10g}{unit}, expected all of {low:.10g} to "
            f"{high:.10g}{unit} as in the model; {parts}{unit} is missing"
        )
    steps = np.diff(axis)
    widest = WIDEST_GAP * np.median(steps)
    # A wavelength that is on the axis itself lies in no gap.
    after = np.searchsorted(axis, series.axis + near).clip(1, len(axis) - 1)
    distance = np.minimum(np.abs(series.axis - axis[after - 1]), np.abs(axis[after] - series.axis))
    inside = (steps[after - 1] > widest) & (distance > near)
    if inside.any():
        gap = after[np.argmax(inside)]
        raise SpectraError(
            f"axis: found nothing between {axis[gap - 1]:.10g} and {axis[gap]:.10g}{unit}, "
            f"expected steps of at most {widest:.6g}{unit}, {WIDEST_GAP:g} times the median; "
            "measure there, or learn a model without"
        )


def on_axis(
    series: Series,
    axis: Float[np.ndarray, "found"],
    values: Float[np.ndarray, "spectrum found"],
) -> Float[np.ndarray, "spectrum wavelength"]:
    """Spectra on the axis of a series, interpolated by monotone cubics (PCHIP) if axes differ.

    Args:
        series: series whose axis to use.
        axis: axis that passed `require_axis`.
        values: spectra on that axis.
    """
    if is_same(series, axis):
        return values
    return PchipInterpolator(axis, values, axis=1)(np.clip(series.axis, axis[0], axis[-1]))


def prepared(
    series: Series,
    axis: Float[np.ndarray, "found"],
    values: Float[np.ndarray, "spectrum found"],
) -> Float[np.ndarray, "spectrum wavelength"]:
    """Measured spectra on the axis of a series, preprocessed as its own were.

    Args:
        series: whose axis and preprocessing to take.
        axis: that passed `require_axis`.
        values: spectra there; NaN where one is too flat for a step.
    """
    return series.preprocessing.transform(series.axis, on_axis(series, axis, values))


def is_same(series: Series, axis: Float[np.ndarray, "found"]) -> bool:
    """Whether an axis is that of a series up to rounding."""
    own = series.axis
    return len(axis) == len(own) and bool(np.abs(axis - own).max() <= _near(series))


def _near(series: Series) -> float:
    return SAME * float(np.median(np.diff(series.axis)))
