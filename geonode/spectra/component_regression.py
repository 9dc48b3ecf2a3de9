"""Regressions on components without some folds of samples, from sums over the samples of each fold.

With S the centred scores of the samples, y their targets and A those that are kept, PLS and PCR see
no more than S_A^T S_A and S_A^T y_A. Both are sums over folds: a fit without any folds adds those
of the others, and no number of components and no fold takes a pass over the samples again.

Scores are the spectra themselves where there are more samples than wavelengths, and else the
coordinates of the samples along the axes of their span, by one eigendecomposition of the products
of samples, of which no more than rounding is lost: PLS and PCR of both are the same.

Sources: B. S. Dayal and J. F. MacGregor, J. Chemometrics 11 (1997) 73 (PLS of the two products);
F. Lindgren, P. Geladi and S. Wold, J. Chemometrics 7 (1993) 45 (their sums over folds).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

ROUNDING_OF_SPECTRA = 1e-12
"""Largest variation due to rounding, relative to the size of the spectra."""

SMALLEST_VARIANCE = 1e-14
"""Variance along a component that is rounding, over the largest."""

PRODUCTS_AT_ONCE = 4_000_000
"""Numbers of the products of fits that are made together."""


class Fit(ABC):
    """A calibration fitted to samples, by every option: numbers of components, or wavelengths.

    Fields are arrays, numbers, strings and dictionaries of these, so that files can store them.
    """

    @abstractmethod
    def estimates(
        self, spectra: Float[np.ndarray, "unknown wavelength"]
    ) -> Float[np.ndarray, "unknown option"]:
        """Concentrations of spectra (unit of those of the samples)."""

    @abstractmethod
    def leverages(
        self, spectra: Float[np.ndarray, "unknown wavelength"]
    ) -> Float[np.ndarray, "unknown option"]:
        """Variance of what was fitted, at each spectrum, over that of the error of one sample."""


@dataclass(frozen=True)
class Fitted:
    """A calibration of all samples by its best option, and its errors on samples left out."""

    fit: Fit  # to all samples, from their spectra
    wavelengths: int  # of these
    option: int  # the best one
    left_out: Float[np.ndarray, "sample"]
    """Estimates of the samples, each by what is chosen and fitted without those of its fold."""
    leverages: Float[np.ndarray, "sample"]  # of these

    def estimates(
        self, spectra: Float[np.ndarray, "unknown wavelength"]
    ) -> Float[np.ndarray, "unknown"]:
        """Concentrations of spectra."""
        return self.fit.estimates(spectra)[:, self.option]

    def leverages_of(
        self, spectra: Float[np.ndarray, "unknown wavelength"]
    ) -> Float[np.ndarray, "unknown"]:
        """Leverages of spectra."""
        return self.fit.leverages(spectra)[:, self.option]


class Components(NamedTuple):
    """Components of several fits, the first one first; those that are not there change nothing."""

    rotation: Float[np.ndarray, "fit score component"]
    """Whose products with deviations from the mean are the scores of the components."""
    sizes: Float[np.ndarray, "fit component"]
    """Squared scores of the samples, summed; infinite for components that are not there."""
    slopes: Float[np.ndarray, "fit component"]
    """Of the target over the scores of the components."""


FindComponents = Callable[
    [Float[np.ndarray, "fit score score"], Float[np.ndarray, "fit score"], int], Components
]


def pls_components(
    products: Float[np.ndarray, "fit score score"],
    with_target: Float[np.ndarray, "fit score"],
    most: int,
) -> Components:
    """Components of partial least squares for one target.

    Args:
        products: of centred scores with each other, the largest variance about 1.
        with_target: products of the scores with the target.
        most: number of components.
    """
    fits, width = with_target.shape
    rotation, loadings = np.zeros((2, fits, width, most))
    sizes, slopes = np.full((fits, most), np.inf), np.zeros((fits, most))
    left = with_target
    enough = SMALLEST_VARIANCE * np.linalg.norm(with_target, axis=1)
    for one in range(most):
        norm = np.linalg.norm(left, axis=1)
        weights = (left / np.where(norm > 0, norm, 1)[:, None])[..., None]
        for _ in range(2):  # the second time for what rounding left
            along = loadings[..., :one].mT @ weights
            weights = weights - rotation[..., :one] @ along
        products_along = (products @ weights)[..., 0]
        size = np.sum(weights[..., 0] * products_along, axis=1)
        there = (norm > enough) & (size > SMALLEST_VARIANCE)
        if not there.any():
            break
        size = np.where(there, size, np.inf)
        rotation[..., one] = np.where(there[:, None], weights[..., 0], 0)
        loadings[..., one] = products_along / size[:, None]
        sizes[:, one] = size
        slopes[:, one] = np.sum(weights[..., 0] * left, axis=1) / size
        left = left - products_along * slopes[:, one, None]
    return Components(rotation, sizes, slopes)


def pcr_components(
    products: Float[np.ndarray, "fit score score"],
    with_target: Float[np.ndarray, "fit score"],
    most: int,
) -> Components:
    """Leading principal components, and the slopes of a target over them; as `pls_components`."""
    from scipy.linalg import eigh  # noqa: PLC0415

    width = products.shape[1]
    pairs = [eigh(one, subset_by_index=(max(0, width - most), width - 1)) for one in products]
    rotation = np.zeros((*with_target.shape, most))
    sizes, slopes = np.full((len(products), most), np.inf), np.zeros((len(products), most))
    for fit, (values, vectors) in enumerate(pairs):
        kept = int(np.sum(values > SMALLEST_VARIANCE))
        largest, axes = values[::-1][:kept], vectors[:, ::-1][:, :kept]
        rotation[fit, :, :kept], sizes[fit, :kept] = axes, largest
        slopes[fit, :kept] = with_target[fit] @ axes / largest
    return Components(rotation, sizes, slopes)


class Fits(NamedTuple):
    """Fits without some folds each."""

    samples: Float[np.ndarray, "fit"]
    """Their number."""
    mean: Float[np.ndarray, "fit"]
    """Of their targets."""
    centre: Float[np.ndarray, "fit score"]
    """Their mean scores."""
    components: Components


class LeftOut(NamedTuple):
    """Estimates of samples without their fold, by every number of components."""

    estimates: Float[np.ndarray, "sample component"]
    leverages: Float[np.ndarray, "sample component"]
    inner: Float[np.ndarray, "fold sample component"]
    """Estimates without the sample's fold and that of the first dimension, NaN for samples in it;
    not nested, `estimates`."""


class Scores:
    """Scores of samples, and the sums over every fold of them.

    Args:
        spectra: of the samples.
        folds: of the samples, from 0 on.
    """

    def __init__(
        self, spectra: Float[np.ndarray, "sample wavelength"], folds: Int[np.ndarray, "sample"]
    ) -> None:
        self.centre = spectra.mean(axis=0)
        centred = spectra - self.centre
        samples, wavelengths = spectra.shape
        size = float(np.linalg.norm(centred))
        if size <= ROUNDING_OF_SPECTRA * np.linalg.norm(spectra):
            centred, size = np.zeros_like(spectra), 1.0
        self._axes, self._spectra, self._size = None, centred[:0], size
        if samples <= wavelengths:
            self._spectra = centred
            along = centred / size
            variances, axes = np.linalg.eigh(along @ along.T)
            kept = variances > samples * np.finfo(float).eps
            roots = np.sqrt(variances[kept])
            self._axes = axes[:, kept] / roots
            self.values = axes[:, kept] * roots
        else:
            self.values = np.divide(centred, size, out=centred)  # many samples take much memory
        self._each = [np.flatnonzero(folds == fold) for fold in range(int(folds.max()) + 1)]
        self._counts = np.array([float(len(own)) for own in self._each])
        sums, products = [], []
        for own in self._each:
            values = self.values[own]
            sums.append(values.sum(axis=0))
            products.append(values.T @ values)
        self._sums, self._products = np.stack(sums), np.stack(products)

    def of_wavelengths(
        self, rotation: Float[np.ndarray, "score component"]
    ) -> Float[np.ndarray, "wavelength component"]:
        """A rotation of scores as one of deviations of spectra from their mean."""
        if self._axes is None:
            return rotation / self._size
        return self._spectra.T @ (self._axes @ rotation) / self._size**2

    def fits(
        self,
        targets: Float[np.ndarray, "sample"],
        without: Sequence[tuple[int, ...]],
        method: FindComponents,
        most: int,
    ) -> Fits:
        """Fits without some folds each."""
        kept = np.ones((len(without), len(self._counts)))
        for one, folds in zip(kept, without, strict=True):
            one[[*folds]] = 0
        with_target = np.stack([targets[own] @ self.values[own] for own in self._each])
        total = np.array([targets[own].sum() for own in self._each])
        count = kept @ self._counts
        centre, mean = kept @ self._sums / count[:, None], kept @ total / count
        crossed = kept @ with_target - (count * mean)[:, None] * centre
        products = np.tensordot(kept, self._products, 1)
        products -= count[:, None, None] * centre[:, :, None] * centre[:, None]
        return Fits(count, mean, centre, method(products, crossed, most))

    def left_out(
        self,
        targets: Float[np.ndarray, "sample"],
        method: FindComponents,
        most: int,
        *,
        nested: bool = True,
    ) -> LeftOut:
        """Estimates of every sample without its fold and, nested, without another one too.

        Of `most` components those are tried that all samples have. In one fold alone, estimates are
        the mean.
        """
        each, folds = self._each, len(self._counts)
        most = max(1, min(most, self.values.shape[1], len(targets) - 1))
        if folds == 1:  # nobody is left to be fitted to
            means = np.full((len(targets), most), targets.mean())
            return LeftOut(means, np.full_like(means, 1 / len(targets)), means[None])
        estimates, leverages = np.empty((2, len(targets), most))
        pairs: list[tuple[int, ...]] = []
        if nested and folds > 2:
            pairs = [(one, other) for one in range(folds) for other in range(one)]
        inner = np.full((folds, len(targets), most), np.nan)
        every = [*((one,) for one in range(folds)), *pairs]
        step = max(1, PRODUCTS_AT_ONCE // (self.values.shape[1] ** 2 + 1))
        for start in range(0, len(every), step):
            batch = every[start : start + step]
            found = self.fits(targets, batch, method, most)
            for place, out in enumerate(batch):
                rotation, sizes, slopes = (part[place] for part in found.components)
                for fold, outer in zip(out, out[::-1], strict=True):
                    own = each[fold]
                    scores = (self.values[own] - found.centre[place]) @ rotation
                    at = found.mean[place] + np.cumsum(scores * slopes, axis=1)
                    if len(out) == 1:
                        estimates[own] = at
                        leverages[own] = np.cumsum(scores**2 / sizes, axis=1)
                        leverages[own] += 1 / found.samples[place]
                    else:
                        inner[outer, own] = at
        if not pairs:
            inner[:] = estimates
        return LeftOut(estimates, leverages, inner)
