"""Peaks of a spectrum."""

import numpy as np
from jaxtyping import Float, Int
from scipy.signal import find_peaks

from geonode.spectra.noise import noise_along_the_axis
from geonode.spectra.series import Series

SMALLEST_PEAK = 0.03
"""Prominence of a peak, of the range of its spectrum."""

NOISES_OF_A_PEAK = 5.0
"""Standard deviations of the noise that a peak must stand out by."""

MOST_PEAKS = 12
"""Largest number of peaks; the most prominent are taken."""


def peaks(
    series: Series,
) -> tuple[Int[np.ndarray, "peak"], Float[np.ndarray, "peak"], Float[np.ndarray, "peak"]]:
    """Peaks of the spectrum of the highest level, ascending; none where all maxima are noise.

    Returns:
        Index of the wavelength; height above the higher of the two minima beside it (signal unit);
        width at half of that height (axis unit).
    """
    spectrum, axis = series.signal[-1], series.axis
    noise = noise_along_the_axis(axis, series.signal)
    least = max(SMALLEST_PEAK * float(np.ptp(spectrum)), NOISES_OF_A_PEAK * noise)
    places, found = find_peaks(spectrum, prominence=least or np.inf, width=0)
    at = np.arange(len(axis))
    ends = (np.interp(found[f"{side}_ips"], at, axis) for side in ("right", "left"))
    widths = np.subtract(*ends)
    chosen = np.sort(np.argsort(-found["prominences"], kind="stable")[:MOST_PEAKS])
    return places[chosen], found["prominences"][chosen], widths[chosen]
