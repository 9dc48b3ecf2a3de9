"""Decoders: from the features of a geodesic to the signal at its target.

A decoder is a perceptron 5 -> 64 -> 128 -> 1 on standardised path features. It is trained on
evenly spaced wavelengths. Its predictions there are read as noisy samples of a spectrum that varies
like the fold's training spectra, with the decoder's own training error as the noise, which gives
the spectrum at all wavelengths. The prediction of a fold is the mean over all training
concentrations as sources and over all members.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from geonode.config import DecodersParameters
from geonode.devices.device import on_device
from geonode.errors import ArtifactError, CorruptArtifactError
from geonode.geodesics.features import FEATURES
from geonode.geometry.perceptron import Perceptron
from geonode.learning.batches import Batch, fit_batches
from geonode.learning.checkpoint import open_checkpoints
from geonode.learning.folds import Standardisation, leave_one_out, training_wavelengths
from geonode.learning.trainer import train
from geonode.progress import Report, silent
from geonode.storage.weights import read_weights, write_weights

DECODER_SIZES = (len(FEATURES), 64, 128, 1)
SMALLEST_NOISE = 1e-10  # variance of the standardised signal; keeps the lift solvable


@dataclass(frozen=True)
class FeatureScale:
    """Mean and deviation of every feature over the training pairs and wavelengths of a model."""

    mean: Float[Tensor, "model feature"]
    deviation: Float[Tensor, "model feature"]

    @classmethod
    def of(cls, features: Float[Tensor, "model pair wavelength feature"]) -> "FeatureScale":
        """From the training features; a constant feature keeps deviation 1."""
        rows = features.flatten(1, 2)
        deviation, mean = torch.std_mean(rows, dim=1, correction=0)
        tiny = torch.finfo(rows.dtype).eps * (1 + mean.abs())
        return cls(mean, torch.where(deviation > tiny, deviation, 1.0))

    def apply(
        self, features: Float[Tensor, "model pair wavelength feature"]
    ) -> Float[Tensor, "model row feature"]:
        """Standardised features, one row for every pair and wavelength."""
        return (
            (features.flatten(1, 2) - self.mean[:, None]) / self.deviation[:, None]
        ).contiguous()


@dataclass(frozen=True)
class PathDecoders:
    """Trained decoders of every (member, fold), with all that a prediction needs.

    Attributes:
        network: decoders in the order (member, fold).
        features: their feature scales, in the same order.
        signals: the scale of the signal, for every fold.
        wavelengths: indices of the training wavelengths.
        lift: from a signal at the training wavelengths to all of them, standardised, by fold.
    """

    network: Perceptron
    features: FeatureScale
    signals: list[Standardisation]
    wavelengths: Int[Tensor, "training"]
    lift: Float[Tensor, "fold training wavelength"]

    @property
    def members(self) -> int:
        """Decoders of every fold."""
        return self.network.models // len(self.signals)

    def predict(
        self, fold: int, features: Float[Tensor, "member source wavelength feature"]
    ) -> Float[Tensor, "member source wavelength"]:
        """Spectra at a target, one for every member and source concentration.

        Args:
            fold: index of the fold.
            features: of the geodesics from the sources to the target, at all wavelengths, for the
                geometry of each decoder member.
        """
        models = list(range(fold, self.network.models, len(self.signals)))
        scale = FeatureScale(self.features.mean[models], self.features.deviation[models])
        at_training = features[:, :, self.wavelengths]
        values = self.network[models](scale.apply(at_training.to(scale.mean)))
        scaled = values.reshape(at_training.shape[:-1]) @ self.lift[fold].to(values)
        return scaled * self.signals[fold].deviation + self.signals[fold].mean

    def left_out(
        self,
        spectra: Float[np.ndarray, "level wavelength"],  # noqa: ARG002
        features: Float[np.ndarray, "member fold pair wavelength feature"],
    ) -> tuple[Float[np.ndarray, "level wavelength"], Float[np.ndarray, "level wavelength"]]:
        """Prediction of every level by the fold that left it out, and its spread.

        The mean and the standard deviation over sources and members.

        Args:
            spectra: not looked at: what they say is in the weights.
            features: of all geodesics.
        """
        members = [member % len(features) for member in range(self.members)]
        means, spreads = [], []
        for fold in leave_one_out(len(self.signals) - 1)[:-1]:
            pairs = fold.prediction_pairs(fold.index)
            of_fold = features[:, fold.index][:, pairs][members]
            predicted = self.predict(fold.index, torch.from_numpy(of_fold)).flatten(0, 1)
            means.append(predicted.mean(0).numpy())
            spreads.append(predicted.std(0).numpy())
        return np.stack(means), np.stack(spreads)

    def require_series(self, path: Path, levels: int, wavelengths: int) -> None:
        """Refuse decoders of another series than the one at hand.

        Raises:
            ArtifactError: naming the artifact.
        """
        found = (len(self.signals) - 1, self.lift.shape[2])
        if found != (levels, wavelengths):
            raise ArtifactError(
                f"{path}: holds decoders of {found[0]} levels at {found[1]} wavelengths, but the "
                f"spectra have {levels} at {wavelengths}; run `dvc repro`"
            )

    def write(self, path: Path) -> None:
        """Write as an artifact.

        Raises:
            ArtifactError: it cannot be written; an older one is then intact.
        """
        leading = (self.members, len(self.signals))
        scales = [[signal.mean, signal.deviation] for signal in self.signals]
        tensors = {
            **self.network.tensors("decoder", *leading),
            "feature_mean": self.features.mean.unflatten(0, leading),
            "feature_deviation": self.features.deviation.unflatten(0, leading),
            "signal_scale": torch.tensor(scales, dtype=torch.float64),
            "wavelengths": self.wavelengths,
            "lift": self.lift,
        }
        write_weights(path, tensors, {"kind": "path"})

    @classmethod
    def read(cls, path: Path) -> "PathDecoders":
        """Read what `write` wrote.

        Raises:
            MissingArtifactError, CorruptArtifactError: there is none, it is damaged, or it holds
                no decoders.
        """
        tensors, _ = read_weights(path)
        try:
            scale = FeatureScale(
                tensors["feature_mean"].flatten(0, 1), tensors["feature_deviation"].flatten(0, 1)
            )
            signals = [Standardisation(*pair) for pair in tensors["signal_scale"].tolist()]
            return cls(
                Perceptron.from_tensors("decoder", tensors),
                scale,
                signals,
                tensors["wavelengths"],
                tensors["lift"],
            )
        except KeyError as error:
            raise CorruptArtifactError(path, f"holds no decoders: {error} is absent") from error


def fit_decoders(
    spectra: Float[np.ndarray, "level wavelength"],
    features: Float[np.ndarray, "member fold pair wavelength feature"],
    parameters: DecodersParameters,
    *,
    device: torch.device,
    dtype: torch.dtype,
    report: Report = silent,
    scratch: Path | None = None,
) -> tuple[PathDecoders, Float[Tensor, "epoch term model"]]:
    """Train the decoders of every (member, fold).

    Args:
        spectra: the measured series, levels ascending. Fold k never reads row k.
        features: of all geodesics. Decoder member i walks the geometry of member i modulo their
            number.
        parameters: the block `decoders` of the parameters.
        device: where to train.
        dtype: format to train in.
        report: told of every step.
        scratch: folder of this training's checkpoints, removed when it is done; None for none.

    Returns:
        The decoders, on the CPU, and the mean squared error (standardised) before every step.

    Raises:
        TrainingError: a loss is not finite, there are fewer training pairs than parts to
            accumulate, or the checkpoints are of another training.
        CorruptArtifactError: a checkpoint is damaged.
    """
    folds = leave_one_out(len(spectra))
    signals = [Standardisation.of(spectra[fold.training]) for fold in folds]
    chosen = training_wavelengths(spectra.shape[1], parameters.wavelengths)
    scales: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
    checkpoints = open_checkpoints(scratch, parameters, device, dtype, [spectra, features])

    def fit(batch: Batch) -> tuple[Perceptron, Tensor]:
        of_model = [
            features[member % len(features), fold.index, fold.training_pairs][:, chosen]
            for member, fold in batch.models
        ]
        inputs = on_device(np.stack(of_model), device, dtype)
        targets = batch.signals(signals, spectra[:, chosen], dtype)
        scale = FeatureScale.of(inputs)
        rows = scale.apply(inputs)
        network = batch.initial(DECODER_SIZES, parameters.seed).to(device, dtype).trainable()

        def loss(part: slice) -> Tensor:
            wanted = targets[:, part]
            read = rows.unflatten(1, targets.shape[1:])[:, part].flatten(1, 2)
            return (network(read).reshape(wanted.shape) - wanted).square().mean((1, 2))[None]

        history = train(
            [(network, parameters.learning_rate)],
            loss,
            targets.shape[1],
            parameters,
            name=batch.name,
            report=report,
            checkpoints=checkpoints and checkpoints.of_batch(batch.label),
        )
        for place, (member, fold) in enumerate(batch.models):
            scales[member, fold.index] = (scale.mean[place].cpu(), scale.deviation[place].cpu())
        return network.detached().to(torch.device("cpu"), dtype), history

    network, history = fit_batches(parameters.members, len(spectra), len(chosen), device, fit)
    if checkpoints is not None:
        checkpoints.discard()
    ordered = [scales[member, fold.index] for member in range(parameters.members) for fold in folds]
    errors = history[-1, 0].unflatten(0, (parameters.members, -1)).mean(0).tolist()
    lifts = [
        lift(signal.apply(spectra[fold.training]), chosen, max(error, SMALLEST_NOISE))
        for fold, signal, error in zip(folds, signals, errors, strict=True)
    ]
    return PathDecoders(
        network,
        FeatureScale(*(torch.stack(parts) for parts in zip(*ordered, strict=True))),
        signals,
        torch.from_numpy(chosen),
        torch.from_numpy(np.stack(lifts)).to(dtype),
    ), history


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
