"""Checkpoints: the state of every batch, kept in a scratch folder until the result is written.

A training is identified by its parameters, device, number format and data. Checkpoints of another
training are refused before anything is trained: to resume from them would give a wrong result, and
to ignore them would lose the work. The code is not part of the identity: remove the folder after a
change of the code.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Shaped
from torch import Tensor

from geonode.config import TrainingParameters
from geonode.errors import TrainingError
from geonode.learning.context import TrainingRun
from geonode.storage.weights import read_weights, write_weights


@dataclass(frozen=True)
class Checkpoints:
    """Checkpoints of a training, or that of one of its batches."""

    path: Path  # folder of the training, or file of the batch
    key: dict[str, str]  # identity of the training, as values by name

    def of_batch(self, label: str) -> "Checkpoints":
        """Checkpoint of one batch."""
        return Checkpoints(self.path / f"{label}.safetensors", self.key)

    def save(self, tensors: dict[str, Shaped[Tensor, "..."]]) -> None:
        """Write the state of a batch atomically, in place of an earlier one.

        Raises:
            ArtifactError: it cannot be written; an earlier one is then intact.
        """
        write_weights(self.path, tensors, self.key)

    def read(self) -> dict[str, Shaped[Tensor, "..."]] | None:
        """State of a batch, on the CPU; None if there is none.

        Raises:
            CorruptArtifactError: the file is damaged.
            TrainingError: it is of another training; the message names the difference.
            ArtifactError: it cannot be read.
        """
        if not self.path.exists():
            return None
        tensors, found = read_weights(self.path)
        for name, value in self.key.items():
            if found.get(name) != value:
                raise TrainingError(
                    f"{self.path}: is of a training with {name} {found.get(name, 'unknown')}, "
                    f"expected {name} {value}; finish that training first, or remove "
                    f"{self.path.parent} to start anew"
                )
        return tensors


def open_checkpoints(
    parameters: TrainingParameters,
    run: TrainingRun,
    data: Sequence[Shaped[np.ndarray, "..."]],
) -> Checkpoints | None:
    """Checkpoints of a training; None if none are to be written and none exist.

    Args:
        parameters: parameters of the training. `checkpoint_every` does not affect the result and
            may change from one run to the next.
        run: the models and the device.
        data: all arrays that the training reads.

    Raises:
        CorruptArtifactError: the checkpoint of a batch is damaged.
        TrainingError: the folder contains checkpoints of another training; the message names the
            difference.
        ArtifactError: a checkpoint cannot be read.
    """
    folder = run.scratch
    if folder is None or not (parameters.checkpoint_every or folder.exists()):
        return None
    values = parameters.model_dump(mode="json", exclude={"checkpoint_every"})
    digest = hashlib.sha256()
    for array in data:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    key = {name: json.dumps(value) for name, value in values.items()} | {
        "models": f"{run.members} of {[fold.left_out for fold in run.folds]}",
        "device": run.device.kind,
        "format": run.device.describe()["training"],
        "data": digest.hexdigest()[:16],
    }
    checkpoints = Checkpoints(folder, key)
    for path in sorted(folder.glob("*.safetensors")):
        checkpoints.of_batch(path.stem).read()
    return checkpoints
