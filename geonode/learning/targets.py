"""Training targets of decoders: the standardised signal at the target of every pair."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from geonode.compute.device import on_device
from geonode.config import TrainingParameters
from geonode.learning.batches import Batch
from geonode.learning.folds import Standardisation, training_wavelengths
from geonode.spectra.series import Series


def training_targets(
    batch: Batch, series: Series, parameters: TrainingParameters, dtype: torch.dtype
) -> Float[Tensor, "model pair training"]:
    """Standardised signals at the targets of the training pairs of a batch.

    Args:
        batch: the models.
        series: the measured series. A left-out spectrum is no target of a training pair of its
            fold and takes no part in the standardisation.
        parameters: parameters of the training.
        dtype: format of the signals.
    """
    chosen = training_wavelengths(len(series.axis), parameters.wavelengths)
    measured = [
        Standardisation.of(series.signal[model.fold.training]).apply(series.signal[:, chosen])
        for model in batch.models
    ]
    targets = batch.target[..., None].expand(-1, -1, len(chosen))
    return on_device(np.stack(measured), batch.target.device, dtype).gather(1, targets)
