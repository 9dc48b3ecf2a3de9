"""Training targets of decoders: the standardised signal at the target of every pair."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from geonode.config import TrainingParameters
from geonode.devices.device import on_device
from geonode.spectra.series import Series
from geonode.training.batches import Batch
from geonode.training.folds import Standardisation, training_wavelengths


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
