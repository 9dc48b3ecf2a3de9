"""Amounts as linear functions of the spectrum: PLS of each substance or of all, and CLS.

- `pls`: partial least squares of each substance by itself.
- `pls2`: of all substances together, each scaled to variance 1.
- `reweighted_pls`: PLS on spectra whose wavelengths are weighted by the size of their coefficients
  in the fit before, `REWEIGHTED` times. Wavelengths that say nothing about a substance fade, which
  matters where much else varies. Source: A. Rinnan, M. Andersson, C. Ridder and S. B. Engelsen,
  J. Chemometrics 28 (2014) 439 (recursive weighted PLS).
- `cls`: classical least squares; the signal is linear in all amounts, and amounts are read back.

Numbers of components are chosen by the errors of compositions left out. The whole fit, weights and
choice included, is repeated without every fold for the errors that methods are compared by.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from geonode.mixtures.design import folds_of
from geonode.spectra.partial_least_squares import components, own_basis
from geonode.ties import first_smallest

METHODS = {
    "pls": "PLS of each substance",
    "pls2": "PLS2",
    "reweighted_pls": "reweighted PLS",
    "cls": "CLS",
}
"""Names of the inverse methods for people."""

MOST_COMPONENTS = 20
"""More than of one substance: everything else that varies takes components too."""

REWEIGHTED = 2
"""Times that wavelengths are weighted anew."""

Spectra = Float[np.ndarray, "sample wavelength"]
Amounts = Float[np.ndarray, "sample substance"]
Folds = Int[np.ndarray, "sample"]


class Inverse(NamedTuple):
    """Amounts as a linear function of the spectrum.

    Attributes:
        constant: amounts of a spectrum of zeros.
        slopes: of the amounts over the signal.
    """

    constant: Float[np.ndarray, "substance"]
    slopes: Float[np.ndarray, "wavelength substance"]

    @classmethod
    def mean(cls, fits: "list[Inverse]") -> "Inverse":
        """Mean of the functions of several fits."""
        return cls(*(np.mean(parts, axis=0) for parts in zip(*fits, strict=True)))

    def estimates(
        self, spectra: Float[np.ndarray, "unknown wavelength"]
    ) -> Float[np.ndarray, "unknown substance"]:
        """Amounts of spectra."""
        return self.constant + spectra @ self.slopes


def fit_inverse(spectra: Spectra, amounts: Amounts, composition: Folds) -> dict[str, Inverse]:
    """All methods of `METHODS`, fitted to samples.

    Args:
        spectra: of the samples.
        amounts: theirs.
        composition: of every sample.
    """
    folds, centre, mean = folds_of(composition), spectra.mean(axis=0), amounts.mean(axis=0)
    scale = amounts.std(axis=0)
    targets = (amounts - mean) / scale
    columns = [_reweighted(spectra - centre, column, folds) for column in targets.T[:, :, None]]
    slopes = {
        "pls": np.concatenate([of_column[0] for of_column in columns], axis=1),
        "pls2": _chosen(spectra - centre, targets, folds),
        "reweighted_pls": np.concatenate([of_column[-1] for of_column in columns], axis=1),
    }
    found = {key: Inverse(mean - centre @ (b * scale), b * scale) for key, b in slopes.items()}
    pure = np.linalg.lstsq(np.column_stack([np.ones(len(amounts)), targets]), spectra)[0]
    back = np.linalg.pinv(pure[1:]) * scale
    found["cls"] = Inverse(mean - pure[0] @ back, back)
    return found


def _reweighted(spectra: np.ndarray, target: np.ndarray, folds: np.ndarray) -> list[np.ndarray]:
    """Coefficients of centred spectra: not weighted, then weighted once, twice, ..."""
    weights, found = np.ones(spectra.shape[1]), []
    for _ in range(1 + REWEIGHTED):
        found.append(weights[:, None] * _chosen(spectra * weights, target, folds))
        size = np.abs(found[-1][:, 0])
        weights = size / (size.max() or 1.0)
    return found


def _chosen(spectra: np.ndarray, targets: np.ndarray, folds: np.ndarray) -> np.ndarray:
    """Coefficients by the number of components with the smallest errors on folds left out."""
    basis = own_basis(spectra)
    scores = spectra @ basis
    most = max(1, min(MOST_COMPONENTS, scores.shape[1], len(scores) - 2))
    squares = np.zeros(most)
    for fold in range(folds.max() + 1):
        out = folds == fold
        centre, mean = scores[~out].mean(axis=0), targets[~out].mean(axis=0)
        fit = components(targets[~out] - mean, scores[~out] - centre, most)
        by_component = ((scores[out] - centre) @ fit.rotation)[:, :, None] * fit.slopes
        errors = np.cumsum(by_component, axis=1) - (targets[out] - mean)[:, None]
        squares += np.sum(errors**2, axis=(0, 2))
    best = int(first_smallest(squares, size=float(np.sum(targets**2)))) + 1
    return basis @ components(targets, scores, best).coefficients(best)
