"""Intervals of predicted spectra, calibrated on predictions of measured spectra.

The scale of a prediction is s^2 = deviation^2 + r^2 at every wavelength: the variance over members,
sources and kinds, and the mean squared error r^2 of the calibration set, which is predictions of
measured spectra on the same side of the training range. The half widths of the intervals, in units
of s, are quantiles of the ratios |error| / s over the calibration set; s of each of its predictions
leaves out the prediction's own error.

Source: J. Lei, M. G'Sell, A. Rinaldo, R. J. Tibshirani and L. Wasserman, Distribution-free
predictive inference for regression, J. Am. Stat. Assoc. 113 (2018) 1094, section 5 (locally
weighted conformal inference). Here quantiles are over all wavelengths of a few spectra: intervals
cover a share of the points of a spectrum on average, with the uncertainty of a few spectra.
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
        calibration_set: levels whose errors calibrate predictions inside and outside of the
            training range (stored as `judges`).
    """

    errors: Float[np.ndarray, "fold level wavelength"]
    calibration_set: Bool[np.ndarray, "fold 2 level"]

    def tensors(self) -> dict[str, Shaped[Tensor, "..."]]:
        """Tensors to store, by name."""
        arrays = {"errors": self.errors, "judges": self.calibration_set}
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Shaped[Tensor, "..."]]) -> "InnerErrors":
        """Inverse of `tensors`.

        Raises:
            KeyError: a tensor is absent.
        """
        return cls(tensors["errors"].numpy(), tensors["judges"].numpy())


@dataclass(frozen=True)
class Calibration:
    """Calibration of intervals, for targets inside and outside of the training range.

    Attributes:
        residual: mean squared error r^2 of the calibration set (signal squared).
        factors: half widths of the intervals of `PROBABILITIES`, in units of the scale.
    """

    residual: Float[np.ndarray, "*fold_side wavelength"]
    factors: Float[np.ndarray, "*fold_side probability"]

    @classmethod
    def of(
        cls,
        errors: Float[np.ndarray, "known wavelength"],
        deviations: Float[np.ndarray, "known wavelength"],
        calibration_set: list[int],
    ) -> "Calibration":
        """Calibration on predictions of measured spectra.

        Args:
            errors: errors of at least two predictions.
            deviations: their deviations.
            calibration_set: indices of the predictions to calibrate on, two at least.
        """
        squares = errors**2
        ratios = []
        for place in calibration_set:
            others = [other for other in calibration_set if other != place]
            scale = np.sqrt(deviations[place] ** 2 + squares[others].mean(axis=0))
            smallest = np.finfo(float).eps * max(float(np.abs(errors).max()), 1e-300)
            ratios.append(np.abs(errors[place]) / np.maximum(scale, smallest))
        factors = np.quantile(np.stack(ratios), PROBABILITIES)
        return cls(squares[calibration_set].mean(axis=0), factors)

    @classmethod
    def stack(cls, folds: list[list["Calibration"]]) -> "Calibration":
        """Calibrations of all folds as one, by fold and side."""
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
        """Scale s of predictions.

        Args:
            fold: index of the fold.
            side: 0 inside of its training range, 1 outside.
            deviation: deviations of the predictions.
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
        """Tensors to store, by name."""
        return {
            "residual": torch.from_numpy(self.residual),
            "factors": torch.from_numpy(self.factors),
        }

    @classmethod
    def from_tensors(cls, tensors: dict[str, Shaped[Tensor, "..."]]) -> "Calibration":
        """Inverse of `tensors`.

        Raises:
            KeyError: a tensor is absent.
        """
        return cls(tensors["residual"].numpy(), tensors["factors"].numpy())
