"""Predictions inside every fold, from which weights of kinds and intervals are learned.

The scale of a prediction is s^2 = deviation^2 + r^2 at every wavelength: the variance over members,
sources and kinds, and the mean squared error r^2 of the calibration set, which is predictions of
measured spectra on the same side of the training range. The half widths of the intervals, in units
of s, are quantiles of the ratios |error| / s over the calibration set; s of each of its predictions
leaves out the prediction's own error.

Source: J. Lei, M. G'Sell, A. Rinaldo, R. J. Tibshirani and L. Wasserman, Distribution-free
predictive inference for regression, J. Am. Stat. Assoc. 113 (2018) 1094, section 5 (locally
weighted conformal inference). Here quantiles are over all wavelengths of a few spectra: intervals
cover a share of the points of a spectrum on average, with the uncertainty of a few spectra.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from geonode.learning.folds import Fold
from geonode.learning.predicted import Decoders, PathFeatures
from geonode.posterior.prior import PROBABILITIES
from geonode.spectra.series import Series

SMALLEST_SHARE = 0.01
"""A squared error counts as at least this share of the mean squared error of the best kind, so that
a spectrum that happens to be predicted exactly does not decide alone."""

SMALLEST_CALIBRATION_SET = 3
"""Number of inner levels that suffice to calibrate an interval; with fewer, the ends count too."""


class IntervalCalibration(NamedTuple):
    """Calibration of the intervals of every fold, inside and outside of its training range."""

    residual: Float[np.ndarray, "fold side wavelength"]
    """Mean squared error r^2 of the calibration set (signal squared)."""
    factors: Float[np.ndarray, "fold side probability"]
    """Half widths of the intervals of `PROBABILITIES`, in units of the scale."""


def residual_and_factors(
    errors: Float[np.ndarray, "known wavelength"], deviations: Float[np.ndarray, "known wavelength"]
) -> tuple[Float[np.ndarray, "wavelength"], Float[np.ndarray, "probability"]]:
    """Mean squared error and half widths of a calibration set of two predictions at least."""
    squares = errors**2
    others = [np.delete(squares, place, axis=0).mean(axis=0) for place in range(len(errors))]
    smallest = np.finfo(float).eps * max(float(np.abs(errors).max()), 1e-300)
    scale = np.maximum(np.sqrt(deviations**2 + np.stack(others)), smallest)
    return squares.mean(axis=0), np.quantile(np.abs(errors) / scale, PROBABILITIES)


@dataclass(frozen=True)
class InnerPredictions:
    """Predictions of every fold for its training levels, each left out in turn."""

    series: Series
    predicted: Float[np.ndarray, "kind fold level wavelength"]
    deviation: Float[np.ndarray, "kind fold level wavelength"]
    """Predictions of every kind and their deviations."""
    known: Bool[np.ndarray, "fold level"]  # whether a level has been predicted

    @classmethod
    def of(cls, series: Series, kinds: int, folds: list[Fold]) -> "InnerPredictions":
        """Arrays of the right shape, still without predictions."""
        shape = (kinds, len(folds), *series.signal.shape)
        return cls(series, np.zeros(shape), np.zeros(shape), np.zeros(shape[1:3], dtype=bool))

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
            self.deviation[kind, inside, targets] = predicted.deviation
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

    def calibration(self, folds: list[Fold]) -> IntervalCalibration:
        """Calibration of the intervals of the only kind."""
        errors = self.predicted[0] - self.series.signal
        residual = np.zeros((len(folds), 2, errors.shape[-1]))
        factors = np.zeros((len(folds), 2, len(PROBABILITIES)))
        for fold in folds:
            known = np.flatnonzero(self.known[fold.index]).tolist()
            inside = [level for level in known if fold.without(level).is_inside(level)]
            enough = len(inside) >= SMALLEST_CALIBRATION_SET
            for side, levels in enumerate((inside if enough else known, known)):
                place = (fold.index, levels)
                judged = residual_and_factors(errors[place], self.deviation[0][place])
                residual[fold.index, side], factors[fold.index, side] = judged
        return IntervalCalibration(residual, factors)
