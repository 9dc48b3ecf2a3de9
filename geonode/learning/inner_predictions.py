"""Predictions inside every fold, from which the weights of kinds of decoders are learned."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from geonode.learning.folds import Fold
from geonode.learning.predicted import Decoders, PathFeatures
from geonode.spectra.series import Series

SMALLEST_SHARE = 0.01
"""A squared error counts as at least this share of the mean squared error of the best kind, so that
a spectrum that happens to be predicted exactly does not decide alone."""


@dataclass(frozen=True)
class InnerPredictions:
    """Predictions of every fold for its training levels, each left out in turn."""

    series: Series
    predicted: Float[np.ndarray, "kind fold level wavelength"]
    known: Bool[np.ndarray, "fold level"]  # whether a level has been predicted

    @classmethod
    def of(cls, series: Series, kinds: int, folds: list[Fold]) -> "InnerPredictions":
        """Arrays of the right shape, still without predictions."""
        shape = (kinds, len(folds), *series.signal.shape)
        return cls(series, np.zeros(shape), np.zeros(shape[1:3], dtype=bool))

    def enter(
        self,
        kind: int,
        folds: list[Fold],
        decoders: Decoders,
        features: PathFeatures,
    ) -> None:
        """Enter the predictions of one kind.

        Args:
            kind: place of the kind.
            folds: folds with two levels left out, each of which is predicted inside the fold
                without the other; or with one, predicted inside the fold that leaves nothing out.
            decoders: decoders of these folds.
            features: of all geodesics of these folds; None for kinds that use none.
        """
        whole = len(self.known) - 1
        found = decoders.predict_left_out(folds, self.series, features)
        for fold, predicted in zip(folds, found, strict=True):
            targets = list(fold.left_out)
            inside = targets[::-1] if len(targets) > 1 else whole
            self.predicted[kind, inside, targets] = predicted.spectra
            self.known[inside, targets] = True

    def weights(self, odds: Float[np.ndarray, "kind"]) -> Float[np.ndarray, "fold kind"]:
        """Weights of the kinds: their odds, divided by the geometric means of their squared errors.

        Odds are the weights of kinds whose errors are equal.
        """
        squares = ((self.predicted - self.series.signal) ** 2).mean(3)
        found = []
        for known, of_kinds in zip(self.known, squares.swapaxes(0, 1), strict=True):
            errors = of_kinds[:, known]
            smallest = max(SMALLEST_SHARE * errors.mean(1).min(), np.finfo(float).tiny)
            logarithms = np.log(np.maximum(errors, smallest)).mean(1)
            weights = odds * np.exp(logarithms.min() - logarithms)
            found.append(weights / weights.sum())
        return np.stack(found)
