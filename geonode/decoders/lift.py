"""Reconstruction of a spectrum from noisy readings at some wavelengths."""

import numpy as np
from jaxtyping import Float, Int

SMALLEST_NOISE = 1e-10  # variance of the standardised signal; keeps the lift solvable


def lift(
    spectra: Float[np.ndarray, "level wavelength"],
    chosen: Int[np.ndarray, "training"],
    noise: float,
) -> Float[np.ndarray, "training wavelength"]:
    """Matrix from noisy readings at some wavelengths to the whole spectrum.

    The conditional mean of a Gaussian process over wavelength whose covariance is the second
    moment of the training spectra, C = Z^T Z / n: with K the chosen wavelengths, the matrix is
    (C_KK + noise)^-1 C_K. Directions in which the training spectra hardly vary, such as their
    own noise, are damped accordingly. Source: C. E. Rasmussen and C. K. I. Williams, Gaussian
    Processes for Machine Learning, MIT Press 2006, equation 2.23.

    Args:
        spectra: standardised training spectra of a fold.
        chosen: indices of the wavelengths with a reading.
        noise: variance of a reading (standardised signal squared).
    """
    covariance = spectra[:, chosen].T @ spectra / len(spectra)
    among_chosen = covariance[:, chosen] + noise * np.eye(len(chosen))
    return np.linalg.solve(among_chosen, covariance)
