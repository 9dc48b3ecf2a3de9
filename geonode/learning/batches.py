"""Which models are trained side by side.

A model is a (member, fold). Models with equally many training pairs are stacked along a leading
dimension and trained by one program. Stacking all of them is right for an accelerator. On a CPU a
few at a time keep their activations in cache; there each core takes a batch of its own, with one
thread, so that the number of cores changes the time and not a bit of the result.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from geonode.devices.device import on_device, one_thread
from geonode.geodesics.problem import ordered_pairs
from geonode.geometry.perceptron import Perceptron
from geonode.learning.folds import Fold, Standardisation, leave_one_out

CPU_BATCH_ROWS = 1_500
ACCELERATOR_BATCH_ROWS = 4_000_000


class Model(NamedTuple):
    """One member of one fold."""

    member: int
    fold: Fold


class Batch(NamedTuple):
    """Models to train side by side, and what they are trained to join.

    Attributes:
        models: the models.
        source, target: level indices of the training pairs of every model.
    """

    models: list[Model]
    source: Int[Tensor, "model pair"]
    target: Int[Tensor, "model pair"]

    @property
    def label(self) -> str:
        """Name of a folder for what belongs to these models."""
        ends = (self.models[0], self.models[-1])
        return "-to-".join(f"member{model.member}-fold{model.fold.index}" for model in ends)

    def name(self, place: int) -> str:
        """What a message calls one of the models."""
        member, fold = self.models[place]
        return f"member {member} of fold {fold.index}"

    def initial(self, sizes: tuple[int, ...], *seed: int) -> Perceptron:
        """Networks whose first weights depend on seed, member and fold alone."""
        seeds = [(*seed, model.member, model.fold.index) for model in self.models]
        return Perceptron.initial(sizes, seeds)

    def signals(
        self,
        scales: list[Standardisation],
        spectra: Float[np.ndarray, "level training"],
        dtype: torch.dtype,
    ) -> Float[Tensor, "model pair training"]:
        """Standardised signal at the target of every training pair.

        Args:
            scales: of every fold.
            spectra: at the training wavelengths.
            dtype: of the result.
        """
        scaled = [scales[model.fold.index].apply(spectra) for model in self.models]
        every = on_device(np.stack(scaled), self.target.device, dtype)
        return every.gather(1, self.target[..., None].expand(-1, -1, every.shape[2]))


def fit_batches(
    members: int,
    levels: int,
    rows_per_pair: int,
    device: torch.device,
    fit: Callable[[Batch], tuple[Perceptron, Float[Tensor, "epoch term model"]]],
) -> tuple[Perceptron, Float[Tensor, "epoch term model"]]:
    """Fit every (member, fold) batch by batch and return all models in the order (member, fold).

    Args:
        members: models of every fold.
        levels: of the series; there is a fold for each and one that leaves nothing out.
        rows_per_pair: network rows that one training pair costs in one step.
        device: where the training runs.
        fit: trains the models of a batch side by side; returns their networks and loss terms.
    """
    batches = _batches(members, leave_one_out(levels), rows_per_pair, device)
    if device.type == "cpu":
        with one_thread(), ThreadPoolExecutor(os.cpu_count()) as cores:
            fitted = list(cores.map(fit, batches))
    else:
        fitted = [fit(batch) for batch in batches]
    networks = [network for network, _ in fitted]
    order = [
        model.member * (levels + 1) + model.fold.index
        for batch in batches
        for model in batch.models
    ]
    places = torch.tensor(order).argsort()
    joined = Perceptron(
        tuple(
            torch.cat(parts)[places] for parts in zip(*(n.weights for n in networks), strict=True)
        ),
        tuple(
            torch.cat(parts)[places] for parts in zip(*(n.biases for n in networks), strict=True)
        ),
    )
    return joined, torch.cat([history for _, history in fitted], dim=-1)[..., places]


def _batches(
    members: int, folds: list[Fold], rows_per_pair: int, device: torch.device
) -> list[Batch]:
    """All models, those with equally many training pairs together, as many as a batch holds."""
    source, target = ordered_pairs(folds[0].levels)
    largest = CPU_BATCH_ROWS if device.type == "cpu" else ACCELERATOR_BATCH_ROWS
    batches = []
    for group in (folds[:-1], folds[-1:]):
        models = [Model(member, fold) for member in range(members) for fold in group]
        size = max(1, largest // (rows_per_pair * len(group[0].training_pairs)))
        for first in range(0, len(models), size):
            part = models[first : first + size]
            pairs = torch.stack([model.fold.training_pairs for model in part])
            batches.append(Batch(part, source[pairs].to(device), target[pairs].to(device)))
    return batches
