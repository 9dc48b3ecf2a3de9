"""Straight line of the signal at one wavelength over the concentration.

The direct regression of textbooks: signal = intercept + slope * concentration by least squares, and
a concentration read back from it. The residual standard deviation s_y/x has n - 2 degrees of
freedom.

Source: K. Danzer and L. A. Currie, Guidelines for calibration in analytical chemistry (IUPAC
Recommendations), Pure Appl. Chem. 70 (1998) 993, section 4.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.stats import t as student

SIGNIFICANT = 0.05
"""Probability of a slope as large by chance, above which the slope is taken for zero."""


@dataclass(frozen=True)
class Line:
    """Calibration line at one wavelength.

    Attributes:
        intercept: signal without analyte (signal unit).
        slope: signal per unit of concentration.
        deviation: residual standard deviation s_y/x (signal unit).
        slope_deviation: standard error of the slope.
        levels: number of levels.
        r2: share of the variance of the signal that the line explains.
    """

    intercept: float
    slope: float
    deviation: float
    slope_deviation: float
    levels: int
    r2: float

    @classmethod
    def of(cls, levels: Float[np.ndarray, "level"], signal: Float[np.ndarray, "level"]) -> "Line":
        """Fit a line to three levels or more, which differ."""
        centred, centre = levels - levels.mean(), float(signal.mean())
        spread = float(centred @ centred)
        slope = float(centred @ (signal - centre)) / spread
        residuals = signal - centre - slope * centred
        deviation = float(np.sqrt(residuals @ residuals / (len(levels) - 2)))
        total = float((signal - centre) @ (signal - centre))
        r2 = 1 - float(residuals @ residuals) / total if total > 0 else 0.0
        intercept = centre - slope * float(levels.mean())
        return cls(intercept, slope, deviation, deviation / spread**0.5, len(levels), r2)

    @property
    def p_value(self) -> float:
        """Probability of a slope as far from zero by chance: two-sided t test."""
        if self.slope_deviation == 0:
            return 0.0 if self.slope else 1.0
        ratio = abs(self.slope) / self.slope_deviation
        return float(2 * student.sf(ratio, self.levels - 2))

    @property
    def is_sloped(self) -> bool:
        """Whether the slope differs from zero."""
        return self.p_value < SIGNIFICANT


def most_sensitive(
    levels: Float[np.ndarray, "level"], spectra: Float[np.ndarray, "level wavelength"]
) -> int:
    """Place of the wavelength whose line is the steepest; of equal ones the first."""
    return int(np.abs((levels - levels.mean()) @ spectra).argmax())


def straight_line(
    concentrations: Float[np.ndarray, "level"],
    spectra: Float[np.ndarray, "level wavelength"],
    unknown: Float[np.ndarray, "unknown wavelength"],
) -> Float[np.ndarray, "unknown"]:
    """Concentrations read from the line at the most sensitive wavelength.

    A calibration as those of `geonode.evaluation.calibrations`. Where no signal changes at all, the
    mean level is returned.
    """
    place = most_sensitive(concentrations, spectra)
    line = Line.of(concentrations, spectra[:, place])
    if line.slope == 0:
        return np.full(len(unknown), concentrations.mean())
    return (unknown[:, place] - line.intercept) / line.slope
