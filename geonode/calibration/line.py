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
from scipy.stats import linregress

SIGNIFICANT = 0.05
"""Probability of a slope as large by chance, above which the slope is taken for zero."""


@dataclass(frozen=True)
class Line:
    """Calibration line at one wavelength.

    Attributes:
        intercept: signal without analyte (signal unit).
        slope: signal per unit of concentration.
        deviation: residual standard deviation s_y/x (signal unit).
        r2: share of the variance of the signal that the line explains.
        p_value: probability of a slope as far from zero by chance: two-sided t test.
    """

    intercept: float
    slope: float
    deviation: float
    r2: float
    p_value: float

    @classmethod
    def of(cls, levels: Float[np.ndarray, "level"], signal: Float[np.ndarray, "level"]) -> "Line":
        """Fit a line to three levels or more, which differ."""
        if not np.ptp(signal):
            return cls(float(signal[0]), 0.0, 0.0, 0.0, 1.0)
        found = linregress(levels, signal)
        slope, intercept = float(found.slope), float(found.intercept)
        residuals = signal - intercept - slope * levels
        deviation = float(np.sqrt(residuals @ residuals / (len(levels) - 2)))
        return cls(intercept, slope, deviation, float(found.rvalue) ** 2, float(found.pvalue))

    @property
    def is_sloped(self) -> bool:
        """Whether the slope differs from zero."""
        return self.p_value < SIGNIFICANT
