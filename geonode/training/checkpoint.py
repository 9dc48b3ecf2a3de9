"""Checkpoints: the state of a training, kept in a scratch folder until the training is done.

A training is identified by its parameters, device, number format and data. Checkpoints of another
training are refused before anything is trained: resuming from them would give a wrong result, and
ignoring them would be a surprise. The code is not part of the identity; remove the folder after
changing it. Two checkpoints of every batch are kept, in case the newest is damaged.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Shaped
from torch import Tensor

from geonode.config import TrainingParameters
from geonode.errors import ArtifactError, TrainingError
from geonode.storage.weights import read_weights, write_weights
from geonode.training.context import TrainingRun

KEPT = 2


@dataclass(frozen=True)
class Checkpoints:
    """Checkpoints of a training, or of one of its batches.

    Attributes:
        folder: folder of the training, with a folder for every batch; or folder of the batch.
        key: identity of the training, as values by name.
    """

    folder: Path
    key: dict[str, str]

    def of_batch(self, label: str) -> "Checkpoints":
        """Checkpoints of one batch."""
        return Checkpoints(self.folder / label, self.key)

    def save(self, epoch: int, tensors: dict[str, Shaped[Tensor, "..."]]) -> None:
        """Write a checkpoint of a batch atomically, then remove all but the newest.

        Args:
            epoch: number of finished epochs.
            tensors: the state after them.

        Raises:
            ArtifactError: it cannot be written; earlier checkpoints are then intact.
        """
        write_weights(self.folder / f"{epoch:08d}.safetensors", tensors, self.key)
        for path in self._paths()[:-KEPT]:
            path.unlink(missing_ok=True)

    def latest(self) -> dict[str, Shaped[Tensor, "..."]] | None:
        """State in the newest checkpoint of a batch, on the CPU; None if there is none.

        Raises:
            CorruptArtifactError: the checkpoint is damaged.
            TrainingError: it is of another training; the message names the difference.
            ArtifactError: it cannot be read.
        """
        paths = self._paths()
        if not paths:
            return None
        tensors, found = read_weights(paths[-1])
        for name, value in self.key.items():
            if found.get(name) != value:
                raise TrainingError(
                    f"{paths[-1]}: is of a training with {name} {found.get(name, 'unknown')}, "
                    f"expected {name} {value}; finish that training first, or remove "
                    f"{self.folder.parent} to start anew"
                )
        return tensors

    def discard(self) -> None:
        """Remove the folder with the checkpoints of all batches.

        Raises:
            ArtifactError: the operating system refuses.
        """
        try:
            if os.path.lexists(self.folder):
                shutil.rmtree(self.folder)
        except OSError as error:
            raise ArtifactError(f"{self.folder}: cannot be removed: {error}") from error

    def _paths(self) -> list[Path]:
        return sorted(self.folder.glob("*.safetensors"))


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
        CorruptArtifactError: the newest checkpoint of a batch is damaged.
        TrainingError: the folder holds checkpoints of another training; the message names the
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
    for path in sorted(folder.glob("*/")):
        checkpoints.of_batch(path.name).latest()
    return checkpoints
