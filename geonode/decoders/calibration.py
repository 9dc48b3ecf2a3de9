"""Intervals of predicted spectra, calibrated on what is known.

The scale of a prediction is s^2 = deviation^2 + r^2 at every wavelength: what its members, sources
and kinds disagree by, and the mean squared error r^2 of predictions of the same sort, whose answers
are known. Of those the ratios |error| / s are known as well, s of each without its own error; their
quantiles are the half widths of the intervals in units of s.

Source: J. Lei, M. G'Sell, A. Rinaldo, R. J. Tibshirani and L. Wasserman, Distribution-free
predictive inference for regression, J. Am. Stat. Assoc. 113 (2018) 1094, section 5 (locally
weighted conformal inference). Here quantiles are over all wavelengths of a few spectra: they
promise a share of the points of a spectrum, on average, and no more than the few spectra can tell.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from geonode.posterior.prior import PROBABILITIES


@dataclass(frozen=True)
class InnerErrors:
    """Errors of the predictions of every fold for its own training levels.

    Attributes:
        errors: predicted less measured; 0 where nothing was predicted.
        judges: the levels by which predictions inside and outside of the training range are judged.
    """

    errors: Float[np.ndarray, "fold level wavelength"]
    judges: Bool[np.ndarray, "fold 2 level"]

    def tensors(self) -> dict[str, Shaped[Tensor, "..."]]:
        """All that an artifact has to keep, by name."""
        return {"errors": torch.from_numpy(self.errors), "judges": torch.from_numpy(self.judges)}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Shaped[Tensor, "..."]]) -> "InnerErrors":
        """What `tensors` wrote down.

        Raises:
            KeyError: a tensor is absent.
        """
        return cls(tensors["errors"].numpy(), tensors["judges"].numpy())


@dataclass(frozen=True)
class Calibration:
    """What makes intervals of deviations, for targets inside and outside of the training range.

    Attributes:
        residual: mean squared error of the predictions whose answers are known (signal squared).
        factors: half widths of the intervals of `PROBABILITIES`, in units of the scale.
    """

    residual: Float[np.ndarray, "*fold_side wavelength"]
    factors: Float[np.ndarray, "*fold_side probability"]

    @classmethod
    def of(
        cls,
        errors: Float[np.ndarray, "known wavelength"],
        deviations: Float[np.ndarray, "known wavelength"],
        judges: list[int],
    ) -> "Calibration":
        """From predictions whose answers are known.

        Args:
            errors: theirs, of at least two.
            deviations: theirs.
            judges: those that are of the same sort as the predictions to come, two at least.
        """
        squares = errors**2
        ratios = []
        for judge in judges:
            others = [other for other in judges if other != judge]
            scale = np.sqrt(deviations[judge] ** 2 + squares[others].mean(axis=0))
            smallest = np.finfo(float).eps * max(float(np.abs(errors).max()), 1e-300)
            ratios.append(np.abs(errors[judge]) / np.maximum(scale, smallest))
        factors = np.quantile(np.stack(ratios), PROBABILITIES)
        return cls(squares[judges].mean(axis=0), factors)

    @classmethod
    def stack(cls, folds: list[list["Calibration"]]) -> "Calibration":
        """One of all folds, by fold and side."""
        return cls(
            np.stack([[side.residual for side in sides] for sides in folds]),
            np.stack([[side.factors for side in sides] for sides in folds]),
        )

    def scale(
        self,
        fold: int,
        side: Int[np.ndarray, "target"],
        deviation: Float[np.ndarray, "target wavelength"],
    ) -> Float[np.ndarray, "target wavelength"]:
        """The scale s of predictions.

        Args:
            fold: index of the fold.
            side: 0 inside of its training range, 1 outside.
            deviation: of the predictions.
        """
        return np.sqrt(deviation**2 + self.residual[fold, side])

    def half_width(
        self,
        fold: int,
        side: Int[np.ndarray, "target"],
        deviation: Float[np.ndarray, "target wavelength"],
    ) -> Float[np.ndarray, "probability target wavelength"]:
        """Half the width of the intervals of `PROBABILITIES` about predictions.

        Arguments are those of `scale`.
        """
        return self.factors[fold, side].T[..., None] * self.scale(fold, side, deviation)

    def tensors(self) -> dict[str, Shaped[Tensor, "..."]]:
        """All that an artifact has to keep, by name."""
        return {
            "residual": torch.from_numpy(self.residual),
            "factors": torch.from_numpy(self.factors),
        }

    @classmethod
    def from_tensors(cls, tensors: dict[str, Shaped[Tensor, "..."]]) -> "Calibration":
        """What `tensors` wrote down.

        Raises:
            KeyError: a tensor is absent.
        """
        return cls(tensors["residual"].numpy(), tensors["factors"].numpy())
