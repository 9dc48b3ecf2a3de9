"""Decoders: from the features of a geodesic to the spectrum at its target.

A decoder is a perceptron with hidden layers of 64 and 128: 5 -> 64 -> 128 -> 1 on the features of
a geodesic at one wavelength, or 4 -> 64 -> 128 -> r on features averaged over wavelengths. What it
is trained to give, and how a spectrum is made of it, is its task.

Features are standardised. The prediction of a fold is the mean over all training concentrations as
sources and over all members.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from geonode.config import DecodersParameters
from geonode.devices.device import on_device
from geonode.engine.local import Open
from geonode.geodesics.features import FEATURES
from geonode.geometry.perceptron import Perceptron
from geonode.learning.batches import Batch, Fitted, fit_batches
from geonode.learning.checkpoint import Checkpoints, open_checkpoints
from geonode.learning.decoder_tasks import FEATURES_OF_SCORES, MakeTask, without_wavelength
from geonode.learning.early_stopping import WatchedDecoders
from geonode.learning.folds import Fold, Standardisation
from geonode.learning.footprint import of_path_decoders
from geonode.learning.predicted import Predicted
from geonode.learning.run import Run
from geonode.learning.targets import Targets
from geonode.learning.trainer import Watch, last_losses, train, watched_epochs
from geonode.progress import Report
from geonode.spectra.series import Series

HIDDEN = (64, 128)
DECODER_SIZES = (len(FEATURES), *HIDDEN, 1)


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

    def predict(
        self,
        fold: Fold,
        series: Series,  # noqa: ARG002
        features: Float[np.ndarray, "member source target training feature"],
    ) -> Predicted:
        """Mean and covariance over members and sources.

        Args:
            fold: whose decoders.
            series: not looked at: what it says is in the weights.
            features: of the geodesics from the fold's training levels to the targets.
        """
        models = list(range(fold.index, self.network.models, len(self.matrix)))
        scale = FeatureScale(self.features.mean[models], self.features.deviation[models])
        given = torch.from_numpy(features[[m % len(features) for m in range(self.members)]])
        if self.features.mean.shape[1] == len(FEATURES_OF_SCORES):
            given = without_wavelength(given)
        outputs = self.network[models](scale.apply(given.flatten(1, 2).to(scale.mean)))
        outputs = outputs.reshape(*given.shape[:3], -1).transpose(0, 2).flatten(1, 2)
        matrix, offset = (part[fold.index].to(outputs) for part in (self.matrix, self.offset))
        return Predicted.of_draws((outputs @ matrix + offset).double().numpy())

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


def fit_path_decoders(
    series: Series,
    features: Float[np.ndarray, "member fold pair training feature"],
    parameters: DecodersParameters,
    run: Run,
    make_task: MakeTask,
) -> tuple[PathDecoders, Float[Tensor, "epoch term model"]]:
    """Train perceptrons of every (member, fold).

    Args:
        series: the measured series. A fold never reads the spectra that it leaves out.
        features: of all geodesics, at the training wavelengths. Decoder member i walks the geometry
            of member i modulo their number.
        parameters: the block `decoders` of the parameters.
        run: which decoders to train, and where.
        make_task: what they are trained to give.

    Returns:
        The decoders, on the CPU, and the mean squared error (standardised) before every step.

    Raises:
        TrainingError: a loss is not finite, there are fewer training pairs than parts to
            accumulate, or the checkpoints are of another training.
        CorruptArtifactError: a checkpoint is damaged.
    """
    task = make_task(series, parameters, run)
    network, scale, history, _ = _train(series, features, make_task, parameters, run, watched=False)
    errors = last_losses(history).unflatten(0, (run.members, -1)).mean(0).tolist()
    spectra = [task.to_spectrum(fold, error) for fold, error in enumerate(errors)]
    matrix, offset = (torch.from_numpy(np.stack(part)) for part in zip(*spectra, strict=True))
    return PathDecoders(network, scale, matrix, offset), history


def watch_path_decoders(
    series: Series,
    features: Float[np.ndarray, "member fold pair training feature"],
    parameters: DecodersParameters,
    run: Run,
    make_task: MakeTask,
) -> WatchedDecoders:
    """Train perceptrons of folds inside folds, and keep what they say of what is left out.

    Arguments and errors are those of `fit_path_decoders`.
    """
    task = make_task(series, parameters, run)
    _, _, history, seen = _train(series, features, make_task, parameters, run, watched=True)
    epochs = watched_epochs(parameters.epochs)
    errors = history[[epoch - 1 for epoch in epochs], 0].unflatten(1, (run.members, -1)).mean(1)
    return WatchedDecoders(epochs, run.folds, seen, errors.numpy(), task.to_spectrum, series.signal)


def _train(
    series: Series,
    features: Float[np.ndarray, "member fold pair training feature"],
    make_task: MakeTask,
    parameters: DecodersParameters,
    run: Run,
    *,
    watched: bool,
) -> tuple[Perceptron, FeatureScale, Tensor, Tensor]:
    """Train networks to give what is wanted of a pair.

    Returns the networks, their feature scales, the history and, if they are watched, what they
    said of the levels that they leave out (evaluation, member, fold, target, source, output).
    """
    checkpoints = open_checkpoints(parameters, run, [series.signal, features])
    opened = run.engine.shared(features)
    recipe = partial(
        _fitting, series, opened, make_task, parameters, run.alone, checkpoints, watched
    )
    footprint = of_path_decoders(features.shape[3], parameters, run.device)
    network, history, beside = fit_batches(run, features.shape[3], recipe, footprint)
    if checkpoints is not None:
        checkpoints.discard()
    means, deviations, seen = zip(*beside, strict=True)
    scale = FeatureScale(torch.stack(means), torch.stack(deviations))
    said = torch.stack(seen, 1) if watched else torch.empty(0, len(beside))
    return network, scale, history, said.unflatten(1, (run.members, -1))


def _fitting(
    series: Series,
    features: Open,
    make_task: MakeTask,
    parameters: DecodersParameters,
    run: Run,
    checkpoints: Checkpoints | None,
    watched: bool,
) -> Callable[[Batch, Report], Fitted]:
    """What trains the networks of a batch; it gives feature scales and what was said beside."""
    task = make_task(series, parameters, run)
    rows_of = task.rows(features())
    sizes = (rows_of.shape[-1], *HIDDEN, task.outputs)
    device, dtype = run.device.place, run.device.training
    signals = [Standardisation.of(series.signal[fold.training]) for fold in run.folds]

    def read(batch: Batch, pairs: Callable[[Fold], Int[Tensor, "pair"]]) -> Tensor:
        of_model = [
            rows_of[member % len(rows_of), fold.index, pairs(fold)] for member, fold in batch.models
        ]
        return on_device(np.stack(of_model), device, dtype)

    def fit(batch: Batch, report: Report) -> Fitted:
        inputs = read(batch, lambda fold: fold.training_pairs)
        targets = Targets(batch, signals, series, parameters, dtype)
        target = task.target(batch, targets)
        scale = FeatureScale.of(inputs)
        rows = scale.apply(inputs)
        network = run.trainable(batch.initial(sizes, parameters.seed))

        def loss(part: slice, epoch: int) -> Tensor:
            goal = target(part, epoch)
            given = rows.unflatten(1, (targets.pairs, -1))[:, part].flatten(1, 2)
            return (network(given).reshape(goal.shape) - goal).square().mean((1, 2))[None]

        watch = None
        if watched:
            left_out = scale.apply(read(batch, _pairs_to_left_out))
            watch = Watch(lambda: network(left_out))
        history = train(
            [(network, parameters.learning_rate)],
            loss,
            targets.pairs,
            parameters,
            name=batch.name,
            parts=batch.parts,
            report=report,
            checkpoints=checkpoints and checkpoints.of_batch(batch.label),
            epochs=run.epochs and [run.epochs[model.fold.index] for model in batch.models],
            watch=watch,
            repeats=targets.repeat,
        )
        said = [watch and _said(watch, place, m.fold) for place, m in enumerate(batch.models)]
        beside = list(zip(scale.mean.cpu(), scale.deviation.cpu(), said, strict=True))
        return Fitted(network.detached().to(torch.device("cpu"), dtype), history, beside)

    return fit


def _said(watch: Watch, place: int, fold: Fold) -> Tensor:
    """What one of the watched models said (evaluation, target, source, output)."""
    said = torch.stack([outputs[place] for outputs in watch.seen]).cpu()
    return said.reshape(len(said), len(fold.left_out), len(fold.training), -1)


def _pairs_to_left_out(fold: Fold) -> Int[Tensor, "pair"]:
    """Places of the pairs to the levels that a fold leaves out, targets outermost."""
    return torch.cat([fold.prediction_pairs(target) for target in fold.left_out])
