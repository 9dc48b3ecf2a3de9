"""Classical multivariate calibrations, which an estimate of concentration has to beat.

A calibration takes the concentrations of the training levels (ascending, at least three), their
spectra and the spectra to estimate, and returns a concentration for each of these. All three are
linear in the spectrum and extrapolate beyond the training levels, below zero included. Each has one
hyper-parameter, the number of components or the wavelength. It is chosen by leave-one-out among the
training levels, and so is nested where the calibration gets the other levels of a series.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float
from threadpoolctl import threadpool_limits

from geonode.spectra.series import Series

Concentrations = Float[np.ndarray, "level"]
Spectra = Float[np.ndarray, "level wavelength"]
Unknown = Float[np.ndarray, "unknown wavelength"]
Estimated = Float[np.ndarray, "unknown"]
Calibration = Callable[[Concentrations, Spectra, Unknown], Estimated]

Candidates = Callable[[Concentrations, Spectra, Unknown], Float[np.ndarray, "unknown candidate"]]
"""Function that estimates by every candidate: every number of components, or every wavelength."""

MOST_COMPONENTS = 10
"""Largest number of components of PLS and PCR: samples have fewer absorbers."""

ROUNDING = 1e-12
"""Largest variation due to rounding, relative to the size of the spectra."""

TIE = 1e-10
"""Largest difference of equal errors, relative to the range of the training levels."""


# the three calibrations


def pls(concentrations: Concentrations, spectra: Spectra, unknown: Unknown) -> Estimated:
    """Partial least squares regression of the concentration on the spectrum, neither scaled.

    Up to `MOST_COMPONENTS` components are compared, and at most two fewer than training levels: one
    level is left out, and the others about their mean span one dimension less than their number.

    Sources: Wold, Ruhe, Wold and Dunn, SIAM J. Sci. Stat. Comput. 5, 735 (1984); Wold, Sjöström and
    Eriksson, Chemom. Intell. Lab. Syst. 58, 109 (2001).
    """
    return _of_components(_pls_by_count, concentrations, spectra, unknown)


def pls_components(concentrations: Concentrations, spectra: Spectra) -> int:
    """Number of components that `pls` takes."""
    scores, _ = _on_own_basis(spectra, spectra)
    by_count = partial(_pls_by_count, _most_components(concentrations))
    return 1 + _best(by_count, concentrations, scores)


def pcr(concentrations: Concentrations, spectra: Spectra, unknown: Unknown) -> Estimated:
    """Least squares of the concentration on the leading principal components of the spectra.

    As many components are compared as for `pls`.

    Source: Massy, J. Am. Stat. Assoc. 60, 234 (1965).
    """
    return _of_components(_pcr_by_count, concentrations, spectra, unknown)


def single_wavelength(
    concentrations: Concentrations, spectra: Spectra, unknown: Unknown
) -> Estimated:
    """Straight line through the concentrations over the signal at the best wavelength.

    It is the inverse regression, of the concentration on the signal: as PLS and PCR it minimises
    the squared error of the concentration, and it returns the mean level where the signal does not
    depend on concentration. There the direct regression divides by a slope near zero. Of equally
    good wavelengths the first is taken.

    Source: Krutchkoff, Technometrics 9, 425 (1967).
    """
    return _by_the_best(_by_wavelength, concentrations, spectra, unknown)


def best_wavelength(concentrations: Concentrations, spectra: Spectra) -> int:
    """Place of the wavelength that `single_wavelength` takes."""
    return _best(_by_wavelength, concentrations, spectra)


CALIBRATIONS: dict[str, Calibration] = {
    calibration.__name__: calibration for calibration in (pls, pcr, single_wavelength)
}


def estimate_left_out_by(calibration: Calibration, series: Series) -> Concentrations:
    """Estimate the concentration of every spectrum of a series from the other levels.

    Args:
        calibration: one of `CALIBRATIONS`. It gets the concentrations and spectra of the other
            levels, and of the left-out level the spectrum only.
        series: series of at least four levels.

    Returns:
        Entry i is the concentration (unit of the levels) estimated with level i left out.
    """
    # Matrices of this size are slower with several threads.
    with threadpool_limits(1):
        return np.array(
            [
                calibration(*_without(fold, series.concentrations, series.signal), spectrum[None])
                for fold, spectrum in enumerate(series.signal)
            ]
        )[:, 0]


# how good they are


@dataclass(frozen=True)
class ConcentrationScores:
    """Scores of the estimated concentrations of left-out levels.

    Attributes:
        median_absolute_error: median absolute error (unit of the levels).
        median_error_of_range: median absolute error as a share of the range of the levels.
        rmsep: root mean squared error of prediction (unit of the levels).
        rmsep_of_range: `rmsep` as a share of the range of the levels.
        q2: 1 - PRESS / SS, the sums of squares of the errors and of every level about the mean of
            the others. The mean of the others has 0, a perfect estimate 1.
    """

    median_absolute_error: float
    median_error_of_range: float
    rmsep: float
    rmsep_of_range: float
    q2: float

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


# the choice inside


def _by_the_best(
    candidates: Candidates, levels: np.ndarray, spectra: np.ndarray, unknown: np.ndarray
) -> np.ndarray:
    """Estimates by the candidate with the least squared error, of equal ones the first."""
    return candidates(levels, spectra, unknown)[:, _best(candidates, levels, spectra)]


def _best(candidates: Candidates, levels: np.ndarray, spectra: np.ndarray) -> int:
    """Place of the candidate with the least squared error of left-out levels."""
    errors = np.stack(
        [
            candidates(*_without(fold, levels, spectra), spectra[[fold]])[0] - level
            for fold, level in enumerate(levels)
        ]
    )
    rmse = np.sqrt(np.mean(errors**2, axis=0))
    return int(np.argmax(rmse <= rmse.min() + TIE * np.ptp(levels)))


def _without(fold: int, levels: np.ndarray, spectra: np.ndarray) -> tuple[Concentrations, Spectra]:
    return np.delete(levels, fold), np.delete(spectra, fold, axis=0)


def _of_components(
    by_count: Callable[[int, np.ndarray, np.ndarray, np.ndarray], np.ndarray],
    levels: np.ndarray,
    spectra: np.ndarray,
    unknown: np.ndarray,
) -> np.ndarray:
    most = _most_components(levels)
    scores, unknown_scores = _on_own_basis(spectra, unknown)
    return _by_the_best(partial(by_count, most), levels, scores, unknown_scores)


def _most_components(levels: np.ndarray) -> int:
    return min(len(levels) - 2, MOST_COMPONENTS)


def _on_own_basis(spectra: np.ndarray, unknown: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores of spectra on the singular vectors of the training spectra, the largest of norm one.

    PLS and PCR give the same estimates from scores as from spectra, also with a level left out.
    Their coefficients are combinations of the centred training spectra, which the basis spans, so
    that only the projection of an unknown spectrum counts. The basis is orthonormal, so that scores
    have the inner products of the spectra, which determine the combination. The common scale
    changes neither; `ROUNDING` is relative to it.
    """
    centre = spectra.mean(axis=0)
    left, singular, basis = np.linalg.svd(spectra - centre, full_matrices=False)
    singular[singular <= ROUNDING * np.linalg.norm(spectra)] = 0
    largest = singular[0] or 1.0  # constant spectra have scores of zero
    return left * singular / largest, (unknown - centre) @ basis.T / largest


# candidates


def _pls_by_count(
    most: int, levels: np.ndarray, scores: np.ndarray, unknown: np.ndarray
) -> np.ndarray:
    """Estimates of PLS with 1 to `most` components, all from one fit.

    The first components of a fit are those of a fit with fewer. Where the residual scores are
    uncorrelated with the residual levels, further components change nothing. It is the orthogonal
    scores algorithm of the first source; that of scikit-learn divides by zero there.
    """
    mean, span = levels.mean(), np.ptp(levels)
    residual, x = (levels - mean) / span, scores - scores.mean(axis=0)
    unknown_x = unknown - scores.mean(axis=0)
    parts = np.zeros((len(unknown), most))
    for component in range(most):
        covariance = residual @ x
        if np.linalg.norm(covariance) <= ROUNDING:
            break
        weights = covariance / np.linalg.norm(covariance)
        along, unknown_along = x @ weights, unknown_x @ weights
        loadings, slope = along @ x / (along @ along), along @ residual / (along @ along)
        residual = residual - slope * along
        x = x - np.outer(along, loadings)
        unknown_x = unknown_x - np.outer(unknown_along, loadings)
        parts[:, component] = slope * unknown_along
    return mean + span * np.cumsum(parts, axis=1)


def _pcr_by_count(
    most: int, levels: np.ndarray, scores: np.ndarray, unknown: np.ndarray
) -> np.ndarray:
    """Estimates of PCR with 1 to `most` components; components beyond the rank change nothing."""
    centre, mean = scores.mean(axis=0), levels.mean()
    left, singular, basis = np.linalg.svd(scores - centre, full_matrices=False)
    count = min(most, int(np.sum(singular > ROUNDING)))
    slopes = (levels - mean) @ left[:, :count] / singular[:count]
    parts = np.zeros((len(unknown), most))
    parts[:, :count] = (unknown - centre) @ basis[:count].T * slopes
    return mean + np.cumsum(parts, axis=1)


def _by_wavelength(levels: np.ndarray, spectra: np.ndarray, unknown: np.ndarray) -> np.ndarray:
    """Estimates of the straight line at every wavelength; the mean level where all are equal."""
    centre, mean = spectra.mean(axis=0), levels.mean()
    deviations = spectra - centre
    squares = np.sum(deviations**2, axis=0)
    varies = squares > (ROUNDING * np.abs(spectra).max(axis=0)) ** 2
    slopes = np.divide(
        (levels - mean) @ deviations, squares, out=np.zeros_like(squares), where=varies
    )
    return mean + (unknown - centre) * slopes
