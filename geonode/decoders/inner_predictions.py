"""Predictions inside every fold, from which weights of kinds and intervals are learned."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from geonode.decoders.calibration import Calibration, InnerErrors
from geonode.decoders.kinds import Decoders
from geonode.decoders.predicted import Predicted
from geonode.spectra.series import Series
from geonode.training.folds import Fold

POWER = 2
"""A kind's weight falls with this power of its mean squared error."""


SMALLEST_CALIBRATION_SET = 3
"""Fewest inner levels to calibrate an interval on; with fewer, levels at the ends count as well."""


LeftOut = Callable[[Fold, int], Predicted]
"""Function that predicts a level left out by a fold."""


def left_out_by(
    decoders: Decoders,
    series: Series,
    features: Float[np.ndarray, "member fold pair training feature"] | None,
) -> LeftOut:
    """Function that predicts the left-out levels of folds with some decoders."""

    def predict(fold: Fold, target: int) -> Predicted:
        paths = None if features is None else fold.paths_to(target, features)
        return decoders.predict(fold, series, series.concentrations[[target]], paths)

    return predict


@dataclass(frozen=True)
class InnerPredictions:
    """Predictions of every fold for its training levels, each left out in turn.

    Attributes:
        series: the measured series.
        kinds: names of the kinds.
        predicted, deviation: predictions of every kind and their deviations.
        known: whether a level has been predicted.
    """

    series: Series
    kinds: tuple[str, ...]
    predicted: Float[np.ndarray, "kind fold level wavelength"]
    deviation: Float[np.ndarray, "kind fold level wavelength"]
    known: Bool[np.ndarray, "fold level"]

    @classmethod
    def of(cls, series: Series, kinds: tuple[str, ...], folds: list[Fold]) -> "InnerPredictions":
        """Arrays of the right shape, still without predictions."""
        shape = (len(kinds), len(folds), *series.signal.shape)
        known = np.zeros(shape[1:3], dtype=bool)
        return cls(series, kinds, np.zeros(shape), np.zeros(shape), known)

    def enter(self, kind: str, folds: list[Fold], left_out: LeftOut) -> None:
        """Enter the predictions of one kind.

        Args:
            kind: one of `kinds`.
            folds: folds with two levels left out, each of which is predicted inside the fold
                without the other; or with one, predicted inside the fold that leaves nothing out.
            left_out: function that predicts a left-out level.
        """
        place, whole = self.kinds.index(kind), len(self.known) - 1
        for fold in folds:
            for target in fold.left_out:
                others = [level for level in fold.left_out if level != target]
                at = (others[0] if others else whole, target)
                predicted = left_out(fold, target)
                self.predicted[place, *at] = predicted.spectra[0]
                self.deviation[place, *at] = predicted.deviation[0]
                self.known[at] = True

    def weights(self, folds: list[Fold]) -> Float[np.ndarray, "fold side kind"]:
        """Weights of the kinds for targets inside and outside of the training range."""
        return np.stack([self._weights(fold) for fold in folds])

    def calibration(
        self, folds: list[Fold], weights: Float[np.ndarray, "fold side kind"]
    ) -> tuple[Calibration, InnerErrors]:
        """Calibration of the intervals of predictions with these weights, and its errors."""
        fewest, levels = SMALLEST_CALIBRATION_SET, len(self.series.concentrations)
        every_error = np.zeros((len(folds), *self.series.signal.shape))
        calibration_set = np.zeros((len(folds), 2, levels), dtype=bool)
        calibrations = []
        for fold in folds:
            known = self._levels(fold, outside=True)
            inside = self._levels(fold, outside=False)
            spectra, deviation = self._blended(fold, known, weights[fold.index])
            errors = spectra - self.series.signal[known]
            sides = (inside if len(inside) >= fewest else known, known)
            calibrations.append(
                [Calibration.of(errors, deviation, [known.index(k) for k in s]) for s in sides]
            )
            every_error[fold.index, known] = errors
            for side, chosen in enumerate(sides):
                calibration_set[fold.index, side, chosen] = True
        return Calibration.stack(calibrations), InnerErrors(every_error, calibration_set)

    def _levels(self, fold: Fold, *, outside: bool) -> list[int]:
        """Levels whose errors count for targets inside or outside of a fold's training range."""
        known = np.flatnonzero(self.known[fold.index]).tolist()
        inside = [level for level in known if fold.without(level).is_inside(level)]
        return known if outside or not inside else inside

    def _squared_errors(self, fold: Fold, levels: list[int]) -> np.ndarray:
        """Squared errors by kind, level and wavelength."""
        return (self.predicted[:, fold.index, levels] - self.series.signal[levels]) ** 2

    def _weights(self, fold: Fold) -> np.ndarray:
        """Weights of the kinds by their mean squared error on each side."""
        sides = []
        for outside in (False, True):
            levels = self._levels(fold, outside=outside)
            errors = self._squared_errors(fold, levels).mean((1, 2))
            smallest = max(errors.min(), np.finfo(float).tiny)
            weights = (np.maximum(errors, smallest) / smallest) ** -POWER
            sides.append(weights / weights.sum())
        return np.stack(sides)

    def _blended(
        self, fold: Fold, levels: list[int], weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and deviation of the weighted kinds inside a fold, by the weights of each side."""
        parts = []
        for level in levels:
            side = int(not fold.without(level).is_inside(level))
            spectra = self.predicted[:, fold.index, level]
            mean = weights[side] @ spectra
            # The diagonal of the covariance of a mixture: see `mixture`.
            squares = self.deviation[:, fold.index, level] ** 2 + (spectra - mean) ** 2
            parts.append((mean, np.sqrt(weights[side] @ squares)))
        means, deviations = zip(*parts, strict=True)
        return np.stack(means), np.stack(deviations)
