"""Coverage of the intervals of left-out spectra."""

from typing import TypedDict

import numpy as np
from jaxtyping import Float

from geonode.decoders.calibration import PROBABILITIES


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
    measured: Float[np.ndarray, "level wavelength"],
    predicted: Float[np.ndarray, "level wavelength"],
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
