"""Decoders: from the features of a geodesic to the spectrum at its target.

There are two. One is a perceptron 5 -> 64 -> 128 -> 1 on the features of a geodesic at one
wavelength; it gives the signal there. It is trained on evenly spaced wavelengths. Its predictions
are read as noisy samples of a spectrum that varies like the fold's training spectra, with the
decoder's own training error as the noise, which gives the spectrum at all wavelengths. The other is
a perceptron 4 -> 64 -> 128 -> r on features averaged over wavelengths; it gives the whole spectrum
at once, as scores on the r singular vectors of the training spectra about their mean.

Features are standardised. The prediction of a fold is the mean over all training concentrations as
sources and over all members.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from geonode.config import DecodersParameters
from geonode.devices.device import on_device
from geonode.errors import TrainingError
from geonode.geodesics.features import FEATURES
from geonode.geometry.perceptron import Perceptron
from geonode.learning.batches import Batch, fit_batches
from geonode.learning.checkpoint import open_checkpoints
from geonode.learning.folds import Fold, Standardisation, training_wavelengths
from geonode.learning.run import Run
from geonode.learning.targets import Targets
from geonode.learning.trainer import train
from geonode.spectra.series import Series

HIDDEN = (64, 128)
DECODER_SIZES = (len(FEATURES), *HIDDEN, 1)
FEATURES_OF_SCORES = FEATURES[:-1]  # all but the wavelength
RANK_TOLERANCE = 1e-10  # of singular values, relative to the largest and to the signal
SMALLEST_NOISE = 1e-10  # variance of the standardised signal; keeps the lift solvable


Target = Callable[[slice, int], Float[Tensor, "model pair output"]]
"""What is wanted of some training pairs in an epoch."""


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
        matrix: from what the decoders of a fold give to a spectrum, but for the offset.
        offset: what is to be added.
    """

    network: Perceptron
    features: FeatureScale
    matrix: Float[Tensor, "fold output wavelength"]
    offset: Float[Tensor, "fold wavelength"]

    @property
    def members(self) -> int:
        """Decoders of every fold."""
        return self.network.models // len(self.matrix)

    def first(self, members: int) -> "PathDecoders":
        """Those of the first members alone."""
        models = slice(0, members * len(self.matrix))
        scale = FeatureScale(self.features.mean[models], self.features.deviation[models])
        return PathDecoders(self.network[models], scale, self.matrix, self.offset)

    def from_sources(
        self, fold: int, features: Float[Tensor, "member source training feature"]
    ) -> Float[Tensor, "member source wavelength"]:
        """Spectra at a target, one for every member and source concentration.

        Args:
            fold: index of the fold.
            features: of the geodesics from the sources to the target, for the geometry of each
                decoder member.
        """
        models = list(range(fold, self.network.models, len(self.matrix)))
        scale = FeatureScale(self.features.mean[models], self.features.deviation[models])
        if self.features.mean.shape[1] == len(FEATURES_OF_SCORES):
            features = without_wavelength(features)
        outputs = self.network[models](scale.apply(features.to(scale.mean)))
        spectra = outputs.reshape(*features.shape[:2], -1) @ self.matrix[fold].to(outputs)
        return spectra + self.offset[fold].to(outputs)

    def predict(
        self,
        fold: Fold,
        target: int,
        series: Series,  # noqa: ARG002
        features: Float[np.ndarray, "member fold pair training feature"],
    ) -> tuple[Float[np.ndarray, "wavelength"], Float[np.ndarray, "wavelength"]]:
        """Prediction of a level by a fold, and its standard deviation over sources and members.

        Args:
            fold: one that leaves the level out.
            target: index of the level.
            series: not looked at: what it says is in the weights.
            features: of all geodesics.
        """
        members = [member % len(features) for member in range(self.members)]
        of_target = features[:, fold.index][:, fold.prediction_pairs(target)][members]
        predicted = self.from_sources(fold.index, torch.from_numpy(of_target)).flatten(0, 1)
        return predicted.mean(0).numpy(), predicted.std(0).numpy()

    def tensors(self) -> dict[str, Shaped[Tensor, "..."]]:
        """All that an artifact has to keep, by name."""
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
        """The decoders that `tensors` wrote down.

        Raises:
            KeyError: a tensor is absent.
        """
        scale = FeatureScale(
            tensors["feature_mean"].flatten(0, 1), tensors["feature_deviation"].flatten(0, 1)
        )
        network = Perceptron.from_tensors("decoder", tensors)
        return cls(network, scale, tensors["matrix"], tensors["offset"])


def fit_decoders(
    series: Series,
    features: Float[np.ndarray, "member fold pair training feature"],
    parameters: DecodersParameters,
    run: Run,
) -> tuple[PathDecoders, Float[Tensor, "epoch term model"]]:
    """Train decoders onto the signal at the training wavelengths, for every (member, fold).

    Args:
        series: the measured series. A fold never reads the spectra that it leaves out.
        features: of all geodesics, at the training wavelengths. Decoder member i walks the geometry
            of member i modulo their number.
        parameters: the block `decoders` of the parameters.
        run: which decoders to train, and where.

    Returns:
        The decoders, on the CPU, and the mean squared error (standardised) before every step.

    Raises:
        TrainingError: a loss is not finite, there are fewer training pairs than parts to
            accumulate, or the checkpoints are of another training.
        CorruptArtifactError: a checkpoint is damaged.
    """

    def wanted(batch: Batch, signals: Targets) -> Target:  # noqa: ARG001
        return signals.at

    network, scale, history = _train(series, features, (1, wanted), parameters, run)
    errors = history[-1, 0].unflatten(0, (run.members, -1)).mean(0).tolist()
    chosen = training_wavelengths(len(series.axis), parameters.wavelengths)
    matrices, offsets = [], []
    for fold, error in zip(run.folds, errors, strict=True):
        spectra = series.signal[fold.training]
        signal = Standardisation.of(spectra)
        lifted = lift(signal.apply(spectra), chosen, max(error, SMALLEST_NOISE))
        matrices.append(torch.from_numpy(lifted * signal.deviation))
        offsets.append(torch.full((len(series.axis),), signal.mean, dtype=torch.float64))
    return PathDecoders(network, scale, torch.stack(matrices), torch.stack(offsets)), history


def fit_score_decoders(
    series: Series,
    features: Float[np.ndarray, "member fold pair training feature"],
    parameters: DecodersParameters,
    run: Run,
) -> tuple[PathDecoders, Float[Tensor, "epoch term model"]]:
    """Train decoders onto the singular scores of the training spectra, for every (member, fold).

    The scores are those at the training wavelengths; a training spectrum is the mean and its scores
    times the basis, exactly, at all wavelengths. Arguments, results and errors are those of
    `fit_decoders`.
    """
    outputs = len(series.concentrations) - 1
    chosen = training_wavelengths(len(series.axis), parameters.wavelengths)
    scores = [ScoreBasis.of(series.signal[f.training], chosen, outputs) for f in run.folds]

    def wanted(batch: Batch, signals: Targets) -> Target:
        parts = zip(*(scores[model.fold.index].training for model in batch.models), strict=True)
        projection, centre = (
            on_device(np.stack(part), run.device.place, run.device.training) for part in parts
        )

        def at(pairs: slice, epoch: int) -> Tensor:
            return (signals.at(pairs, epoch) - centre[:, None]) @ projection

        return at

    inputs = without_wavelength(torch.from_numpy(features)).numpy()
    network, scale, history = _train(series, inputs, (outputs, wanted), parameters, run)
    return PathDecoders(
        network,
        scale,
        torch.from_numpy(np.stack([basis.matrix for basis in scores])),
        torch.from_numpy(np.stack([basis.offset for basis in scores])),
    ), history


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


def _train(
    series: Series,
    features: Float[np.ndarray, "member fold pair row feature"],
    task: tuple[int, Callable[[Batch, Targets], Target]],
    parameters: DecodersParameters,
    run: Run,
) -> tuple[Perceptron, FeatureScale, Float[Tensor, "epoch term model"]]:
    """Train networks of so many outputs a row to give what is wanted of a pair."""
    outputs, wanted = task
    sizes = (features.shape[-1], *HIDDEN, outputs)
    device, dtype = run.device.place, run.device.training
    signals = [Standardisation.of(series.signal[fold.training]) for fold in run.folds]
    scales: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
    checkpoints = open_checkpoints(parameters, run, [series.signal, features])

    def fit(batch: Batch) -> tuple[Perceptron, Tensor]:
        of_model = [
            features[member % len(features), fold.index, fold.training_pairs]
            for member, fold in batch.models
        ]
        inputs = on_device(np.stack(of_model), device, dtype)
        targets = Targets(batch, signals, series, parameters, dtype)
        target = wanted(batch, targets)
        scale = FeatureScale.of(inputs)
        rows = scale.apply(inputs)
        network = batch.initial(sizes, parameters.seed).to(device, dtype).trainable()

        def loss(part: slice, epoch: int) -> Tensor:
            goal = target(part, epoch)
            read = rows.unflatten(1, (targets.pairs, -1))[:, part].flatten(1, 2)
            return (network(read).reshape(goal.shape) - goal).square().mean((1, 2))[None]

        history = train(
            [(network, parameters.learning_rate)],
            loss,
            targets.pairs,
            parameters,
            name=batch.name,
            report=run.report,
            checkpoints=checkpoints and checkpoints.of_batch(batch.label),
        )
        for place, (member, fold) in enumerate(batch.models):
            scales[member, fold.index] = (scale.mean[place].cpu(), scale.deviation[place].cpu())
        return network.detached().to(torch.device("cpu"), dtype), history

    network, history = fit_batches(run, features.shape[3], fit)
    if checkpoints is not None:
        checkpoints.discard()
    ordered = [scales[member, fold.index] for member in range(run.members) for fold in run.folds]
    scale = FeatureScale(*(torch.stack(parts) for parts in zip(*ordered, strict=True)))
    return network, scale, history


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
