"""Objectives of a training, and `fit`, which minimises them: from folds to weights.

An objective (`end_to_end.EndToEnd`, `path_decoder.PathDecoding`) defines networks, data and loss.
`fit` divides the models of a run into batches (`batches`), sends the objective to the process that
trains one, where it prepares the networks, and trains them (`trainer`).
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Protocol, runtime_checkable

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
from geonode.learning.trainer import Training
from geonode.progress import Progress, silent


class Prepared(NamedTuple):
    """Models of a batch, ready to be trained."""

    networks: list[tuple[TrainablePerceptron, float]]
    """Networks that are trained in place, each with its learning rate. Only the first is kept."""
    loss: Callable[[], Float[Tensor, "term model"]]
    """Terms of every model's loss, as means over the training pairs."""


def squared_error(
    network: TrainablePerceptron,
    rows: Float[Tensor, "model row feature"],
    targets: Float[Tensor, "model pair training"],
) -> Float[Tensor, "1 model"]:
    """Mean squared error of decoders, given the features of every pair and wavelength."""
    return (network(rows).reshape(targets.shape) - targets).square().mean((1, 2))[None]


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
    recipe = partial(partial, _train, objective, alone, checkpoints)
    cores = profile_of(run.device.place).batches if run.device.kind == "cpu" else None
    fitted: list[TrainedModels] = []
    with _products(run.device):
        run.engine.work(recipe, batches, lambda _, found: fitted.append(found), run.report, cores)
    return in_model_order(batches, fitted)


def _products(device: Device) -> AbstractContextManager[None]:
    """Context of a training with the fast matrix products that its format has."""
    return fast_products(device.place, tf32=device.rounding == "tf32")


def _train(
    objective: Objective,
    run: TrainingRun,
    checkpoints: Checkpoints | None,
    batch: Batch,
    report: Progress,
) -> TrainedModels:
    """Train the models of a batch, in any process."""
    # Set already in the calling process; a worker process sets them here.
    with _products(run.device):
        networks, loss = objective.prepare(batch, run)
        history = Training(
            networks,
            loss,
            objective.parameters,
            batch.name,
            report,
            checkpoints and checkpoints.of_batch(batch.label),
            objective.footprint(run.device).rows * batch.source.numel(),
        ).run()
    kept, _ = networks[0]
    return TrainedModels(kept.to(CPU, run.device.training), history)
