"""What the perceptrons of path decoders are trained to give, and how a spectrum is made of it.

There are two. One is the signal at the training wavelengths, one number for every geodesic and
wavelength. Its predictions are read as noisy samples of a spectrum that varies like the fold's
training spectra, with the decoder's own training error as the noise, which gives the spectrum at
all wavelengths. The other is all of the spectrum at once, as scores on the singular vectors of the
training spectra about their mean, from features averaged over wavelengths.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from geonode.config import DecodersParameters
from geonode.devices.device import on_device
from geonode.errors import TrainingError
from geonode.geodesics.features import FEATURES
from geonode.learning.batches import Batch
from geonode.learning.folds import Standardisation, training_wavelengths
from geonode.learning.run import Run
from geonode.learning.targets import Targets
from geonode.spectra.series import Series

FEATURES_OF_SCORES = FEATURES[:-1]  # all but the wavelength
RANK_TOLERANCE = 1e-10  # of singular values, relative to the largest and to the signal
SMALLEST_NOISE = 1e-10  # variance of the standardised signal; keeps the lift solvable

Target = Callable[[slice, int], Float[Tensor, "model pair output"]]
"""What is wanted of some training pairs in an epoch."""


@runtime_checkable
class Task(Protocol):
    """What perceptrons are trained to give, and how a spectrum is made of it.

    Attributes:
        outputs: numbers for every row of features.
    """

    outputs: int

    def rows(
        self, features: Float[np.ndarray, "member fold pair training feature"]
    ) -> Float[np.ndarray, "member fold pair row of_row"]:
        """What is read of the features of geodesics."""

    def target(self, batch: Batch, signals: Targets) -> Target:
        """What is wanted of the training pairs of a batch."""

    def to_spectrum(
        self, fold: int, error: float
    ) -> tuple[Float[np.ndarray, "output wavelength"], Float[np.ndarray, "wavelength"]]:
        """From outputs to spectra: a matrix, and what is to be added.

        Args:
            fold: place of the fold.
            error: mean squared error of its models in training.
        """


class SignalTask:
    """The signal at the training wavelengths, which the lift takes to all of them."""

    outputs = 1

    def __init__(self, series: Series, parameters: DecodersParameters, run: Run) -> None:
        self._spectra = [series.signal[fold.training] for fold in run.folds]
        self._chosen = training_wavelengths(len(series.axis), parameters.wavelengths)

    def rows(
        self, features: Float[np.ndarray, "member fold pair training feature"]
    ) -> Float[np.ndarray, "member fold pair row of_row"]:
        """Of every wavelength."""
        return features

    def target(self, batch: Batch, signals: Targets) -> Target:  # noqa: ARG002
        """The standardised signal."""
        return signals.at

    def to_spectrum(
        self, fold: int, error: float
    ) -> tuple[Float[np.ndarray, "output wavelength"], Float[np.ndarray, "wavelength"]]:
        """The lift of readings with that error."""
        spectra = self._spectra[fold]
        signal = Standardisation.of(spectra)
        lifted = lift(signal.apply(spectra), self._chosen, max(error, SMALLEST_NOISE))
        return lifted * signal.deviation, np.full(spectra.shape[1], signal.mean)


class ScoreTask:
    """The singular scores of the training spectra.

    The scores are those at the training wavelengths; a training spectrum is the mean and its scores
    times the basis, exactly, at all wavelengths.
    """

    def __init__(self, series: Series, parameters: DecodersParameters, run: Run) -> None:
        self.outputs = len(series.concentrations) - 1
        self._run = run
        chosen = training_wavelengths(len(series.axis), parameters.wavelengths)
        self._bases = [
            ScoreBasis.of(series.signal[fold.training], chosen, self.outputs) for fold in run.folds
        ]

    def rows(
        self, features: Float[np.ndarray, "member fold pair training feature"]
    ) -> Float[np.ndarray, "member fold pair row of_row"]:
        """Averages over wavelengths."""
        return without_wavelength(torch.from_numpy(features)).numpy()

    def target(self, batch: Batch, signals: Targets) -> Target:
        """The scores of the standardised signal."""
        of_models = [self._bases[model.fold.index].training for model in batch.models]
        device = self._run.device
        projection, centre = (
            on_device(np.stack(part), device.place, device.training)
            for part in zip(*of_models, strict=True)
        )

        def at(pairs: slice, epoch: int) -> Tensor:
            return (signals.at(pairs, epoch) - centre[:, None]) @ projection

        return at

    def to_spectrum(
        self,
        fold: int,
        error: float,  # noqa: ARG002
    ) -> tuple[Float[np.ndarray, "output wavelength"], Float[np.ndarray, "wavelength"]]:
        """The basis, whatever the error."""
        return self._bases[fold].matrix, self._bases[fold].offset


MakeTask = Callable[[Series, DecodersParameters, Run], Task]


class ScoreBasis(NamedTuple):
    """Singular scores of the training spectra of a fold, scaled to a mean square of one.

    Attributes:
        training: from standardised signals at the training wavelengths to scores: the projection
            (training, score), and the centre (training) to be taken off before.
        matrix: from scores to spectra about their mean, (score, wavelength).
        offset: the mean spectrum.
    """

    training: tuple[Float[np.ndarray, "training score"], Float[np.ndarray, "training"]]
    matrix: Float[np.ndarray, "score wavelength"]
    offset: Float[np.ndarray, "wavelength"]

    @classmethod
    def of(
        cls,
        spectra: Float[np.ndarray, "level wavelength"],
        chosen: Int[np.ndarray, "training"],
        outputs: int,
    ) -> "ScoreBasis":
        """From the training spectra of a fold.

        Args:
            spectra: theirs, at all wavelengths.
            chosen: indices of the training wavelengths.
            outputs: number of scores, at least one less than there are spectra; those that there
                are not, and those of rounding errors, are zero.

        Raises:
            TrainingError: a spectrum is not finite.
        """
        signal, offset = Standardisation.of(spectra), spectra.mean(axis=0)
        centred = (spectra - offset) / signal.deviation
        if not np.isfinite(centred).all():
            raise TrainingError("scores: found spectra that are not finite, expected finite ones")
        left, singular, right = np.linalg.svd(centred[:, chosen], full_matrices=False)
        rounding = RANK_TOLERANCE * (1 + float(np.abs(spectra).max()) / signal.deviation)
        kept = singular > max(rounding, RANK_TOLERANCE * singular[0])
        left, singular, right = left[:, kept], singular[kept], right[kept]
        scale = np.sqrt(np.mean(singular**2)) / np.sqrt(len(spectra)) if kept.any() else 1.0
        projection, matrix = np.zeros((len(chosen), outputs)), np.zeros((outputs, len(offset)))
        projection[:, : len(right)] = right.T / scale
        matrix[: len(right)] = (left / singular).T @ (spectra - offset) * scale
        centre = signal.apply(offset[None, chosen])[0]
        return cls((projection, centre), matrix, offset)


def without_wavelength(
    features: Float[Tensor, "*path training feature"],
) -> Float[Tensor, "*path 1 4"]:
    """Features averaged over wavelengths, without the wavelength itself."""
    return features[..., : len(FEATURES_OF_SCORES)].mean(-2, keepdim=True)


def lift(
    spectra: Float[np.ndarray, "level wavelength"],
    chosen: Int[np.ndarray, "training"],
    noise: float,
) -> Float[np.ndarray, "training wavelength"]:
    """Matrix from noisy readings at some wavelengths to the whole spectrum.

    The conditional mean of a Gaussian process over wavelength whose covariance is the second
    moment of the training spectra, C = Z^T Z / n: with K the chosen wavelengths, the matrix is
    (C_KK + noise)^-1 C_K. Directions in which the training spectra hardly vary, such as their
    own noise, are damped accordingly. Source: C. E. Rasmussen and C. K. I. Williams, Gaussian
    Processes for Machine Learning, MIT Press 2006, equation 2.23.

    Args:
        spectra: standardised training spectra of a fold.
        chosen: indices of the wavelengths that are read.
        noise: variance of a reading (standardised signal squared).
    """
    covariance = spectra[:, chosen].T @ spectra / len(spectra)
    among_chosen = covariance[:, chosen] + noise * np.eye(len(chosen))
    return np.linalg.solve(among_chosen, covariance)
