"""Amounts from the spectrum by inverse regression: PLS on preprocessings, reweighted PLS, and CLS.

- `preprocessed_pls`: of each substance by itself, as of `spectra.preprocessed_pls`.
- `reweighted_pls`: of each substance by itself, as of `spectra.preprocessed_pls.reweighted`.
- `cls`: classical least squares; the signal is linear in all amounts, and amounts are read back.

Numbers of components and weights are chosen by the errors of compositions left out. The whole fit,
choice included, is repeated without every fold for the errors that methods are compared by.
"""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from geonode.mixtures.design import folds_of
from geonode.spectra.component_regression import ROUNDING_OF_SPECTRA
from geonode.spectra.preprocessed_pls import (
    AS_MEASURED,
    PREPROCESSINGS,
    PreprocessedPLS,
    fit_preprocessed,
    preprocessed,
    reweighted,
)

METHODS = {
    "preprocessed_pls": "PLS on preprocessings",
    "reweighted_pls": "reweighted PLS",
    "cls": "CLS",
}
"""Names of the inverse methods for people."""

Spectra = Float[np.ndarray, "sample wavelength"]
Amounts = Float[np.ndarray, "sample substance"]
Folds = Int[np.ndarray, "sample"]


class Inverse(NamedTuple):
    """Amounts as a sum of linear functions of the spectrum after preprocessings."""

    constant: Float[np.ndarray, "substance"]
    """Amounts if all preprocessed spectra are zero."""
    slopes: dict[str, Float[np.ndarray, "wavelength substance"]]
    """Of the amounts over the preprocessed spectrum, by name of the preprocessing."""

    @classmethod
    def mean(cls, fits: "list[Inverse]") -> "Inverse":
        """Mean of the functions of several fits."""
        slopes = {
            name: np.sum([fit.slopes[name] for fit in fits if name in fit.slopes], axis=0)
            / len(fits)
            for name in PREPROCESSINGS
            if any(name in fit.slopes for fit in fits)
        }
        return cls(np.mean([fit.constant for fit in fits], axis=0), slopes)

    def estimates(
        self, spectra: Float[np.ndarray, "unknown wavelength"]
    ) -> Float[np.ndarray, "unknown substance"]:
        """Amounts of spectra."""
        return self.constant + sum(
            preprocessed(name, spectra) @ b for name, b in self.slopes.items()
        )


def fit_inverse(
    spectra: Spectra,
    amounts: Amounts,
    composition: Folds,
    preprocessings: Collection[str] = PREPROCESSINGS,
) -> dict[str, Inverse]:
    """All methods of `METHODS`, fitted to samples.

    Args:
        spectra: of the samples.
        amounts: theirs.
        composition: of every sample.
        preprocessings: to be tried.
    """
    folds, centre, mean = folds_of(composition), spectra.mean(axis=0), amounts.mean(axis=0)
    scale = amounts.std(axis=0)
    targets = (amounts - mean) / scale
    fits = fit_preprocessed(targets, spectra, folds, nested=False, preprocessings=preprocessings)
    each = [fitted.fit.members for fitted in fits if isinstance(fitted.fit, PreprocessedPLS)]
    names = [name for name in PREPROCESSINGS if any(name in members for members in each)]
    slopes = {name: np.zeros((spectra.shape[1], len(scale))) for name in names}
    constant = mean.copy()
    for place, members in enumerate(each):
        for name, member in members.items():
            vector = scale[place] * member.weight * (member.rotation @ member.slopes)
            slopes[name][:, place] = vector
            constant[place] -= member.centre @ vector
    columns = [reweighted(spectra, column, folds)[1] for column in targets.T]
    anew = np.stack([one.rotation @ one.slopes for one in columns], axis=1)
    pure = np.linalg.lstsq(targets, spectra - centre)[0]
    rounding = ROUNDING_OF_SPECTRA * np.abs(spectra).max() / (np.linalg.norm(pure) or 1.0)
    back = np.linalg.pinv(pure, rcond=rounding)
    linear = {"reweighted_pls": anew * scale, "cls": back * scale}
    return {"preprocessed_pls": Inverse(constant, slopes)} | {
        key: Inverse(mean - centre @ b, {AS_MEASURED: b}) for key, b in linear.items()
    }
