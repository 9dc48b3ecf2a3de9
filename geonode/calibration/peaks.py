"""Peaks of the spectrum of the highest level."""

from dataclasses import dataclass

import numpy as np
from scipy.signal import find_peaks, peak_widths

from geonode.calibration.line import Line
from geonode.spectra.inspection import noise_along_the_axis
from geonode.spectra.series import Series

SMALLEST = 0.03
"""Prominence of a peak, of the range of its spectrum."""

NOISES = 5.0
"""Standard deviations of the noise that a peak must stand out by."""

MOST = 12
"""Peaks of a table; the most prominent."""


@dataclass(frozen=True)
class Peak:
    """One maximum.

    Attributes:
        place: of its wavelength.
        prominence: height above the higher of the two minima beside it (signal unit).
        width: at half of that height (axis unit).
        line: over the concentrations at its wavelength.
    """

    place: int
    prominence: float
    width: float
    line: Line


def peaks(series: Series) -> list[Peak]:
    """Peaks of the highest level by wavelength; none where all maxima are noise."""
    spectrum, axis = series.signal[-1], series.axis
    noise = noise_along_the_axis(axis, series.signal)
    least = max(SMALLEST * float(np.ptp(spectrum)), NOISES * noise)
    if least == 0:
        return []
    places, found = find_peaks(spectrum, prominence=least)
    chosen = np.sort(places[np.argsort(-found["prominences"], kind="stable")[:MOST]])
    _, _, left, right = peak_widths(spectrum, chosen)
    at = np.arange(len(axis))
    widths = np.interp(right, at, axis) - np.interp(left, at, axis)
    prominences = dict(zip(places.tolist(), found["prominences"].tolist(), strict=True))
    return [
        Peak(
            place,
            prominences[place],
            width,
            Line.of(series.concentrations, series.signal[:, place]),
        )
        for place, width in zip(chosen.tolist(), widths.tolist(), strict=True)
    ]
