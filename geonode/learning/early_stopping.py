"""When to stop the training of the perceptrons of a fold, by leave-one-out inside the fold.

The perceptrons of the inner folds are trained to the end, and what they say of the levels that
they leave out is kept now and then. A fold stops where the error of its inner folds was smallest
before it did not fall for some time. The spectrum that the fold itself leaves out takes no part:
the perceptrons that leave j and k out are judged by j for the fold without k, and by k for the fold
without j.

Source: L. Prechelt, Early stopping - but when?, in Neural Networks: Tricks of the Trade, Springer
1998, with the inner folds as the validation set.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from torch import Tensor

from geonode.learning.folds import Fold
from geonode.learning.predicted import Predicted

ToSpectrum = Callable[
    [int, float], tuple[Float[np.ndarray, "output wavelength"], Float[np.ndarray, "wavelength"]]
]
"""Place of a fold and training error to the matrix and the offset of its spectra."""


@dataclass(frozen=True)
class WatchedDecoders:
    """What perceptrons of inner folds said of the levels that they leave out.

    Attributes:
        epochs: after which they were looked at.
        folds: the inner folds, with two levels left out each.
        outputs: what they said.
        errors: mean squared errors of their training.
        to_spectrum: makes spectra of outputs.
        signal: the measured spectra.
    """

    epochs: list[int]
    folds: list[Fold]
    outputs: Float[Tensor, "evaluation member inner target source output"]
    errors: Float[np.ndarray, "evaluation inner"]
    to_spectrum: ToSpectrum
    signal: Float[np.ndarray, "level wavelength"]

    def evaluations(self, folds: list[Fold], patience: int) -> list[int]:
        """Places among `epochs` where the perceptrons of every fold of leave-one-out stop.

        The fold that leaves nothing out stops by the errors of all inner folds.

        Args:
            folds: of leave-one-out.
            patience: epochs without a smaller error after which a fold looks no further.
        """
        return [
            smallest_before(self._curve(fold.left_out), self.epochs, patience) for fold in folds
        ]

    def stopped(self, evaluations: Sequence[int]) -> "StoppedDecoders":
        """The same perceptrons, each stopped as the fold that it serves."""
        return StoppedDecoders(self, tuple(evaluations))

    def spectra(
        self, evaluation: int, fold: Fold, target: int
    ) -> Float[np.ndarray, "member_and_source wavelength"]:
        """Predictions of a level that an inner fold leaves out, after some epochs.

        Args:
            evaluation: place among `epochs`.
            fold: one of the inner folds.
            target: index of the level.
        """
        matrix, offset = self.to_spectrum(fold.index, float(self.errors[evaluation, fold.index]))
        said = self.outputs[evaluation, :, fold.index, fold.left_out.index(target)]
        return said.flatten(0, 1).double().numpy() @ matrix + offset

    def _curve(self, left_out: tuple[int, ...]) -> list[float]:
        """Mean squared error of the inner folds of a fold, by evaluation."""
        judged = [
            (fold, target)
            for fold in self.folds
            if set(left_out) <= set(fold.left_out)
            for target in fold.left_out
            if target not in left_out
        ]
        return [
            float(
                np.mean(
                    [
                        (self.spectra(evaluation, fold, target).mean(0) - self.signal[target]) ** 2
                        for fold, target in judged
                    ]
                )
            )
            for evaluation in range(len(self.epochs))
        ]


@dataclass(frozen=True)
class StoppedDecoders:
    """Perceptrons of inner folds, each stopped as the fold that it serves.

    Attributes:
        watched: what they said in training.
        evaluations: where the perceptrons of every fold of leave-one-out stop.
    """

    watched: WatchedDecoders
    evaluations: tuple[int, ...]

    def predict(self, fold: Fold, target: int) -> Predicted:
        """Prediction of a level inside the fold that leaves the other one out.

        Args:
            fold: one of the inner folds.
            target: one of the two levels that it leaves out.
        """
        (other,) = (level for level in fold.left_out if level != target)
        spectra = self.watched.spectra(self.evaluations[other], fold, target)
        return Predicted.of_draws(spectra[None])


def smallest_before(errors: Sequence[float], epochs: Sequence[int], patience: int) -> int:
    """Place of the smallest error before one did not fall for so many epochs.

    Args:
        errors: at every evaluation.
        epochs: after which each was made.
        patience: epochs.
    """
    best = 0
    for place, error in enumerate(errors):
        if error < errors[best]:
            best = place
        elif epochs[place] - epochs[best] >= patience:
            break
    return best
