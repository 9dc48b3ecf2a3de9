"""Which models are trained side by side.

A model is a (member, fold). Models with equally many training pairs are stacked along a leading
dimension and trained by one program. Stacking all of them is right for an accelerator. On a CPU a
few at a time keep their activations in cache; there each core takes a batch of its own, with one
thread, so that the number of cores changes the time and not a bit of the result.
"""

import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geonode.devices.device import one_thread
from geonode.devices.products import fast_products
from geonode.geodesics.problem import ordered_pairs
from geonode.geometry.perceptron import Perceptron
from geonode.learning.folds import Fold
from geonode.learning.run import Run

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
        left_out = " and ".join(map(str, fold.left_out))
        return f"member {member} of the fold " + (f"without {left_out}" if left_out else "of all")

    def initial(self, sizes: tuple[int, ...], *seed: int) -> Perceptron:
        """Networks whose first weights depend on seed, member and fold alone."""
        return Perceptron.initial(sizes, self.seeds(*seed))

    def seeds(self, *seed: int) -> list[tuple[int, ...]]:
        """One for every model, of seed, member and fold."""
        return [(*seed, model.member, *model.fold.seed) for model in self.models]


def fit_batches(
    run: Run,
    rows_per_pair: int,
    fit: Callable[[Batch], tuple[Perceptron, Float[Tensor, "epoch term model"]]],
) -> tuple[Perceptron, Float[Tensor, "epoch term model"]]:
    """Fit every (member, fold) batch by batch and return all models in the order (member, fold).

    Args:
        run: which models, and where.
        rows_per_pair: network rows that one training pair costs in one step.
        fit: trains the models of a batch side by side; returns their networks and loss terms.
    """
    batches = _batches(run, rows_per_pair)
    device = run.device
    with fast_products(device.place, tf32=device.rounding == "tf32"):
        if device.kind == "cpu":
            with one_thread(), ThreadPoolExecutor(os.cpu_count()) as cores:
                fitted = list(cores.map(fit, batches))
        else:
            fitted = [fit(batch) for batch in batches]
    networks = [network for network, _ in fitted]
    order = [
        model.member * len(run.folds) + model.fold.index
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


def _batches(run: Run, rows_per_pair: int) -> list[Batch]:
    """All models, those with equally many training pairs together, as many as a batch holds."""
    device = run.device.place
    source, target = ordered_pairs(run.folds[0].levels)
    largest = CPU_BATCH_ROWS if device.type == "cpu" else ACCELERATOR_BATCH_ROWS
    batches = []
    for _, alike in itertools.groupby(run.folds, key=lambda fold: len(fold.left_out)):
        group = list(alike)
        models = [Model(member, fold) for member in range(run.members) for fold in group]
        size = max(1, largest // (rows_per_pair * len(group[0].training_pairs)))
        for first in range(0, len(models), size):
            part = models[first : first + size]
            pairs = torch.stack([model.fold.training_pairs for model in part])
            batches.append(Batch(part, source[pairs].to(device), target[pairs].to(device)))
    return batches
