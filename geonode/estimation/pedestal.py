"""Pedestal of spectra: what they have in common and that depends on no concentration.

A constant added to all spectra, or a wavelength at which they are all alike, must change no
estimate. But a smoother with the mean function {c} expects no signal at concentration zero, and so
depends on both. Estimation therefore takes a pedestal off first: the value that all spectra have
where they are alike, and a constant elsewhere. The constant is the mean over the wavelengths of the
mean spectrum, with weights

    r / (r + QUIET)^3,    r = v / V,

v the variance over the levels at a wavelength, and V the mean of v weighted by v. They are largest
where spectra differ little: beside the bands. Adding a constant adds it to the pedestal, and
wavelengths that are all alike, or given twice, leave it as it is.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

QUIET = 1e-6
"""Variance, relative to that of the bands, of an uninformative wavelength."""

ALIKE = 1e-12
"""Largest difference of equal values, relative to the largest of the spectra."""


class Pedestal(NamedTuple):
    """Pedestal of the spectra of some levels."""

    values: Float[np.ndarray, "wavelength"]  # the pedestal (signal unit)
    differ: Bool[np.ndarray, "wavelength"]  # whether spectra differ at a wavelength

    @classmethod
    def of(cls, spectra: Float[np.ndarray, "level wavelength"]) -> "Pedestal":
        """Pedestal of spectra; of equal ones it is the spectrum itself."""
        mean = spectra.mean(axis=0)
        differ = np.ptp(spectra, axis=0) > ALIKE * np.abs(spectra).max()
        if not differ.any():
            return cls(mean, differ)
        apart = (spectra - mean)[:, differ]
        # Scaled, so that no square leaves the floating-point numbers.
        variance = np.mean((apart / np.abs(apart).max()) ** 2, axis=0)
        ratio = variance / (variance @ variance / variance.sum())
        weight = ratio / (ratio + QUIET) ** 3
        constant = weight @ mean[differ] / weight.sum()
        return cls(np.where(differ, constant, mean), differ)
