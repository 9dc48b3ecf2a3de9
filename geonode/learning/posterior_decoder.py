"""Posterior decoders, the default predictor: the posterior over metrics of every fold.

Nothing is trained and nothing is stored: the prior comes with the package, and all smoothers of a
fold are fitted in closed form at prediction.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from geonode.compute.threads import in_threads
from geonode.config import DecodersParameters
from geonode.learning.context import TrainingRun
from geonode.learning.folds import Fold
from geonode.learning.predicted import Decoders, PathFeatures, Predicted, Residuals
from geonode.posterior.metric_posterior import MetricPosterior, targets_at_once
from geonode.posterior.prior import Prior, packaged_prior
from geonode.spectra.series import Series

MOST_ON_CPU, MOST_ON_DEVICE = 2000, 200_000
"""Largest number of matrix elements of one smoother, over all folds that are fitted together."""


class FoldPosterior(NamedTuple):
    """Predictions of the posterior of a fold, as weights of its training spectra.

    These are few numbers for another process; spectra would be thousands of times as many.
    """

    targets: Float[np.ndarray, "target"]
    weights: Float[np.ndarray, "target level"]
    factors: Float[np.ndarray, "target level level"]
    even: Float[np.ndarray, "target"]
    sqrt_metric: Float[np.ndarray, "2 target"]
    """Predictions of the fold, as of `PosteriorPrediction`."""
    residuals: Float[np.ndarray, "level level"]
    square: Float[np.ndarray, "level"]
    """Residuals of the fold, as of `MetricPosterior.left_out_residuals`."""

    def predicted(self, series: Series, fold: Fold, prior: Prior) -> Predicted:
        """Predictions for the fold of the series that it was computed of."""
        known = series.signal[fold.training]
        half_widths = prior.intervals(len(known), fold.spans(series.concentrations, self.targets))
        residuals = Residuals(self.residuals @ known, self.square)
        parts = (self.even, half_widths, self.sqrt_metric, residuals)
        return Predicted(self.weights @ known, self.factors @ known, *parts)


@dataclass(frozen=True)
class PosteriorDecoders(Decoders):
    """Posteriors over metrics of every fold."""

    prior: Prior = field(default_factory=packaged_prior)
    """Rule of the average; its device computes. It is a file of the package, so none is stored."""

    @classmethod
    def fit(
        cls,
        series: Series,  # noqa: ARG003
        features: PathFeatures,  # noqa: ARG003
        parameters: DecodersParameters,  # noqa: ARG003
        run: TrainingRun,
    ) -> "tuple[PosteriorDecoders, Float[Tensor, 'epoch term model']]":
        """Posteriors on the device of the run, by the prior of the package, without epochs."""
        return cls(packaged_prior(run.device.reference)), torch.zeros(0, 1, len(run.folds))

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
        (found,) = self.posteriors([(series, fold)], concentrations[None])
        return found.predicted(series, fold, self.prior)

    def predict_left_out(
        self,
        folds: list[Fold],
        series: Series,
        features: PathFeatures,  # noqa: ARG002
    ) -> list[Predicted]:
        """Predictions of every fold for the levels that it leaves out, several folds at once.

        Arguments are those of `Decoders.predict_left_out`; features are not used.

        Raises:
            TrainingError: there are fewer than three training levels.
        """
        targets = np.stack([series.concentrations[list(fold.left_out)] for fold in folds])
        found = self.posteriors([(series, fold) for fold in folds], targets)
        return [
            one.predicted(series, fold, self.prior) for fold, one in zip(folds, found, strict=True)
        ]

    def posteriors(
        self, folds: list[tuple[Series, Fold]], targets: Float[np.ndarray, "fold target"]
    ) -> list[FoldPosterior]:
        """Predictions of the posteriors of folds at concentrations of their own, several at once.

        Folds have equally many training levels and wavelengths; targets are concentrations, none
        negative.

        Raises:
            TrainingError: there are fewer than three training levels.
        """
        place, training = self.prior.rule.place, len(folds[0][1].training)
        most = MOST_ON_CPU if place.type == "cpu" else MOST_ON_DEVICE
        rows = targets_at_once(place) // max(1, targets.shape[1])
        together = max(1, min(rows, most // training**2))
        together = -(-len(folds) // -(-len(folds) // together))  # as even as can be
        parts = [slice(at, at + together) for at in range(0, len(folds), together)]

        def work(part: slice) -> list[FoldPosterior]:
            return self._posteriors(folds[part], targets[part])

        # One part may predict its targets in threads; parts on a device would share its memory.
        run = in_threads if len(parts) > 1 and place.type == "cpu" else map
        return [one for found in run(work, parts) for one in found]

    def _posteriors(
        self, folds: list[tuple[Series, Fold]], targets: np.ndarray
    ) -> list[FoldPosterior]:
        levels = np.stack([series.concentrations[fold.training] for series, fold in folds])
        spectra = np.stack([series.signal[fold.training] for series, fold in folds])
        posterior = MetricPosterior.of(levels, spectra, self.prior)
        parts = targets, *posterior.predict(targets), *posterior.left_out_residuals()
        return [FoldPosterior(*of_fold) for of_fold in zip(*parts, strict=True)]
