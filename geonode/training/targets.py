"""Training targets of decoders: the standardised signal at the target of every pair."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from geonode.config import TrainingParameters
from geonode.devices.device import on_device
from geonode.spectra.series import Series
from geonode.training.augmentation import Augmentation
from geonode.training.batches import Batch
from geonode.training.folds import Standardisation, training_wavelengths

STREAM = 3  # of random numbers, different from those of the initial weights


class Targets:
    """Standardised signals of a batch: measured, or augmented anew in every epoch.

    Args:
        batch: the models.
        series: the measured series. A left-out spectrum is no target of a training pair of its
            fold and takes no part in the standardisation.
        parameters: parameters of the training.
        dtype: format of the signals.
    """

    def __init__(
        self,
        batch: Batch,
        series: Series,
        parameters: TrainingParameters,
        dtype: torch.dtype,
    ) -> None:
        device = batch.target.device
        chosen = training_wavelengths(len(series.axis), parameters.wavelengths)
        of_models = [
            Standardisation.of(series.signal[model.fold.training]) for model in batch.models
        ]
        self._augmentation = None
        if any(parameters.augmentation.model_dump().values()):
            seeds = batch.seeds(parameters.seed, STREAM)
            scans = (series.signal, series.axis, chosen, parameters.augmentation)
            self._augmentation = Augmentation(*scans, seeds, device, dtype)
            numbers = np.array([[scale.mean, scale.deviation] for scale in of_models])
            self._scale = on_device(numbers, device, dtype).T[:, :, None, None]
        self._target = batch.target[..., None].expand(-1, -1, len(chosen))
        measured = [scale.apply(series.signal[:, chosen]) for scale in of_models]
        self._measured = on_device(np.stack(measured), device, dtype).gather(1, self._target)

    @property
    def repeat(self) -> bool:
        """Whether the targets are the same in every epoch."""
        return self._augmentation is None

    @property
    def pairs(self) -> int:
        """Number of training pairs of a model."""
        return self._measured.shape[1]

    def at(self, pairs: slice, epoch: int) -> Float[Tensor, "model pair training"]:
        """Targets of some training pairs in an epoch."""
        if self._augmentation is None:
            return self._measured[:, pairs]
        mean, deviation = self._scale
        scans = (self._augmentation.draw(epoch) - mean) / deviation
        return scans.gather(1, self._target[:, pairs])
