"""The decoder that knows no concentration: the mean of the training spectra."""

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from geonode.config import DecodersParameters
from geonode.learning.folds import Fold
from geonode.learning.predicted import Predicted
from geonode.learning.run import Run
from geonode.spectra.series import Series


class MeanDecoders:
    """The mean of the training spectra, whichever level is asked for."""

    def predict(
        self,
        fold: Fold,
        series: Series,
        features: Float[np.ndarray, "member source target training feature"],
    ) -> Predicted:
        """The mean of the training spectra, with the covariance of a further one.

        Args:
            fold: whose training spectra.
            series: the measured series. The spectra that the fold leaves out are not read.
            features: not looked at, but for the number of targets.
        """
        spectra = series.signal[fold.training]
        further = (1 + 1 / len(spectra)) ** 0.5
        mean = Predicted.of_draws(spectra[None])
        copies = [0] * features.shape[2]
        return Predicted(mean.spectra[copies], further * mean.factors[copies])

    def tensors(self) -> dict[str, Shaped[Tensor, "..."]]:
        """Nothing: the spectra say it all."""
        return {}


def fit_means(
    series: Series,  # noqa: ARG001
    features: Float[np.ndarray, "member fold pair training feature"],  # noqa: ARG001
    parameters: DecodersParameters,  # noqa: ARG001
    run: Run,
) -> tuple[MeanDecoders, Float[Tensor, "epoch term model"]]:
    """Nothing is fitted; the history has no steps."""
    return MeanDecoders(), torch.zeros(0, 1, len(run.folds))
