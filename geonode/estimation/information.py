"""Fisher's information about the concentration, along a curve.

With the scores s(c) of a curve and the law S(c) of their errors, g = s'^T S^-1 s' is what a
spectrum tells of c: a metric of concentration space whose unit is the standard error. No unbiased
estimate errs less than 1 / sqrt(g), and where the response turns g is zero. That S changes with c
tells something too, and is left out.

Over wavelengths g is the sum of squares of B^T S^-1/2 s', with B the basis and S^-1/2 the symmetric
root. Of all ways to whiten, this keeps each part closest to its own wavelength. Where errors of
wavelengths are independent it is s_w'^2 / S_ww; common errors are shared among wavelengths.

Sources: C. R. Rao, Bull. Calcutta Math. Soc. 37 (1945) 81 (metric and bound); A. Kessy, A. Lewin
and K. Strimmer, Am. Stat. 72 (2018) 309 (whitening).
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from scipy.ndimage import gaussian_filter1d

from geonode.estimation.curve import Curve
from geonode.ties import EQUAL

SMOOTHED = 1 / 32
"""Width of the smoothing of the logarithm of lengths over the curve; 1/60 and 1/16 do alike."""


@dataclass(frozen=True, eq=False)
class Information:
    """Information about the concentration at the nodes of a curve."""

    concentrations: Float[np.ndarray, "node"]
    scores: Float[np.ndarray, "node direction"]
    covariances: Float[np.ndarray, "node direction direction"]
    """S, positive definite."""
    basis: Float[np.ndarray, "direction wavelength"]

    @classmethod
    def of(cls, curve: Curve) -> "Information":
        """Information along a curve."""
        # The first term is the cell of a node, an error of the nodes and not of the spectra.
        terms = curve.covariances.terms.copy()
        terms[:, 0] = 0
        law = replace(curve.covariances, terms=terms).matrices
        return cls(curve.concentrations, curve.scores, law, curve.basis)

    @cached_property
    def length(self) -> Float[np.ndarray, "node"]:
        """Length of the curve up to every node, the integral of sqrt(g), from chords."""
        chords, law = np.diff(self.scores, axis=0), self.covariances
        solved = np.linalg.solve((law[1:] + law[:-1]) / 2, chords[..., None])[..., 0]
        squares = np.maximum(np.sum(chords * solved, axis=1), np.finfo(float).tiny)
        width = SMOOTHED * len(squares)
        steps = np.exp(gaussian_filter1d(np.log(squares), width, mode="nearest") / 2)
        return np.concatenate([[0.0], np.cumsum(steps)])

    def errors(self, size: float = 1.0) -> Float[np.ndarray, "node"]:
        """Standard errors: half of the concentrations within a length of `size` on both sides.

        Where g hardly changes within it that is size / sqrt(g).
        """
        low, high = (np.clip(self.length + away, 0, self.length[-1]) for away in (-size, size))
        ends = [np.interp(end, self.length, self.concentrations) for end in (low, high)]
        return size * (ends[1] - ends[0]) / (high - low)

    @cached_property
    def by_wavelength(self) -> Float[np.ndarray, "node wavelength"]:
        """Part of every wavelength in g; the sum over wavelengths is g."""
        variances, vectors = np.linalg.eigh(self.covariances)
        derivatives = np.gradient(self.scores, self.concentrations, axis=0)
        along = np.einsum("ndk,nd->nk", vectors, derivatives) / np.sqrt(variances)
        return (np.einsum("ndk,nk->nd", vectors, along) @ self.basis) ** 2

    def telling(self, low: float, high: float, count: int = 10) -> Int[np.ndarray, "place"]:
        """Places of the most informative wavelengths from `low` to `high`, the best first.

        They are maxima along the axis, of which there may be fewer than `count`.
        """
        between = (low <= self.concentrations) & (self.concentrations <= high)
        mean = self.by_wavelength[between].mean(axis=0)
        padded = np.pad(mean, 1, constant_values=-1.0)
        peaks = np.flatnonzero((mean > padded[:-2]) & (mean >= padded[2:]))
        order = np.round(mean[peaks] / (EQUAL * mean.max()))
        return peaks[np.argsort(-order, kind="stable")][:count]
