"""Spectra measured on different axes, brought to one by monotone cubics (PCHIP).

Nothing is extrapolated, no gap is bridged, and no resolution is made up: the common axis is the
coarsest one, over the range that all axes share.
"""

import numpy as np
from jaxtyping import Float

from geonode.errors import SpectraError
from geonode.spectra.arrays import require_values
from geonode.spectra.table import FEWEST_WAVELENGTHS
from geonode.ties import first_largest

WIDEST_GAP = 5.0
"""Widest step of an axis to interpolate over, in median steps."""

SAME = 1e-6
"""Largest difference of wavelengths that count as equal, in median steps."""


def tolerance(axis: Float[np.ndarray, "wavelength"]) -> float:
    """Largest difference of wavelengths that count as equal on an axis (axis unit)."""
    return SAME * float(np.median(np.abs(np.diff(axis)))) if len(axis) > 1 else 0.0


def is_same(axis: Float[np.ndarray, "measured"], other: Float[np.ndarray, "wavelength"]) -> bool:
    """True if two axes are equal up to rounding."""
    return axis.shape == other.shape and bool((np.abs(axis - other) <= tolerance(other)).all())


def gap_around(
    axis: Float[np.ndarray, "measured"], wanted: Float[np.ndarray, "wavelength"]
) -> tuple[float, float] | None:
    """Ends of the first gap of an axis that a wanted wavelength lies in; None if none does.

    Args:
        axis: ascending.
        wanted: ascending; wavelengths on the axis itself, up to rounding, lie in no gap.
    """
    steps, near = np.diff(axis), tolerance(wanted)
    after = np.searchsorted(axis, wanted + near).clip(1, len(axis) - 1)
    distance = np.minimum(np.abs(wanted - axis[after - 1]), np.abs(axis[after] - wanted))
    inside = (steps[after - 1] > WIDEST_GAP * np.median(steps)) & (distance > near)
    if not inside.any():
        return None
    gap = after[np.argmax(inside)]
    return float(axis[gap - 1]), float(axis[gap])


def interpolated(
    axis: Float[np.ndarray, "measured"],
    values: Float[np.ndarray, "*spectrum measured"],
    wanted: Float[np.ndarray, "wavelength"],
) -> Float[np.ndarray, "*spectrum wavelength"]:
    """Spectra at the wanted wavelengths, as they are if those are their own.

    Args:
        axis: ascending.
        values: spectra on that axis.
        wanted: wavelengths within the axis, up to rounding.
    """
    if is_same(axis, wanted):
        return values
    from scipy.interpolate import PchipInterpolator  # noqa: PLC0415 - few files need it

    return PchipInterpolator(axis, values, axis=-1)(np.clip(wanted, axis[0], axis[-1]))


def on_common_axis(
    axes: list[Float[np.ndarray, "_value"]],
    values: list[Float[np.ndarray, "_value"]],
    places: list[str],
) -> tuple[
    Float[np.ndarray, "wavelength"], Float[np.ndarray, "spectrum wavelength"], tuple[str, ...]
]:
    """The common axis, the spectra on it, and a note if they were interpolated.

    Args:
        axes: axis of each spectrum, ascending or descending.
        values: each spectrum; complete, unless all axes are the same.
        places: where each spectrum stands, for messages.

    Raises:
        SpectraError: an axis repeats a value or changes direction, the axes share fewer than three
            values, or one has a gap.
    """
    require_values(len(axes) * len(axes[0]))
    if all(is_same(axis, axes[0]) for axis in axes):
        return axes[0], np.stack(values), ()
    rising = []
    for axis, spectrum, place in zip(axes, values, places, strict=True):
        steps = np.diff(axis)
        if len(axis) < FEWEST_WAVELENGTHS or not ((steps > 0).all() or (steps < 0).all()):
            raise SpectraError(
                f"{place}: found an axis of {len(axis)} values that does not ascend or descend "
                f"throughout, expected at least {FEWEST_WAVELENGTHS} that do, beside spectra of "
                "other axes"
            )
        if not np.isfinite(spectrum).all():
            raise SpectraError(
                f"{place}: found an empty cell, expected a number at every wavelength, as the "
                "spectra have different axes; fill it in or remove its row"
            )
        order = slice(None, None, 1 if axis[0] < axis[-1] else -1)
        rising.append((axis[order], spectrum[order]))
    coarsest = int(first_largest(np.array([np.median(np.diff(axis)) for axis, _ in rising])))
    low, high = max(axis[0] for axis, _ in rising), min(axis[-1] for axis, _ in rising)
    axis = rising[coarsest][0]
    near = tolerance(axis)
    common = axis[(axis >= low - near) & (axis <= high + near)]
    if len(common) < FEWEST_WAVELENGTHS:
        raise SpectraError(
            f"found axes that have {len(common)} values in common, from {low:.10g} to {high:.10g}, "
            f"expected at least {FEWEST_WAVELENGTHS}; leave out the spectrum that ends or begins "
            "there"
        )
    require_values(len(axes) * len(common))
    for (axis, _), place in zip(rising, places, strict=True):
        if gap := gap_around(axis, common):
            raise SpectraError(
                f"{place}: found nothing between {gap[0]:.10g} and {gap[1]:.10g}, where other "
                "spectra have values; measure there, or leave those out"
            )
    note = (
        f"the spectra have different axes: all are interpolated (monotone cubics) to the "
        f"{len(common)} values of {places[coarsest]} from {common[0]:.10g} to {common[-1]:.10g}"
    )
    return common, np.stack([interpolated(*one, common) for one in rising]), (note,)
