"""Posterior decoders, the default predictor: the posterior over metrics of every fold.

Nothing is trained and nothing is stored: the prior comes with the package, and all smoothers of a
fold are fitted in closed form at prediction.
"""

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from geonode.config import DecodersParameters
from geonode.decoders.predicted import Predicted
from geonode.posterior.posterior import MetricPosterior
from geonode.posterior.prior import Prior, packaged_prior
from geonode.spectra.series import Series
from geonode.training.context import TrainingRun
from geonode.training.folds import Fold


class PosteriorDecoders:
    """Posteriors over metrics of every fold.

    Args:
        prior: the learned rule of weights.
    """

    def __init__(self, prior: Prior) -> None:
        self.prior = prior

    def predict(
        self,
        fold: Fold,
        series: Series,
        concentrations: Float[np.ndarray, "target"],
        features: Float[np.ndarray, "member source target training feature"] | None,  # noqa: ARG002
    ) -> Predicted:
        """Posterior mean over metrics, and its covariance calibrated on simulated series.

        Args:
            fold: a fold of the run.
            series: the measured series. The spectra that the fold leaves out are not read.
            concentrations: targets.
            features: not used.

        Raises:
            TrainingError: there are fewer than three training levels.
        """
        levels, spectra = series.concentrations[fold.training], series.signal[fold.training]
        found = MetricPosterior.of(levels, spectra, self.prior).predict(concentrations)
        inside = fold.spans(series.concentrations, concentrations)
        return Predicted(
            found.weights @ spectra,
            found.factors @ spectra,
            found.even,
            self.prior.intervals(len(spectra), inside),
            found.sqrt_metric,
        )

    def tensors(self) -> dict[str, Shaped[Tensor, "..."]]:
        """Empty: the prior is a file of the package."""
        return {}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Shaped[Tensor, "..."]]) -> "PosteriorDecoders":  # noqa: ARG003
        """Posteriors with the prior of this version of the package."""
        return cls(packaged_prior())


def fit_posteriors(
    series: Series,  # noqa: ARG001
    features: Float[np.ndarray, "member fold pair training feature"] | None,  # noqa: ARG001
    parameters: DecodersParameters,  # noqa: ARG001
    run: TrainingRun,
) -> tuple[PosteriorDecoders, Float[Tensor, "epoch term model"]]:
    """Posteriors with the prior of the package; the history has no epochs."""
    return PosteriorDecoders(packaged_prior()), torch.zeros(0, 1, len(run.folds))
