"""Classical calibrations, which estimate a concentration from a spectrum.

Each is fitted to samples, of which it knows concentration and spectrum, with all its options at
once: every number of components, or every wavelength. The option is chosen by the errors of samples
that were left out, and so is nested wherever the errors of the calibration itself are measured. All
extrapolate beyond the samples, below zero included.

The lines and the quadratic are direct regressions at the most sensitive wavelength: the signal over
the concentration by least squares, and a concentration read back. The best single wavelength, PCR
and PLS are inverse regressions, of the concentration on the spectrum, neither scaled.

Sources: K. Danzer and L. A. Currie, Pure Appl. Chem. 70 (1998) 993 (lines); Krutchkoff,
Technometrics 9, 425 (1967) (inverse regression); Massy, J. Am. Stat. Assoc. 60, 234 (1965) (PCR);
Wold, Ruhe, Wold and Dunn, SIAM J. Sci. Stat. Comput. 5, 735 (1984) (PLS).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from geonode.spectra.component_regression import (
    ROUNDING_OF_SPECTRA,
    FindComponents,
    Fit,
    Fitted,
    Scores,
    pcr_components,
    pls_components,
)
from geonode.spectra.preprocessed_pls import MOST_COMPONENTS, fit_preprocessed
from geonode.spectra.series import Series
from geonode.spectra.table import without_rounding
from geonode.ties import first_largest, first_smallest

Concentrations = Float[np.ndarray, "sample"]
Spectra = Float[np.ndarray, "sample wavelength"]
Unknown = Float[np.ndarray, "unknown wavelength"]
ByOption = Float[np.ndarray, "unknown option"]
Folds = Int[np.ndarray, "sample"]
FitSamples = Callable[[Concentrations, Spectra], Fit]

FEWEST_GROUPS = 6
"""Of samples, from which on preprocessings take part: the errors of fewer cannot weigh ten."""

MOST_FOLDS = 20
"""Groups that are left out one by one; of more, `INTERLEAVED` parts are left out in turn."""

INTERLEAVED = 10


@dataclass(frozen=True)
class Polynomial(Fit):
    """Signal constant + slope z + curvature z^2 at one wavelength, z = (c - centre) / span.

    Samples have the weight (lowest / c)^power; those below `lowest` 1.
    """

    place: int  # of the wavelength
    centre: float  # of the concentrations
    span: float  # of these
    constant: float
    slope: float
    curvature: float  # 0 of a line
    covariance: Float[np.ndarray, "term term"]  # of the three, over the variance of an error
    lowest: float
    power: int

    def estimates(self, spectra: Unknown) -> ByOption:
        """Concentrations on the branch of the mean level; its end if the signal is beyond."""
        return self.centre + self.span * self._charted(spectra)[:, None]

    def leverages(self, spectra: Unknown) -> ByOption:
        """Variance of what was fitted, at each estimate, over that of one error."""
        design = np.vander(self._charted(spectra), len(self.covariance), increasing=True)
        found = np.einsum("ut,tk,uk->u", design, self.covariance, design)[:, None]
        found = np.maximum(found, 0)  # levels over thirty decades leave rounding alone
        return found * _weights(self.estimates(spectra), self.lowest, self.power)

    def _charted(self, spectra: Unknown) -> np.ndarray:
        above = spectra[:, self.place] - self.constant
        if self.curvature:
            beyond = np.maximum if self.curvature > 0 else np.minimum
            above = beyond(above, -(self.slope**2) / (4 * self.curvature))
        root = np.sqrt(np.maximum(self.slope**2 + 4 * self.curvature * above, 0))
        steep = self.slope + np.copysign(root, self.slope)
        return np.divide(2 * above, steep, out=np.zeros_like(above), where=steep != 0)


def most_sensitive(concentrations: Concentrations, spectra: Spectra) -> int:
    """Place of the wavelength whose line is the steepest; of equal ones the first."""
    return int(first_largest(np.abs((concentrations - concentrations.mean()) @ spectra)))


def polynomial(
    concentrations: Concentrations, spectra: Spectra, *, degree: int = 1, power: int = 0
) -> Polynomial:
    """Least squares of the signal at the most sensitive wavelength over the concentration.

    Args:
        concentrations: of the samples, none negative.
        spectra: theirs.
        degree: of the polynomial; one lower than the number of different levels at most.
        power: samples are weighted with 1 / c^power, a blank as the lowest positive level.
    """
    place, levels = most_sensitive(concentrations, spectra), np.unique(concentrations)
    centre, span = float(concentrations.mean()), float(np.ptp(levels)) or 1.0
    signal = spectra[:, place]
    lowest = float(levels[levels > 0].min(initial=np.inf)) if power else np.inf
    weights = _weights(concentrations, lowest, power)
    terms = 1 + min(degree, len(levels) - 1)
    if np.ptp(signal) <= ROUNDING_OF_SPECTRA * np.abs(signal).max():
        terms = 1
    root = np.sqrt(weights)
    design = root[:, None] * np.vander((concentrations - centre) / span, terms, increasing=True)
    basis, triangle = np.linalg.qr(design)
    inverse = np.linalg.inv(triangle)
    constant, slope, curvature = [*(inverse @ (basis.T @ (root * signal))).tolist(), 0.0, 0.0][:3]
    covariance = inverse @ inverse.T
    return Polynomial(place, centre, span, constant, slope, curvature, covariance, lowest, power)


def _weights(concentrations: np.ndarray, lowest: float, power: int) -> np.ndarray:
    """Weights of concentrations; all are 1 if none is above the lowest."""
    ratio = concentrations / lowest
    return np.maximum(ratio, 1) ** -float(power)


@dataclass(frozen=True)
class Linear(Fit):
    """Regression of the concentration on the first 1, 2, ... components, or on every wavelength."""

    count: int  # number of samples
    mean: float  # of their concentrations
    centre: Float[np.ndarray, "wavelength"]  # their mean spectrum
    rotation: Float[np.ndarray, "wavelength component"] | None
    """Whose products with deviations from the mean spectrum are scores; None: these are scores."""
    sizes: Float[np.ndarray, "score"]
    """Squared scores of the samples, summed; infinite for components that are not there."""
    slopes: Float[np.ndarray, "score"]  # of the concentration over the scores

    def estimates(self, spectra: Unknown) -> ByOption:
        """Concentrations by every number of components, or every wavelength."""
        return self.mean + self._summed(self._scores(spectra) * self.slopes)

    def leverages(self, spectra: Unknown) -> ByOption:
        """Variance of what was fitted, at each spectrum, over that of one error."""
        return 1 / self.count + self._summed(self._scores(spectra) ** 2 / self.sizes)

    def _scores(self, spectra: Unknown) -> np.ndarray:
        deviations = spectra - self.centre
        return deviations if self.rotation is None else deviations @ self.rotation

    def _summed(self, parts: np.ndarray) -> np.ndarray:
        return parts if self.rotation is None else np.cumsum(parts, axis=1)


def wavelengths(concentrations: Concentrations, spectra: Spectra) -> Linear:
    """Least squares of the concentration over the signal at every wavelength.

    As PLS and PCR it minimises the squared error of the concentration, and returns the mean level
    where the signal does not depend on concentration. There the direct regression divides by a
    slope near zero.
    """
    centre, mean = spectra.mean(axis=0), float(concentrations.mean())
    sizes = np.sum((spectra - centre) ** 2, axis=0)
    sizes[sizes <= (ROUNDING_OF_SPECTRA * np.abs(spectra).max(axis=0)) ** 2] = np.inf
    slopes = (concentrations - mean) @ (spectra - centre) / sizes
    return Linear(len(spectra), mean, centre, None, sizes, slopes)


class Registered(NamedTuple):
    """A calibration that takes part, by one of three ways to be fitted."""

    name: str
    """For people."""
    fit: FitSamples | None = None
    """Fits what reads one wavelength to the concentrations of samples and their spectra."""
    components: FindComponents | None = None
    """Finds its components."""
    preprocessing: Callable[..., list[Fitted]] | None = None
    """Fits it to columns of concentrations, preprocesses spectra itself, and leaves folds out."""


CALIBRATIONS = {
    "straight_line": Registered("straight line", polynomial),
    "line_over_c": Registered("straight line, weighted 1/c", partial(polynomial, power=1)),
    "line_over_c2": Registered("straight line, weighted 1/c²", partial(polynomial, power=2)),
    "quadratic": Registered("quadratic", partial(polynomial, degree=2)),
    "single_wavelength": Registered("best single wavelength", wavelengths),
    "pcr": Registered("PCR", components=pcr_components),
    "pls": Registered("PLS", components=pls_components),
    "preprocessed_pls": Registered("PLS on preprocessings", preprocessing=fit_preprocessed),
}
"""All calibrations, the simplest first."""

OF_ONE_WAVELENGTH = tuple(key for key, one in CALIBRATIONS.items() if one.fit)
OF_COMPONENTS = {key: one.components for key, one in CALIBRATIONS.items() if one.components}

INVERSE = ("pls", "pcr", "single_wavelength")
"""Those of them that an estimate by geonode is compared with in scores."""


def folds_of(
    concentrations: Concentrations, groups: Int[np.ndarray, "sample"], spectra: Spectra
) -> Folds:
    """Fold of every sample: the samples of a group are left out together.

    Of more than `MOST_FOLDS` groups, in the order of their mean concentrations, every
    `INTERLEAVED`th is left out together. Of equal means the one whose mean spectrum is nearer to
    that of all is first, so that the order of the samples decides nothing.
    """
    _, group, counts = np.unique(groups, return_inverse=True, return_counts=True)
    means = without_rounding(np.bincount(group, concentrations) / counts)
    if len(means) <= MOST_FOLDS:
        return group
    total = np.zeros((len(means), spectra.shape[1]))
    np.add.at(total, group, spectra - spectra.mean(axis=0))
    away = without_rounding(np.sum(total**2, axis=1) / counts**2)
    return (np.argsort(np.lexsort((away, means))) % INTERLEAVED)[group]


def keys_for(folds: Folds, *, preprocessed: bool) -> list[str]:
    """Calibrations of `CALIBRATIONS` that take part, by the folds of the samples.

    Preprocessings do not, where spectra are preprocessed already.
    """
    without = preprocessed or folds.max() + 1 < FEWEST_GROUPS
    return [key for key, one in CALIBRATIONS.items() if not (without and one.preprocessing)]


def fitted(key: str, concentrations: Concentrations, spectra: Spectra, folds: Folds) -> Fitted:
    """Fit a calibration, and estimate every sample without those of its fold.

    A fold without its samples chooses the option by the errors of the other folds, each left out
    in turn too.

    Args:
        key: of `CALIBRATIONS`.
        concentrations: of the samples.
        spectra: theirs.
        folds: of `folds_of`, two at least.
    """
    _, fit, components, preprocessing = CALIBRATIONS[key]
    if preprocessing:
        return preprocessing(concentrations[:, None], spectra, folds)[0]
    if fit:
        tried = _by_refits(fit, concentrations, spectra, folds)
    else:
        assert components
        tried = _on_components(components, concentrations, spectra, folds)
    whole, estimates, leverages, inner = tried
    size = len(spectra), float(np.ptp(concentrations))
    total = np.sum((estimates - concentrations[:, None]) ** 2, axis=0)
    own = np.arange(len(spectra)), np.array([_best(row, *size) for row in inner])[folds]
    return Fitted(whole, spectra.shape[1], _best(total, *size), estimates[own], leverages[own])


Tried = tuple[Fit, np.ndarray, np.ndarray, np.ndarray]
"""Fit to all samples; of those left out, estimates and leverages by every option; squared errors of
the other folds, by fold and option."""


def _by_refits(
    fit: FitSamples, concentrations: np.ndarray, spectra: np.ndarray, folds: np.ndarray
) -> Tried:
    """Every option of a fit tried."""
    count = int(folds.max()) + 1

    def without(*left_out: int) -> Fit:
        kept = ~np.isin(folds, left_out)
        return fit(concentrations[kept], spectra[kept])

    whole = fit(concentrations, spectra)
    options = whole.estimates(spectra[:1]).shape[1]
    estimates, leverages = np.empty((2, len(spectra), options))
    inner = np.zeros((count, options))
    for one in range(count):
        at = folds == one
        of_fold = without(one)
        estimates[at] = of_fold.estimates(spectra[at])
        leverages[at] = of_fold.leverages(spectra[at])
        for other in range(one if count > 2 and options > 1 else 0):
            of_pair = without(one, other)
            for outer, left in ((one, folds == other), (other, at)):
                errors = of_pair.estimates(spectra[left]) - concentrations[left, None]
                inner[outer] += np.sum(errors**2, axis=0)
    return whole, estimates, leverages, inner


def _on_components(
    method: FindComponents, concentrations: np.ndarray, spectra: np.ndarray, folds: np.ndarray
) -> Tried:
    """Every number of components tried."""
    scores = Scores(spectra, folds)
    mean, span = float(concentrations.mean()), float(np.ptp(concentrations)) or 1.0
    targets = (concentrations - mean) / span
    found = scores.left_out(targets, method, MOST_COMPONENTS)
    most = found.estimates.shape[1]
    inner = span**2 * np.nansum((found.inner - targets[:, None]) ** 2, axis=1)
    (rotation,), (sizes,), (slopes,) = scores.fits(targets, [()], method, most).components
    rotation, slopes = scores.of_wavelengths(rotation), span * slopes
    whole = Linear(len(spectra), mean, scores.centre, rotation, sizes, slopes)
    return whole, mean + span * found.estimates, found.leverages, inner


def _best(squares: np.ndarray, count: int, range_: float) -> int:
    """Option with the least squared errors, of equal ones the first."""
    return int(first_smallest(np.sqrt(squares / count), size=range_))


def estimate_left_out_by(key: str, series: Series) -> Float[np.ndarray, "concentration"]:
    """Estimates (unit of the levels) of every spectrum of a series from the other levels."""
    levels, spectra = series.concentrations, series.signal
    return fitted(key, levels, spectra, folds_of(levels, np.arange(len(levels)), spectra)).left_out


@dataclass(frozen=True)
class ConcentrationScores:
    """Scores of the estimated concentrations of left-out levels."""

    median_absolute_error: float  # unit of the levels
    median_error_of_range: float  # the same as a share of the range of the levels
    rmsep: float  # root mean squared error of prediction (unit of the levels)
    rmsep_of_range: float  # the same as a share of the range
    q2: float
    """1 - PRESS / SS, the sums of squares of the errors and of every level about the mean of the
    others. The mean of the others has 0, a perfect estimate 1."""

    @classmethod
    def of(cls, levels: Concentrations, estimates: Concentrations) -> "ConcentrationScores":
        """Score estimates.

        Args:
            levels: the true concentrations, at least two that differ.
            estimates: entry i is estimated with level i left out.
        """
        errors, span = estimates - levels, float(np.ptp(levels))
        others = (levels.sum() - levels) / (len(levels) - 1)
        median, rmsep = float(np.median(np.abs(errors))), float(np.sqrt(np.mean(errors**2)))
        q2 = 1 - float(np.sum(errors**2) / np.sum((levels - others) ** 2))
        return cls(median, median / span, rmsep, rmsep / span, q2)
