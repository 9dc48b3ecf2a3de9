"""Spectra of different axes, brought to one.

The common axis is the coarsest one, as far as all reach: nothing is continued, and no resolution is
made up. Between its values there are monotone cubics (PCHIP).
"""

import numpy as np
from jaxtyping import Float

from geonode.errors import SpectraError
from geonode.spectra.sheet import require_values

Values = Float[np.ndarray, "value"]
Axis = Float[np.ndarray, "wavelength"]

WIDEST_GAP = 5.0
"""Median steps of an axis, beyond which nothing is interpolated."""

SAME = 1e-6
"""Median steps, within which two wavelengths are one."""

FEWEST = 3
"""Values of a common axis."""


def on_common_axis(
    axes: list[Float[np.ndarray, "_value"]],
    values: list[Float[np.ndarray, "_value"]],
    places: list[str],
) -> tuple[Axis, Float[np.ndarray, "spectrum wavelength"], tuple[str, ...]]:
    """The common axis, the spectra on it, and what was done, where something was.

    Args:
        axes: of every spectrum, ascending or descending.
        values: of every spectrum; none missing unless all axes are the same.
        places: where every spectrum is, for messages.

    Raises:
        SpectraError: an axis repeats a value or is out of order, the axes have fewer than three
            values in common, or one has a gap.
    """
    require_values(len(axes) * len(axes[0]))
    if all(_is_same(axis, axes[0]) for axis in axes):
        return axes[0], np.stack(values), ()
    rising = []
    for axis, of_axis, place in zip(axes, values, places, strict=True):
        _check(axis, of_axis, place)
        order = slice(None, None, 1 if axis[0] < axis[-1] else -1)
        rising.append((axis[order], of_axis[order]))
    steps = [float(np.median(np.diff(axis))) for axis, _ in rising]
    coarsest = int(np.argmax(steps))
    low, high = max(axis[0] for axis, _ in rising), min(axis[-1] for axis, _ in rising)
    near = SAME * steps[coarsest]
    axis = rising[coarsest][0]
    common = axis[(axis >= low - near) & (axis <= high + near)]
    if len(common) < FEWEST:
        raise SpectraError(
            f"found axes that have {len(common)} values in common, from {low:.10g} to {high:.10g}, "
            f"expected at least {FEWEST}; leave out the spectrum that ends or begins there"
        )
    require_values(len(axes) * len(common))
    found = [_interpolated(common, *one, place) for one, place in zip(rising, places, strict=True)]
    note = (
        f"the spectra have different axes: all are interpolated (monotone cubics) to the "
        f"{len(common)} values of {places[coarsest]} from {common[0]:.10g} to {common[-1]:.10g}"
    )
    return common, np.stack(found), (note,)


def _is_same(axis: Float[np.ndarray, "a"], other: Float[np.ndarray, "b"]) -> bool:
    if axis.shape != other.shape:
        return False
    near = SAME * float(np.median(np.abs(np.diff(other)))) if len(other) > 1 else 0.0
    return bool((np.abs(axis - other) <= near).all())


def _check(axis: Values, values: Values, place: str) -> None:
    steps = np.diff(axis)
    if len(axis) < FEWEST or not ((steps > 0).all() or (steps < 0).all()):
        raise SpectraError(
            f"{place}: found an axis of {len(axis)} values that does not ascend or descend "
            f"throughout, expected at least {FEWEST} that do, beside spectra of other axes"
        )
    if not np.isfinite(values).all():
        raise SpectraError(
            f"{place}: found an empty cell, expected a number at every wavelength, as the spectra "
            "have different axes; fill it in or remove its row"
        )


def _interpolated(common: Axis, axis: Values, values: Values, place: str) -> Axis:
    from scipy.interpolate import PchipInterpolator  # noqa: PLC0415 - hardly any file needs it

    steps = np.diff(axis)
    for gap in np.flatnonzero(steps > WIDEST_GAP * np.median(steps)):
        if ((axis[gap] < common) & (common < axis[gap + 1])).any():
            raise SpectraError(
                f"{place}: found nothing between {axis[gap]:.10g} and {axis[gap + 1]:.10g}, where "
                "other spectra have values; measure there, or leave those out"
            )
    return PchipInterpolator(axis, values)(np.clip(common, axis[0], axis[-1]))
