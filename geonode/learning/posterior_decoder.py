"""Posterior decoders, the default predictor: the posterior over metrics of every fold.

Nothing is trained and nothing is stored: the prior comes with the package, and all smoothers of a
fold are fitted in closed form at prediction.
"""

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from geonode.config import DecodersParameters
from geonode.learning.context import TrainingRun
from geonode.learning.folds import Fold
from geonode.learning.predicted import Decoders, Features, Predicted, Residuals
from geonode.posterior.posterior import BLOCK, MetricPosterior
from geonode.posterior.prior import Prior, packaged_prior
from geonode.spectra.series import Series

MOST_NUMBERS = 2000
"""Largest number of matrix elements of one smoother, over all folds that are fitted together."""


class PosteriorDecoders(Decoders):
    """Posteriors over metrics of every fold.

    Args:
        prior: the learned rule of weights.
    """

    def __init__(self, prior: Prior) -> None:
        self.prior = prior

    @classmethod
    def fit(
        cls,
        series: Series,  # noqa: ARG003
        features: Features,  # noqa: ARG003
        parameters: DecodersParameters,  # noqa: ARG003
        run: TrainingRun,
    ) -> "tuple[PosteriorDecoders, Float[Tensor, 'epoch term model']]":
        """Posteriors with the prior of the package; the history has no epochs."""
        return cls(packaged_prior()), torch.zeros(0, 1, len(run.folds))

    def predict(
        self,
        fold: Fold,
        series: Series,
        concentrations: Float[np.ndarray, "target"],
        features: Float[np.ndarray, "member source target training feature"] | None,  # noqa: ARG002
    ) -> Predicted:
        """Posterior mean over metrics, its covariance, and residuals of the training levels.

        Arguments are those of `Decoders.predict`; features are not used.

        Raises:
            TrainingError: there are fewer than three training levels.
        """
        return self._predict([fold], series, concentrations[None])[0]

    def predict_left_out(
        self,
        folds: list[Fold],
        series: Series,
        features: Features,  # noqa: ARG002
    ) -> list[Predicted]:
        """Predictions of every fold for the levels that it leaves out, several folds at once.

        Arguments are those of `Decoders.predict_left_out`; features are not used.

        Raises:
            TrainingError: there are fewer than three training levels.
        """
        left_out, training = len(folds[0].left_out), len(folds[0].training)
        together = max(1, min(BLOCK // left_out, MOST_NUMBERS // training**2))
        found = []
        for start in range(0, len(folds), together):
            some = folds[start : start + together]
            targets = np.stack([series.concentrations[list(fold.left_out)] for fold in some])
            found += self._predict(some, series, targets)
        return found

    def _predict(
        self, folds: list[Fold], series: Series, targets: Float[np.ndarray, "fold target"]
    ) -> list[Predicted]:
        levels = np.stack([series.concentrations[fold.training] for fold in folds])
        spectra = np.stack([series.signal[fold.training] for fold in folds])
        posterior = MetricPosterior.of(levels, spectra, self.prior)
        predicted, left_out = posterior.predict(targets), posterior.left_out_residuals()
        found = []
        for fold, known, at, weights, factors, even, sqrt_metric, rest, square in zip(
            folds, spectra, targets, *predicted, *left_out, strict=True
        ):
            inside = fold.spans(series.concentrations, at)
            residuals = Residuals(rest @ known, square)
            half_widths = self.prior.intervals(len(known), inside)
            parts = (even, half_widths, None, sqrt_metric, residuals)
            found.append(Predicted(weights @ known, factors @ known, *parts))
        return found

    def tensors(self) -> dict[str, Shaped[Tensor, "..."]]:
        """Empty: the prior is a file of the package."""
        return {}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Shaped[Tensor, "..."]]) -> "PosteriorDecoders":  # noqa: ARG003
        """Posteriors with the prior of this version of the package."""
        return cls(packaged_prior())
