"""Objectives of a training, and `fit`, which minimises them: from folds to weights.

An objective (`end_to_end.EndToEnd`, `path_decoder.PathDecoding`) defines networks, data and loss.
`fit` divides the models of a run into batches (`batches`), sends the objective to the process that
trains one, where it prepares the networks, and trains them (`trainer`).
"""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Shaped
from torch import Tensor

from geonode.compute.device import CPU, Device
from geonode.compute.engine import LOCAL
from geonode.compute.products import fast_products
from geonode.compute.profile import profile_of
from geonode.config import TrainingParameters
from geonode.geometry.trainable import TrainablePerceptron
from geonode.learning.batches import (
    Batch,
    Footprint,
    TrainedModels,
    batches_of,
    in_model_order,
)
from geonode.learning.checkpoint import Checkpoints, open_checkpoints
from geonode.learning.context import TrainingRun
from geonode.learning.trainer import train
from geonode.progress import Progress, silent


@dataclass
class Prepared(ABC):
    """Models of a batch, ready to be trained."""

    networks: list[tuple[TrainablePerceptron, float]]
    """Networks that are trained in place, each with its learning rate. Only the first is kept."""

    @abstractmethod
    def loss(self) -> Float[Tensor, "term model"]:
        """Terms of every model's loss, as means over the training pairs."""


@runtime_checkable
class Objective(Protocol):
    """Networks, data and loss of a training; can be pickled."""

    @property
    def parameters(self) -> TrainingParameters:
        """Parameters of the training."""

    def data(self) -> list[Shaped[np.ndarray, "..."]]:
        """All arrays that the result depends on."""

    def footprint(self, device: Device) -> Footprint:
        """Memory of a step."""

    def prepare(self, batch: Batch, run: TrainingRun) -> Prepared:
        """Models of a batch, on the device of the run."""


def fit(objective: Objective, run: TrainingRun) -> TrainedModels:
    """Train every (member, fold) of a run.

    Returns:
        All models in the order (member, fold), on the CPU.

    Raises:
        TrainingError: a loss is not finite, the checkpoints are of another training, or not even
            one model fits into the memory of the device.
        CorruptArtifactError: a checkpoint is damaged.
    """
    checkpoints = open_checkpoints(objective.parameters, run, objective.data())
    batches = batches_of(run, objective.footprint(run.device))
    alone = replace(run, report=silent, engine=LOCAL)  # for other processes
    recipe = partial(_BatchTraining, objective, alone, checkpoints)
    cores = profile_of(run.device.place).batches if run.device.kind == "cpu" else None
    fitted: list[TrainedModels] = []
    with _products(run.device):
        run.engine.work(recipe, batches, lambda _, found: fitted.append(found), run.report, cores)
    if checkpoints is not None:
        checkpoints.discard()
    return in_model_order(batches, fitted)


def _products(device: Device) -> AbstractContextManager[None]:
    """Context of a training with the fast matrix products that its format has."""
    return fast_products(device.place, tf32=device.rounding == "tf32")


@dataclass(frozen=True)
class _BatchTraining:
    """Training of the models of a batch, in any process."""

    objective: Objective
    run: TrainingRun
    checkpoints: Checkpoints | None

    def __call__(self, batch: Batch, report: Progress) -> TrainedModels:
        # Set already in the calling process; a worker process sets them here.
        with _products(self.run.device):
            prepared = self.objective.prepare(batch, self.run)
            history = train(
                prepared.networks,
                prepared.loss,
                self.objective.parameters,
                name=batch.name,
                report=report,
                checkpoint=self.checkpoints and self.checkpoints.of_batch(batch.label),
                rows=self.objective.footprint(self.run.device).rows * batch.source.numel(),
            )
        kept, _ = prepared.networks[0]
        return TrainedModels(kept.to(CPU, self.run.device.training), history)
