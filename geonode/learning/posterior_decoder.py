"""Posterior decoders, the default predictor: the posterior over metrics of every fold.

Nothing is trained and nothing is stored: the prior comes with the package, and all smoothers of a
fold are fitted in closed form at prediction.
"""

from functools import partial

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from geonode.compute.device import unless_out_of_memory
from geonode.compute.threads import in_threads
from geonode.config import DecodersParameters
from geonode.learning.context import TrainingRun
from geonode.learning.folds import Fold
from geonode.learning.predicted import Decoders, Features, Predicted, Residuals
from geonode.posterior.posterior import MetricPosterior, targets_at_once
from geonode.posterior.prior import Prior, packaged_prior
from geonode.spectra.series import Series

MOST_NUMBERS, MOST_ON_DEVICE = 2000, 200_000
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
        return self.predict_at([fold], series, concentrations[None])[0]

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
        targets = np.stack([series.concentrations[list(fold.left_out)] for fold in folds])
        return self.predict_at(folds, series, targets)

    def predict_at(
        self, folds: list[Fold], series: Series, targets: Float[np.ndarray, "fold target"]
    ) -> list[Predicted]:
        """Predictions of every fold for some concentrations of its own, several folds at once.

        Raises:
            TrainingError: there are fewer than three training levels.
        """
        place, training = self.prior.rule.place, len(folds[0].training)
        most = MOST_NUMBERS if place.type == "cpu" else MOST_ON_DEVICE
        rows = targets_at_once(place) // max(1, targets.shape[1])
        together = max(1, min(rows, most // training**2))
        together = -(-len(folds) // -(-len(folds) // together))  # as even as can be
        parts = [slice(at, at + together) for at in range(0, len(folds), together)]

        def work(part: slice) -> list[Predicted]:
            return self._halved(folds[part], series, targets[part])

        if len(parts) == 1:  # whose targets may be predicted in threads
            return work(parts[0])
        return [one for found in in_threads(work, parts) for one in found]

    def _halved(self, folds: list[Fold], series: Series, targets: np.ndarray) -> list[Predicted]:
        """Predictions of some folds, in halves where memory does not suffice for all."""
        work = partial(self._predict, folds, series, targets)
        if len(folds) == 1:
            return work()
        if (found := unless_out_of_memory(work, "halves of the folds")) is None:
            half = len(folds) // 2
            found = self._halved(folds[:half], series, targets[:half])
            found += self._halved(folds[half:], series, targets[half:])
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
