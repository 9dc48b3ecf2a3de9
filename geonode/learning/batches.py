"""Batches of models that are trained side by side, and the memory that they take.

A model is a (member, fold). Models with equally many training pairs are stacked along a leading
dimension and trained by one program. An accelerator takes all of them at once. On a CPU a batch
contains a few, whose activations fit into the cache; each core trains a batch of its own with one
thread, so that the number of cores changes the time but not a bit of the result.

Memory is counted from the arrays that are alive in a step. Every hidden unit stores two numbers per
row, its value and its error, in the format of the products (`geonode.geometry.trainable`); kernels
on a GPU need about as much for gradients. All other numbers of a row are in the format of the
training. Weights, gradients and the moments of Adam, a few ten thousand numbers per model, are left
out, and so is what oneDNN copies to transpose: a number for every unit of the first hidden layer.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from geonode.compute.device import Device, on_device
from geonode.compute.profile import profile_of
from geonode.errors import TrainingError
from geonode.geometry.metric import SIZES
from geonode.geometry.perceptron import Perceptron
from geonode.geometry.problem import ordered_pairs
from geonode.learning.context import TrainingRun
from geonode.learning.folds import Fold, Standardisation
from geonode.spectra.series import Series

HIDDEN_UNITS = sum(SIZES[1:-1])  # of a metric network, and of a decoder


class Footprint(NamedTuple):
    """Memory of a training step of one model."""

    rows: int  # network rows that one training pair takes
    model: int  # bytes independent of the training pairs
    pair: int  # bytes per training pair


def bytes_of_row(numbers: int, device: Device) -> int:
    """Memory of a row of a network: that of its hidden units, and of further numbers."""
    return 2 * HIDDEN_UNITS * device.products.itemsize + numbers * device.training.itemsize


class Model(NamedTuple):
    """One member of one fold."""

    member: int
    fold: Fold


class Batch(NamedTuple):
    """Models to train side by side, with their training pairs."""

    models: list[Model]
    source: Int[Tensor, "model pair"]
    target: Int[Tensor, "model pair"]
    """Level indices of the training pairs of every model."""

    def targets(
        self, series: Series, chosen: Int[np.ndarray, "training"], dtype: torch.dtype
    ) -> Float[Tensor, "model pair training"]:
        """Standardised signals at the targets of the training pairs: what decoders are to give.

        Args:
            series: the measured series. A left-out spectrum is no target of a training pair of its
                fold and takes no part in the standardisation.
            chosen: indices of the training wavelengths.
            dtype: format of the signals.
        """
        measured = [
            Standardisation.of(series.signal[model.fold.training]).apply(series.signal[:, chosen])
            for model in self.models
        ]
        targets = self.target[..., None].expand(-1, -1, len(chosen))
        return on_device(np.stack(measured), self.target.device, dtype).gather(1, targets)

    @property
    def label(self) -> str:
        """Name of the checkpoint of these models."""
        ends = (self.models[0], self.models[-1])
        return "-to-".join(f"member{model.member}-fold{model.fold.index}" for model in ends)

    def name(self, place: int) -> str:
        """Name of a model in messages."""
        member, fold = self.models[place]
        left_out = " and ".join(map(str, fold.left_out))
        return f"member {member} of the fold " + (f"without {left_out}" if left_out else "of all")

    def initial(self, sizes: tuple[int, ...], *seed: int) -> Perceptron:
        """Networks whose first weights depend on seed, member and fold alone."""
        seeds = [(*seed, model.member, *model.fold.seed) for model in self.models]
        return Perceptron.initial(sizes, seeds)


class TrainedModels(NamedTuple):
    """Trained models."""

    network: Perceptron  # the trained networks, on the CPU
    history: Float[Tensor, "epoch term model"]  # terms of their losses before every step


def in_model_order(batches: list[Batch], fitted: list[TrainedModels]) -> TrainedModels:
    """Models of all batches in the order (member, fold)."""
    models = [model for batch in batches for model in batch.models]
    order = sorted(range(len(models)), key=lambda k: (models[k].member, models[k].fold.index))
    networks = [part.network for part in fitted]
    network = Perceptron(
        tuple(map(torch.cat, zip(*(one.weights for one in networks), strict=True))),
        tuple(map(torch.cat, zip(*(one.biases for one in networks), strict=True))),
    )
    history = torch.cat([part.history for part in fitted], dim=-1)
    return TrainedModels(network[order], history[..., order])


def batches_of(run: TrainingRun, footprint: Footprint) -> list[Batch]:
    """Batches of all models; the models of a batch have equally many training pairs.

    Raises:
        TrainingError: not even one model fits into the memory of the device.
    """
    device, profile = run.device.place, profile_of(run.device.place)
    memory = run.device.budget
    source, target = ordered_pairs(run.folds[0].levels)
    batches = []
    for _, alike in itertools.groupby(run.folds, key=lambda fold: len(fold.left_out)):
        group = list(alike)
        models = [Model(member, fold) for member in range(run.members) for fold in group]
        count = len(group[0].training_pairs)
        least = footprint.model + footprint.pair * count
        if memory < least:
            raise TrainingError(
                f"memory_mb: found {memory / 1e6:.3g} MB for every batch, expected at least the "
                f"{least / 1e6:.3g} MB of one model; raise memory_mb, or lower the number of "
                "wavelengths"
            )
        largest = max(1, min(profile.batch_rows // (footprint.rows * count), memory // least))
        parts = math.ceil(len(models) / largest)
        if device.type == "cpu":
            # Even, so that two cores are busy to the end. The number of cores itself does not
            # count: a model in another batch is rounded otherwise.
            parts = min(len(models), parts + parts % 2)
        ends = [part * len(models) // parts for part in range(parts + 1)]
        for first, last in itertools.pairwise(ends):
            part = models[first:last]
            pairs = torch.stack([model.fold.training_pairs for model in part])
            batches.append(Batch(part, source[pairs].to(device), target[pairs].to(device)))
    return batches
