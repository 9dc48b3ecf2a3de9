"""Precision profile: the standard error of an unknown over its concentration.

For geonode it is k / sqrt(g), with g the information along its curve (`estimation.information`).
The factor k comes from the levels that were left out: with e the error of such a level and f the
floor 1 / sqrt(g) at its estimate, |e| / f is k times the size of a standard normal number, whose
mean logarithm is `OF_NORMAL`. So ln k is the mean of ln |e| - ln f - `OF_NORMAL` over the levels
between the ends, and of `PRIOR` more of ln `EXPECTED`. Both were chosen on simulated series
(`research.information`). For all other methods the profile is the square root of their law of
errors. A spectrum that fits several concentrations has no standard error.

Source: R. P. Ekins, The precision profile: its use in assay design, assessment and quality control,
in W. M. Hunter and J. E. T. Corrie (eds.), Immunoassays for Clinical Chemistry, Churchill
Livingstone 1983.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from geonode.calibration.fit import LARGEST_ERROR, Calibration
from geonode.estimation.information import Information
from geonode.ties import EQUAL, first_largest, first_smallest

EXPECTED, PRIOR = 1.5, 3.0
"""Factor k of simulated series, and the levels that it counts for."""

OF_NORMAL = -(np.euler_gamma + np.log(2)) / 2
"""Mean logarithm of the size of a standard normal number."""

SMALLEST_RATIO, LARGEST_RATIO = 0.1, 10.0
"""Of an error to the floor that count: some are tiny by luck, some levels are off."""

GRID = 1025
"""Concentrations of the profile of a method without a curve."""

Ranges = list[tuple[float, float]]


@dataclass(frozen=True, eq=False)
class PrecisionProfile:
    """Standard error over concentration, from the lowest level to the highest."""

    concentrations: Float[np.ndarray, "node"]
    standard_errors: Float[np.ndarray, "node"]
    """Of the estimate of one unknown spectrum (unit of the concentrations)."""
    floor: Float[np.ndarray, "node"] | None = None
    """1 / sqrt(g); None: the method has no curve."""

    @classmethod
    def of(cls, calibration: Calibration) -> "PrecisionProfile":
        """Profile of the method that estimates."""
        levels, method = calibration.concentrations, calibration.method
        if calibration.law is None:
            assert calibration.curve is not None  # geonode estimates
            information = Information.of(calibration.curve)
            return cls.of_curve(information, levels, calibration.verdict.by_key(method).estimates)
        # The leverage among all samples, from that among the others.
        apart = calibration.fitted[method].leverages
        grid, order = np.linspace(levels.min(), levels.max(), GRID), np.argsort(levels)
        leverages = np.interp(grid, levels[order], (apart / (1 + apart))[order])
        return cls(grid, calibration.law.standard_errors(grid, leverages))

    @classmethod
    def of_curve(
        cls,
        information: Information,
        levels: Float[np.ndarray, "level"],
        left_out: Float[np.ndarray, "level"],
    ) -> "PrecisionProfile":
        """Profile of geonode.

        Args:
            information: along its curve.
            levels: known concentrations, in any order.
            left_out: estimates of each without it.
        """
        low, high = levels.min(), levels.max()
        between = (low < levels) & (levels < high)
        factor = factor_of(
            np.abs(left_out - levels)[between],
            np.interp(left_out[between], information.concentrations, information.floor),
        )
        nodes = information.concentrations
        grid = np.unique(np.concatenate([[low, high], nodes[(low < nodes) & (nodes < high)]]))
        floor = np.interp(grid, nodes, information.floor)
        return cls(grid, factor * floor, floor)

    def at(self, estimates: Float[np.ndarray, "unknown"]) -> Float[np.ndarray, "unknown"]:
        """Standard errors of estimates; NaN beyond the levels, where nothing was left out."""
        low, high = self.concentrations[[0, -1]]
        margin = EQUAL * high
        found = np.interp(estimates, self.concentrations, self.standard_errors)
        inside = (low - margin <= estimates) & (estimates <= high + margin)
        return np.where(inside, found, np.nan)

    @property
    def relative(self) -> Float[np.ndarray, "node"]:
        """Standard error over concentration; infinite at zero."""
        with np.errstate(divide="ignore"):
            return self.standard_errors / self.concentrations

    @property
    def smallest(self) -> tuple[float, float]:
        """Concentration of the smallest standard error, and this."""
        place = int(first_smallest(self.standard_errors))
        return float(self.concentrations[place]), float(self.standard_errors[place])

    @property
    def length(self) -> float:
        """Number of standard errors from end to end: how many concentrations are told apart."""
        return float(np.trapezoid(1 / self.standard_errors, self.concentrations))

    def working_range(self, precision: float = 0.2) -> tuple[float, float] | None:
        """Longest range where the relative standard error is at most `precision`; None: none is.

        Its lower end is the functional limit of quantification.
        """
        found = self._below(precision * self.concentrations - self.standard_errors)
        if not found:
            return None
        return found[int(first_largest(np.array([high - low for low, high in found])))]

    @property
    def blind(self) -> Ranges:
        """Ranges where an estimate tells little: the response turns, or saturates."""
        return self._below(self.standard_errors - LARGEST_ERROR * np.ptp(self.concentrations))

    def _below(self, margin: Float[np.ndarray, "node"]) -> Ranges:
        """Ranges where a margin, linear between the nodes, is not negative."""
        nodes, held = self.concentrations, margin >= 0
        steps = np.diff(np.concatenate([[False], held, [False]]).astype(int))

        def crossed(out: int, within: int) -> float:
            if not 0 <= out < len(nodes):
                return float(nodes[within])
            share = margin[within] / (margin[within] - margin[out])
            return float(nodes[within] + share * (nodes[out] - nodes[within]))

        starts, ends = np.flatnonzero(steps == 1), np.flatnonzero(steps == -1) - 1
        return [
            (crossed(start - 1, start), crossed(end + 1, end))
            for start, end in zip(starts, ends, strict=True)
        ]


def factor_of(errors: Float[np.ndarray, "level"], floors: Float[np.ndarray, "level"]) -> float:
    """Factor k, from sizes of errors and the floors at their estimates."""
    ratios = np.clip(errors / floors, SMALLEST_RATIO, LARGEST_RATIO)
    own = np.sum(np.log(ratios) - OF_NORMAL)
    return float(np.exp((PRIOR * np.log(EXPECTED) + own) / (PRIOR + len(ratios))))
