"""Noise of spectra, without replicates."""

import numpy as np
from jaxtyping import Float


def noise_along_the_axis(
    axis: Float[np.ndarray, "wavelength"], scans: Float[np.ndarray, "scan wavelength"]
) -> float:
    """Standard deviation of white noise, from each value about the line through its neighbours.

    On an even axis that distance is half a second difference, of which a smooth spectrum has hardly
    any. Pseudo-residuals: Gasser, Sroka and Jennen-Steinmetz, Biometrika 73 (1986) 625, section 2.
    Their scale is 1.4826 times the median of their sizes, which bands sharper than the step do not
    spoil: Stoehr et al., ASP Conf. Ser. 394 (2008) 505 (DER_SNR). An instrument that smooths its
    spectra has more noise than this shows.

    Args:
        axis: ascending, at least three values.
        scans: spectra on this axis.
    """
    left, right = np.diff(axis)[:-1], np.diff(axis)[1:]
    before, after = right / (left + right), left / (left + right)
    residuals = before * scans[:, :-2] + after * scans[:, 2:] - scans[:, 1:-1]
    scaled = residuals / np.sqrt(before**2 + after**2 + 1)
    return float(1.4826 * np.median(np.abs(scaled)))
