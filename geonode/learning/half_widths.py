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
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from geonode.posterior.prior import PROBABILITIES


@dataclass(frozen=True)
class Calibration:
    """Calibration of the intervals of every fold, inside and outside of its training range.

    Attributes:
        residual: mean squared error r^2 of the calibration set (signal squared).
        factors: half widths of the intervals of `PROBABILITIES`, in units of the scale.
    """

    residual: Float[np.ndarray, "fold side wavelength"]
    factors: Float[np.ndarray, "fold side probability"]

    def intervals(
        self,
        fold: int,
        side: Int[np.ndarray, "target"],
        deviation: Float[np.ndarray, "target wavelength"],
    ) -> tuple[
        Float[np.ndarray, "target wavelength"], Float[np.ndarray, "probability target wavelength"]
    ]:
        """Scale s of predictions, and half the width of their intervals of `PROBABILITIES`.

        Args:
            fold: index of the fold.
            side: 0 inside of its training range, 1 outside.
            deviation: deviations of the predictions.
        """
        scale = np.sqrt(deviation**2 + self.residual[fold, side])
        return scale, self.factors[fold, side].T[..., None] * scale

    def tensors(self) -> dict[str, Shaped[Tensor, "..."]]:
        """Tensors to store, by name."""
        arrays = {"residual": self.residual, "factors": self.factors}
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Shaped[Tensor, "..."]]) -> "Calibration | None":
        """Inverse of `tensors`; None if there is none of them.

        Raises:
            KeyError: a tensor is absent, and another is there.
        """
        names = ("residual", "factors")
        if not tensors.keys() & set(names):
            return None
        return cls(*(tensors[name].numpy() for name in names))


def residual_and_factors(
    errors: Float[np.ndarray, "known wavelength"], deviations: Float[np.ndarray, "known wavelength"]
) -> tuple[Float[np.ndarray, "wavelength"], Float[np.ndarray, "probability"]]:
    """Mean squared error and half widths of a calibration set of two predictions at least.

    Args:
        errors: errors of the predictions.
        deviations: their deviations.
    """
    squares = errors**2
    others = [np.delete(squares, place, axis=0).mean(axis=0) for place in range(len(errors))]
    smallest = np.finfo(float).eps * max(float(np.abs(errors).max()), 1e-300)
    scale = np.maximum(np.sqrt(deviations**2 + np.stack(others)), smallest)
    return squares.mean(axis=0), np.quantile(np.abs(errors) / scale, PROBABILITIES)
