"""Predicted spectra with the covariance of their errors, and the decoders that give them."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped
from scipy.interpolate import make_interp_spline
from scipy.special import ndtri
from torch import Tensor

from geonode.config import DecodersParameters
from geonode.learning.context import TrainingRun
from geonode.learning.folds import Fold
from geonode.parameter_types import require_level
from geonode.posterior.prior import COVERAGE, PROBABILITIES
from geonode.spectra.series import Series

PathFeatures = Float[np.ndarray, "member fold pair training feature"] | None
"""Path features of the geodesics between all levels; None for kinds that use no geodesics."""


class Residuals(NamedTuple):
    """Residuals of the training levels of a fold, each predicted from the others.

    By the first weights of the smoothers, without the rule of the prior: no refits are needed.
    """

    spectra: Float[np.ndarray, "training wavelength"]  # spectrum of every level less its prediction
    square: Float[np.ndarray, "training"]
    """Squared size to expect of every residual (signal squared, mean over wavelengths)."""


@dataclass(frozen=True)
class Predicted:
    """Predicted spectra and the covariance of their errors over wavelengths."""

    spectra: Float[np.ndarray, "target wavelength"]
    factors: Float[np.ndarray, "target row wavelength"]
    """Rows whose outer products add up to the covariance: that over members, sources and kinds of
    decoders, or that of a process."""
    even: Float[np.ndarray, "target"] | None = None
    """Additional independent variance, equal at all wavelengths; None for none."""
    half_widths: Float[np.ndarray, "target probability"] | None = None
    """Half the width of the intervals of `PROBABILITIES`, in units of `deviation`; None without a
    posterior."""
    sqrt_metric: Float[np.ndarray, "2 target"] | None = None
    """Mean and standard deviation of sqrt(g) at the targets under the posterior over metrics (per
    unit of concentration); None without one."""
    residuals: Residuals | None = None
    """Residuals of the training levels under the posterior over metrics; None without one."""

    @cached_property
    def deviation(self) -> Float[np.ndarray, "target wavelength"]:
        """Standard deviation at every wavelength, by the covariance.

        Without a posterior it is that over sources and members alone, which is no estimate of the
        error.
        """
        variance = np.einsum("trw,trw->tw", self.factors, self.factors)
        return np.sqrt(variance if self.even is None else variance + self.even[:, None])

    @property
    def half_width(self) -> Float[np.ndarray, "probability target wavelength"] | None:
        """Half the width of the intervals of `PROBABILITIES`, in units of the signal."""
        return None if self.half_widths is None else self.half_widths.T[..., None] * self.deviation

    def band(self, level: float = COVERAGE) -> tuple[str, Float[np.ndarray, "target wavelength"]]:
        """Name and half width of the band to draw about the predictions, an interval of a level.

        Between `PROBABILITIES` and beyond them its logarithm is linear in that of the quantile of a
        normal law.

        Raises:
            ParameterError: the level is none.
        """
        require_level("prediction", level)
        if self.half_widths is None:
            return "standard deviation", self.deviation
        learned, wanted = (np.log(ndtri((1 + np.array(of)) / 2)) for of in (PROBABILITIES, level))
        factors = make_interp_spline(learned, np.log(self.half_widths), k=1, axis=1)(wanted)
        return f"{100 * level:.10g}% interval", np.exp(factors)[:, None] * self.deviation

    @classmethod
    def of_draws(cls, draws: Float[np.ndarray, "target draw wavelength"]) -> "Predicted":
        """Mean and covariance of equally likely spectra."""
        mean = draws.mean(axis=1)
        return cls(mean, (draws - mean[:, None]) / max(1, draws.shape[1] - 1) ** 0.5)


def mixture(weights: Float[np.ndarray, "kind"], parts: list[Predicted]) -> Predicted:
    """Mean and covariance of a mixture of distributions.

    The weights add up to one. Half widths, metric and residuals are those of the first part that
    has some.
    """
    spectra = np.stack([part.spectra for part in parts], axis=1)
    mean = np.einsum("k,tkw->tw", weights, spectra)
    roots = np.sqrt(weights)
    within = [root * part.factors for root, part in zip(roots, parts, strict=True)]
    between = roots[:, None] * (spectra - mean[:, None])
    even = [
        weight * part.even
        for weight, part in zip(weights, parts, strict=True)
        if part.even is not None
    ]
    of_posterior = next((part for part in parts if part.half_widths is not None), parts[0])
    return Predicted(
        mean,
        np.concatenate([*within, between], axis=1),
        sum(even) if even else None,
        half_widths=of_posterior.half_widths,
        sqrt_metric=of_posterior.sqrt_metric,
        residuals=of_posterior.residuals,
    )


class Decoders(ABC):
    """Decoders of every fold of a run; a kind of decoder is a subclass."""

    @classmethod
    @abstractmethod
    def fit(
        cls,
        series: Series,
        features: PathFeatures,
        parameters: DecodersParameters,
        run: TrainingRun,
    ) -> "tuple[Decoders, Float[Tensor, 'epoch term model']]":
        """Fit the decoders of every (member, fold).

        Args:
            series: the measured series. A fold never reads the spectra that it leaves out.
            features: of the geodesics between all levels, at the training wavelengths; None for
                kinds that use no geodesics.
            parameters: the block `decoders` of the parameters.
            run: the models and the device.

        Returns:
            The decoders, on the CPU, and the terms of their losses before every step; no epochs
            where nothing is trained.

        Raises:
            TrainingError: a loss is not finite, the checkpoints are of another training, or there
                are no features where they are needed.
            CorruptArtifactError: a checkpoint is damaged.
        """

    @abstractmethod
    def predict(
        self,
        fold: Fold,
        series: Series,
        concentrations: Float[np.ndarray, "target"],
        features: Float[np.ndarray, "member source target training feature"] | None,
    ) -> Predicted:
        """Predicted spectra, and the covariance of their errors.

        Args:
            fold: a fold of the run.
            series: the measured series. The spectra that the fold leaves out are not read.
            concentrations: targets.
            features: of the geodesics from the fold's training levels to the targets; None for
                kinds that use no geodesics.
        """

    def predict_left_out(
        self, folds: list[Fold], series: Series, features: PathFeatures
    ) -> list[Predicted]:
        """Predictions of every fold for the levels that it leaves out, as by `predict`.

        Folds leave out equally many levels; `features` as for `fit`.
        """
        return [
            self.predict(
                fold,
                series,
                series.concentrations[list(fold.left_out)],
                fold.paths_to_left_out(features),
            )
            for fold in folds
        ]

    def tensors(self) -> dict[str, Shaped[Tensor, "..."]]:
        """Tensors to store, by name; none unless a subclass has some."""
        return {}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Shaped[Tensor, "..."]]) -> "Decoders":  # noqa: ARG003
        """Inverse of `tensors`.

        Raises:
            KeyError: a tensor is absent.
        """
        return cls()
