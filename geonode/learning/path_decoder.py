"""Path decoders: from the features of a geodesic to the spectrum at its target.

A decoder is a perceptron, 5 -> 64 -> 128 -> 1: from the features of a geodesic at one wavelength to
the standardised signal there. It is trained at some wavelengths. Its outputs are treated as noisy
readings of a spectrum that varies like the training spectra of the fold, with its training error as
the noise; `lift` turns them into the spectrum at all wavelengths. With `wavelengths: null` there is
nothing to fill in, and they are the spectrum, as published.

Features are standardised. The prediction of a fold is the mean over all training concentrations as
sources and over all members.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from geonode.compute.device import Device, on_device
from geonode.compute.engine import Open
from geonode.config import DecodersParameters
from geonode.errors import TrainingError
from geonode.geometry.perceptron import Perceptron
from geonode.learning.batches import Batch, Footprint, bytes_of_row
from geonode.learning.context import TrainingRun
from geonode.learning.folds import Fold, Standardisation, training_wavelengths
from geonode.learning.objective import Prepared, fit, squared_error
from geonode.learning.path_features import DECODER_SIZES, FeatureScale
from geonode.learning.predicted import Decoders, PathFeatures, Predicted
from geonode.spectra.series import Series

SMALLEST_NOISE = 1e-10  # variance of the standardised signal; keeps the lift solvable
# Numbers per row in a step: raw and standardised features (5 each), the target; the standardised
# features again, output, difference and square, and the gradients of the last three.
OF_PAIR = 22


@dataclass(frozen=True)
class PathDecoders(Decoders):
    """Trained decoders of every (member, fold)."""

    network: Perceptron  # decoders in the order (member, fold)
    features: FeatureScale  # feature scales in the same order
    matrix: Float[Tensor, "fold output wavelength"]
    """Matrix from the outputs of the decoders of a fold to a spectrum without the offset."""
    offset: Float[Tensor, "fold wavelength"]  # offset of the spectra

    @property
    def members(self) -> int:
        """Number of decoders per fold."""
        return self.network.models // len(self.matrix)

    @classmethod
    def fit(
        cls,
        series: Series,
        features: PathFeatures,
        parameters: DecodersParameters,
        run: TrainingRun,
    ) -> "tuple[PathDecoders, Float[Tensor, 'epoch term model']]":
        """Train perceptrons of every (member, fold), as by `Decoders.fit`.

        Decoder i of a fold uses metric i modulo the number of metrics.
        """
        objective = PathDecoding.of(series, _walked(features), parameters, run)
        network, history = fit(objective, run)
        errors = history[-1].sum(0).unflatten(0, (run.members, -1)).mean(0).tolist()
        matrices, offsets = [], []
        for fold, error in zip(run.folds, errors, strict=True):
            known = series.signal[fold.training]
            signal = Standardisation.of(known)
            lifted, noise = np.eye(known.shape[1]), max(error, SMALLEST_NOISE)
            if parameters.wavelengths is not None:
                lifted = lift(signal.apply(known), objective.chosen, noise)
            matrices.append(lifted * signal.deviation)
            offsets.append(np.full(known.shape[1], signal.mean))
        matrix, offset = (torch.from_numpy(np.stack(part)) for part in (matrices, offsets))
        return cls(network, objective.scale, matrix, offset), history

    def predict(
        self,
        fold: Fold,
        series: Series,  # noqa: ARG002
        concentrations: Float[np.ndarray, "target"],  # noqa: ARG002
        features: Float[np.ndarray, "member source target training feature"] | None,
    ) -> Predicted:
        """Mean and covariance over members and sources.

        Arguments are those of `Decoders.predict`; the decoders were trained on the series, and the
        geodesics end at the concentrations.

        Raises:
            TrainingError: there are no features.
        """
        walked = _walked(features)
        models = list(range(fold.index, self.network.models, len(self.matrix)))
        scale = self.features[models]
        given = torch.from_numpy(walked[[m % len(walked) for m in range(self.members)]])
        outputs = self.network[models](scale.apply(given.flatten(1, 2).to(scale.mean)))
        outputs = outputs.reshape(*given.shape[:3], -1).transpose(0, 2).flatten(1, 2)
        matrix, offset = (part[fold.index].to(outputs) for part in (self.matrix, self.offset))
        return Predicted.of_draws((outputs @ matrix + offset).double().numpy())

    def tensors(self) -> dict[str, Shaped[Tensor, "..."]]:
        """Tensors to store, by name."""
        leading = (self.members, len(self.matrix))
        return {
            **self.network.tensors("decoder", *leading),
            "feature_mean": self.features.mean.unflatten(0, leading),
            "feature_deviation": self.features.deviation.unflatten(0, leading),
            "matrix": self.matrix,
            "offset": self.offset,
        }

    @classmethod
    def from_tensors(cls, tensors: dict[str, Shaped[Tensor, "..."]]) -> "PathDecoders":
        """Inverse of `tensors`.

        Raises:
            KeyError: a tensor is absent.
        """
        scale = FeatureScale(
            tensors["feature_mean"].flatten(0, 1), tensors["feature_deviation"].flatten(0, 1)
        )
        network = Perceptron.from_tensors("decoder", tensors)
        return cls(network, scale, tensors["matrix"], tensors["offset"])


def _walked(features: np.ndarray | None) -> np.ndarray:
    if features is None:
        raise TrainingError("path decoders: found no features of geodesics, expected some")
    return features


def lift(
    spectra: Float[np.ndarray, "level wavelength"],
    chosen: Int[np.ndarray, "training"],
    noise: float,
) -> Float[np.ndarray, "training wavelength"]:
    """Matrix from noisy readings at some wavelengths to the whole spectrum.

    The conditional mean of a Gaussian process over wavelength whose covariance is the second moment
    of the training spectra, C = Z^T Z / n: with K the chosen wavelengths, the matrix is (C_KK +
    noise)^-1 C_K. Directions in which the training spectra hardly vary, such as their own noise,
    are damped accordingly. Source: C. E. Rasmussen and C. K. I. Williams, Gaussian Processes for
    Machine Learning, MIT Press 2006, equation 2.23. Spectra are the standardised ones of a fold's
    training; `noise` is the variance of a reading (standardised signal squared).
    """
    covariance = spectra[:, chosen].T @ spectra / len(spectra)
    among_chosen = covariance[:, chosen] + noise * np.eye(len(chosen))
    return np.linalg.solve(among_chosen, covariance)


@dataclass(frozen=True)
class PathDecoding:
    """Objective of path decoders: the squared error at the targets of the training pairs."""

    series: Series
    """The measured series. A fold never reads the spectra that it leaves out."""
    features: Open  # opens the array (member, fold, pair, training wavelength, feature)
    scale: FeatureScale  # of the training features of every model, in the order (member, fold)
    parameters: DecodersParameters  # the block `decoders` of the parameters

    @classmethod
    def of(
        cls,
        series: Series,
        features: Float[np.ndarray, "member fold pair training feature"],
        parameters: DecodersParameters,
        run: TrainingRun,
    ) -> "PathDecoding":
        """Objective of a run; arguments are those of `PathDecoders.fit`."""
        scales = [
            FeatureScale.of(
                torch.from_numpy(
                    features[member % len(features), fold.index, fold.training_pairs][None]
                ).to(run.device.training)
            )
            for member in range(run.members)
            for fold in run.folds
        ]
        mean, deviation = (
            torch.cat(part)
            for part in zip(*((scale.mean, scale.deviation) for scale in scales), strict=True)
        )
        shared = run.engine.shared(features)
        return cls(series, shared, FeatureScale(mean, deviation), parameters)

    @property
    def chosen(self) -> Int[np.ndarray, "training"]:
        """Indices of the training wavelengths."""
        return training_wavelengths(len(self.series.axis), self.parameters.wavelengths)

    def data(self) -> list[Shaped[np.ndarray, "..."]]:
        """Spectra and features."""
        return [self.series.signal, self.features()]

    def footprint(self, device: Device) -> Footprint:
        """Memory of a step."""
        width = self.features().shape[3]
        return Footprint(width, 0, width * bytes_of_row(OF_PAIR, device))

    def prepare(self, batch: Batch, run: TrainingRun) -> Prepared:
        """Decoders of a batch, ready to be trained."""
        device, dtype = run.device.place, run.device.training
        known = self.features()
        features = [
            known[member % len(known), fold.index, fold.training_pairs]
            for member, fold in batch.models
        ]
        models = [member * len(run.folds) + fold.index for member, fold in batch.models]
        given = on_device(np.stack(features), device, dtype)
        network = run.trainable(batch.initial(DECODER_SIZES, self.parameters.seed))
        rows = self.scale[models].to(device).apply(given)
        targets = batch.targets(self.series, self.chosen, dtype)
        rate = self.parameters.learning_rate
        return Prepared([(network, rate)], partial(squared_error, network, rows, targets))
