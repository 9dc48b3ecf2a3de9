"""Precision profile: the standard error of an estimate over the concentration.

For geonode it is half of what lies within a length of k on both sides, in the metric of information
(`estimation.information`). k comes from the levels left out: the length z between a level and its
estimate is k times the size of a normal number, whose mean logarithm is `OF_NORMAL`. ln k is the
mean of ln z - `OF_NORMAL` over the levels between the ends, and `PRIOR` more of ln `EXPECTED`, plus
ln `OF_GEONODE`, as levels left out lie farther from the others than unknowns do.
Other methods have the square root of their law of errors, times `OF_METHOD`, as those that are
given as numbers have a law that is small, some by luck; the combination, whose errors have longer
tails, times `OF_COMBINATION`. The constants were chosen on simulated series
(`research.information`). Spectra that fit several concentrations have no standard error.

Source: R. P. Ekins, The precision profile: its use in assay design, assessment and quality control,
in W. M. Hunter and J. E. T. Corrie (eds.), Immunoassays for Clinical Chemistry, Churchill
Livingstone 1983.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from geonode.calibration.fit import LARGEST_ERROR, Calibration
from geonode.estimation.curve import Curve
from geonode.estimation.information import Information
from geonode.estimation.range import CURVE_NODES
from geonode.ties import EQUAL, first_largest

EXPECTED, PRIOR = 1.25, 2.0  # k of simulated series, and the levels that it counts for
OF_GEONODE = 0.88  # k of unknowns over that of levels left out
OF_METHOD, OF_COMBINATION = 1.05, 0.88  # standard error over the root of the law of errors
OF_NORMAL = -(np.euler_gamma + np.log(2)) / 2  # mean logarithm of the size of a normal number
USUAL_LENGTHS = 0.1, 10.0  # z that count: some are tiny by luck, some levels are off

Levels = Float[np.ndarray, "level"]


@dataclass(frozen=True, eq=False)
class PrecisionProfile:
    """Standard error over concentration, from the lowest level to the highest."""

    concentrations: Float[np.ndarray, "node"]
    standard_errors: Float[np.ndarray, "node"]
    """Of the estimate by one spectrum (unit of the concentrations)."""
    length: float
    """Standard errors from end to end: about as many concentrations can be told apart."""

    @classmethod
    def of(cls, calibration: Calibration) -> "PrecisionProfile":
        """Profile of the method that estimates."""
        levels, method = calibration.concentrations, calibration.method
        if calibration.law is None:
            assert calibration.curve is not None  # geonode estimates
            estimates = calibration.verdict.by_key(method).estimates
            return cls.of_curve(calibration.curve, levels, estimates)
        weights = calibration.verdict.combination.weights if method == "combined" else {method: 1}
        each = [weights.get(key, 0) * one.leverages for key, one in calibration.fitted.items()]
        apart = np.sum(each, axis=0)
        grid, order = np.linspace(levels.min(), levels.max(), CURVE_NODES), np.argsort(levels)
        # The leverage among all samples, from that among the others.
        leverages = np.interp(grid, levels[order], (apart / (1 + apart))[order])
        share = OF_COMBINATION if method == "combined" else OF_METHOD
        errors = share * calibration.law.deviations(grid, leverages)[0]
        return cls(grid, errors, float(np.trapezoid(1 / errors, grid)))

    @classmethod
    def of_curve(cls, curve: Curve, levels: Levels, left_out: Levels) -> "PrecisionProfile":
        """Profile of geonode, by known levels in any order and the estimate of each without it."""
        information, nodes = Information.of(curve), curve.concentrations
        low, high = levels.min(), levels.max()
        apart = np.interp([levels, left_out], nodes, information.length)
        inside = (low < levels) & (levels < high)
        own = np.log(np.clip(np.abs(apart[1] - apart[0])[inside], *USUAL_LENGTHS)) - OF_NORMAL
        size = np.exp((PRIOR * np.log(EXPECTED) + own.sum()) / (PRIOR + len(own))) * OF_GEONODE
        grid = np.concatenate([[low], nodes[(low < nodes) & (nodes < high)], [high]])
        errors = np.interp(grid, nodes, information.errors(size))
        length = np.ptp(np.interp([low, high], nodes, information.length))
        return cls(grid, errors, float(length / size))

    def at(self, estimates: Float[np.ndarray, "unknown"]) -> Float[np.ndarray, "unknown"]:
        """Standard errors of estimates; NaN beyond the levels, where none is known."""
        low, high = self.concentrations[[0, -1]]
        found = np.interp(estimates, self.concentrations, self.standard_errors)
        beyond = np.abs(2 * estimates - low - high) > (1 + EQUAL) * (high - low)
        return np.where(beyond, np.nan, found)

    def working_range(self, precision: float = 0.2) -> tuple[float, float] | None:
        """Longest range where the standard error is at most this share of the concentration.

        Its lower end is the functional limit of quantification. None: there is no such range.
        """
        found = self._ranges(precision * self.concentrations - self.standard_errors)
        lengths = np.array([high - low for low, high in found])
        return found[int(first_largest(lengths))] if found else None

    @property
    def blind(self) -> list[tuple[float, float]]:
        """Ranges where estimates tell little, as where the response turns or saturates."""
        return self._ranges(self.standard_errors - LARGEST_ERROR * np.ptp(self.concentrations))

    def _ranges(self, margin: np.ndarray) -> list[tuple[float, float]]:
        """Ranges where a margin is not negative; it is linear between the nodes."""
        nodes, within = self.concentrations, margin >= 0
        at = np.flatnonzero(within[1:] != within[:-1])
        share = margin[at] / (margin[at] - margin[at + 1])
        crossed = nodes[at] + share * (nodes[at + 1] - nodes[at])
        ends = np.concatenate([nodes[:1][within[:1]], crossed, nodes[-1:][within[-1:]]]).tolist()
        return list(zip(ends[::2], ends[1::2], strict=True))
