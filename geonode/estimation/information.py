"""Fisher's information about the concentration, along a curve.

With the scores s(c) of a curve and the law S(c) of their errors, g = s'^T S^-1 s' is what a spectrum
tells of c. It is a metric of concentration space whose unit is the standard error: no unbiased
estimate errs less than 1 / sqrt(g), and where the response turns g is zero. S changes with c, which
tells something too and is left out.

Over wavelengths g is the sum of the squares of B^T S^-1/2 s', with B the basis and S^-1/2 the
symmetric root. Of all ways to whiten, this one keeps each part closest to its own wavelength, so
that errors common to several are shared among them. Where errors of wavelengths are independent a
part is s_w'^2 / S_ww, of that wavelength alone.

Sources: C. R. Rao, Bull. Calcutta Math. Soc. 37 (1945) 81 (metric and bound); A. Kessy, A. Lewin
and K. Strimmer, Am. Stat. 72 (2018) 309 (whitening).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from scipy.ndimage import gaussian_filter1d

from geonode.estimation.curve import Curve

SMOOTHED = 1 / 16
"""Standard deviation of the smoothing of ln g, as a share of the curve.

A derivative of a predicted curve is rough where errors are not: 1 / sqrt(g) and the errors of
simulated levels agree better so, as between 1/25 and 1/10 alike.
"""


def whitened(
    derivatives: Float[np.ndarray, "node direction"],
    covariances: Float[np.ndarray, "node direction direction"],
) -> Float[np.ndarray, "node direction"]:
    """S^-1/2 s' of every node: g is the sum of its squares.

    Args:
        derivatives: s', per unit of concentration.
        covariances: S, positive definite.
    """
    variances, vectors = np.linalg.eigh(covariances)
    along = np.einsum("ndk,nd->nk", vectors, derivatives) / np.sqrt(variances)
    return np.einsum("ndk,nk->nd", vectors, along)


@dataclass(frozen=True, eq=False)
class Information:
    """Information about the concentration at the nodes of a curve."""

    concentrations: Float[np.ndarray, "node"]
    whitened: Float[np.ndarray, "node direction"]
    """S^-1/2 s' (per unit of concentration)."""
    basis: Float[np.ndarray, "direction wavelength"]

    @classmethod
    def of(cls, curve: Curve) -> "Information":
        """Information along a curve, from differences of its nodes."""
        derivatives = np.gradient(curve.scores, curve.concentrations, axis=0)
        law = curve.covariances
        # The first term is the cell of a node, an error of the nodes and not of the spectra.
        found = whitened(derivatives, law.with_terms(law.terms[:, 1:]))
        return cls(curve.concentrations, found, curve.basis)

    @property
    def metric(self) -> Float[np.ndarray, "node"]:
        """Information g (per squared concentration)."""
        return np.sum(self.whitened**2, axis=1)

    @cached_property
    def floor(self) -> Float[np.ndarray, "node"]:
        """1 / sqrt(g), smoothed: the least standard error by the law of errors alone."""
        logarithm = np.log(np.maximum(self.metric, np.finfo(float).tiny))
        width = SMOOTHED * len(logarithm)
        return np.exp(-gaussian_filter1d(logarithm, width, mode="nearest") / 2)

    @cached_property
    def by_wavelength(self) -> Float[np.ndarray, "node wavelength"]:
        """Part of every wavelength in g; the sum over wavelengths is g."""
        return (self.whitened @ self.basis) ** 2

    def telling(self, low: float, high: float, count: int = 10) -> Int[np.ndarray, "place"]:
        """Places of the wavelengths that tell most between two concentrations, the best first.

        They are maxima along the axis of the mean over the nodes, which may be fewer than `count`.
        """
        between = (low <= self.concentrations) & (self.concentrations <= high)
        mean = self.by_wavelength[between].mean(axis=0)
        padded = np.pad(mean, 1, constant_values=-1.0)
        peaks = np.flatnonzero((mean > padded[:-2]) & (mean >= padded[2:]))
        return peaks[np.argsort(-mean[peaks], kind="stable")][:count]
