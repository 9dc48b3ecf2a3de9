"""Partial least squares for one target or several, by the orthogonal scores algorithm.

The first components of a fit are those of a fit with fewer. Where the residual spectra are
uncorrelated with the residual targets, further components change nothing. scikit-learn's
`PLSRegression`, with which the tests compare, refuses such samples, as those of a response that
rises and falls evenly, and takes six times as long.

Source: H. Wold's PLS1 and PLS2 as in S. Wold, A. Ruhe, H. Wold and W. J. Dunn, SIAM J. Sci. Stat.
Comput. 5, 735 (1984).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

ROUNDING = 1e-12
"""Largest variation due to rounding, relative to the size of the spectra."""


class Components(NamedTuple):
    """Components of spectra, the first one first.

    Attributes:
        rotation: whose products with centred spectra are the scores of the components.
        sizes: squared scores of the samples, summed; infinite for components that are not there.
        slopes: of the targets over the scores.
    """

    rotation: Float[np.ndarray, "wavelength component"]
    sizes: Float[np.ndarray, "component"]
    slopes: Float[np.ndarray, "component target"]

    def coefficients(self, count: int) -> Float[np.ndarray, "wavelength target"]:
        """Of the targets over centred spectra, by the first components."""
        return self.rotation[:, :count] @ self.slopes[:count]


def components(
    targets: Float[np.ndarray, "sample target"],
    spectra: Float[np.ndarray, "sample wavelength"],
    most: int,
) -> Components:
    """Components of centred spectra that explain centred targets.

    Args:
        targets: of about the size 1.
        spectra: or scores of `own_basis`, of which the largest is of about the size 1.
        most: number of components; those beyond the rank are zero.
    """
    residual, x = targets, spectra
    rotation, loadings = np.zeros((2, x.shape[1], most))
    sizes, slopes = np.full(most, np.inf), np.zeros((most, targets.shape[1]))
    for component in range(min(most, len(x) - 1)):
        covariance = residual.T @ x
        size = float(np.linalg.norm(covariance))
        if size <= ROUNDING:
            break
        if len(covariance) > 1:
            covariance, size = np.linalg.svd(covariance, full_matrices=False)[2][:1], 1.0
        weights = covariance[0] / size
        along = x @ weights
        sizes[component] = along @ along
        loadings[:, component] = along @ x / sizes[component]
        slopes[component] = along @ residual / sizes[component]
        residual = residual - np.outer(along, slopes[component])
        x = x - np.outer(along, loadings[:, component])
        rotation[:, component] = weights - rotation @ (loadings.T @ weights)
    return Components(rotation, sizes, slopes)


def own_basis(
    spectra: Float[np.ndarray, "sample wavelength"],
) -> Float[np.ndarray, "wavelength direction"]:
    """Directions of the span of spectra, scaled so that the largest score is of norm one.

    Components of the scores are those of the spectra, also with samples left out. Their
    coefficients are combinations of the centred spectra, which the basis spans. Scores have the
    inner products of the spectra, up to a factor, which determine the combination. `ROUNDING` is
    relative to it.
    """
    _, singular, basis = np.linalg.svd(spectra - spectra.mean(axis=0), full_matrices=False)
    kept = singular > max(ROUNDING * np.linalg.norm(spectra), np.finfo(float).tiny)
    return basis[kept].T / (singular[0] if kept.any() else 1.0)
