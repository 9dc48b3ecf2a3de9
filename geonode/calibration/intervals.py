"""Intervals of concentrations by calibrations whose errors are known on left-out samples alone.

The error e of a left-out sample has the variance v(c) (1 + h), with h the leverage of its spectrum
among the samples it was estimated from. The same law, with the leverage among all samples, is that
of an unknown: its interval, of 90% say, is the concentrations c around its estimate from which it
is no farther than

    t sqrt(v(c) (1 + h)),    t: 95% quantile of Student's distribution, n - 3/2 degrees of freedom

for n groups that were left out; the others may be those of a line. As sum e^2 / (1 + h) over n is
s^2 for a line, and the choice among calibrations takes another degree of freedom, v is that sum
over n - 1.

v is constant plus proportional to c^2, taken at the estimate, and larger by a factor at the lowest
and highest level, which were estimated by extrapolation, and beyond them. Neither share nor factor
is known well, so that v is averaged over both with their posterior probability (errors normal,
prior 1 / s^2 of s^2, that of `VarianceShapes` and even). Half widths beyond are `WIDER_BEYOND`
times that, as only two levels tell their factor. A concentration beyond the levels is often
estimated to be within them, as where the response saturates: so an interval goes on beyond an end,
with its half width there, if the end is within `REACH` half widths of the estimate, and only on
that side.

What so few levels can promise: with 3, 4, 6 and 8 groups t is 3.7, 2.5, 2.1 and 1.9, and the
interval of two is infinite. Freedom, `WIDER_BEYOND` and `REACH` were chosen on 6960 left-out levels
of simulated series without geonode: of 3, 4, 5 and 7 levels or more .97, .93, .92 and .92 of the
intervals hold a level between them, .89 to .93 one beyond them (by symmetric intervals with n - 2
it was .99, .95, .94 and .92, and .92, .83, .81 and .80).
Jackknife+ (R. F. Barber, E. J. Candes, A. Ramdas and R. J. Tibshirani, Ann. Statist. 49 (2021) 486)
needs nine groups for 90%.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import stdtrit  # scipy.stats takes 0.3 s to import

from geonode.parameter_types import require_level
from geonode.posterior.prior import COVERAGE
from geonode.spectra.replicates import VarianceShapes

END_FACTORS = 4.0 ** np.arange(6)
"""Of the variance at the lowest and highest level."""

WIDER_BEYOND = 1.15
"""Factor of half widths beyond the levels."""

REACH = 1.5
"""Half widths from an estimate to an end of the levels, within which it may be beyond it."""

EXACT = 1e-9
"""Standard deviation that is rounding, relative to the largest concentration."""

OfSamples = Float[np.ndarray, "sample"]
OfUnknowns = Float[np.ndarray, "unknown"]
EndsOfUnknowns = Float[np.ndarray, "unknown 2"]
Groups = Int[np.ndarray, "sample"]
Sets = list[list[tuple[float, float]]]
"""Intervals of the set of every sample, ascending."""


@dataclass(frozen=True)
class ErrorLaw:
    """Variance v of an error over concentration: constant + proportional c^2."""

    inside: tuple[float, float]
    """Constant (concentration squared) and proportional part between the levels."""
    beyond: tuple[float, float]  # the same beyond them
    low: float  # lowest level
    high: float  # highest level
    freedom: int  # degrees of freedom

    @classmethod
    def of(
        cls, concentrations: OfSamples, errors: OfSamples, leverages: OfSamples, groups: Groups
    ) -> "ErrorLaw":
        """Law of errors.

        Args:
            concentrations: of the samples.
            errors: of their estimates without the samples of their group.
            leverages: of these estimates.
            groups: that were left out together; each counts as one sample.
        """
        _, group = np.unique(groups, return_inverse=True)
        share = 1 / np.bincount(group)[group]
        count = float(share.sum())
        low, high = float(concentrations.min()), float(concentrations.max())
        smallest = (EXACT * (high or 1.0)) ** 2
        shapes = VarianceShapes.over(concentrations)
        by_shape = shapes.at(concentrations)
        at_end = ((concentrations == low) | (concentrations == high))[:, None]
        by_factor = np.where(at_end, END_FACTORS, 1.0)
        # Relative variances of the samples, and their common size: (sample, shape, factor).
        relative = by_shape[:, :, None] * by_factor[:, None, :]
        squares = (errors**2 / (1 + leverages) + smallest)[:, None, None]
        total = np.tensordot(share, squares / relative, 1)
        logarithm = -0.5 * np.tensordot(share, np.log(relative), 1)
        logarithm -= 0.5 * max(count - 2, 1) * np.log(total)
        logarithm += shapes.log_prior[:, None]
        weights = np.exp(logarithm - logarithm.max())
        size = weights / weights.sum() * total / max(count - 1, 1)

        def parts(factors: np.ndarray) -> tuple[float, float]:
            of_shape = size @ factors
            return float(of_shape @ shapes.constant), float(of_shape @ shapes.proportional)

        inside, beyond = parts(np.ones_like(END_FACTORS)), parts(END_FACTORS)
        return cls(inside, beyond, low, high, max(round(count) - 2, 0))

    def quantile(self, level: float = COVERAGE) -> float:
        """t: half width of an interval of a level over the standard deviation.

        Raises:
            ParameterError: the level is none.
        """
        require_level("calibration", level)
        if not self.freedom:
            return float("inf")
        return float(stdtrit(self.freedom + 1 / 2, (1 + level) / 2))

    def deviations(
        self, estimates: OfUnknowns, leverages: OfUnknowns
    ) -> Float[np.ndarray, "2 unknown"]:
        """Standard deviations of estimates of concentrations between the levels, and beyond them.

        Args:
            estimates: of unknown spectra.
            leverages: theirs.
        """
        parts = np.array([self.inside, self.beyond])
        return np.sqrt((parts[:, :1] + parts[:, 1:] * estimates**2) * (1 + leverages))

    def intervals(
        self, estimates: OfUnknowns, leverages: OfUnknowns, level: float = COVERAGE
    ) -> EndsOfUnknowns:
        """Intervals of a level; infinite without a degree of freedom. Others as of `deviations`."""
        inside, beyond = self.quantile(level) * self.deviations(estimates, leverages)
        beyond *= WIDER_BEYOND
        ends = []
        for side, near, far in ((-1, -self.high, -self.low), (1, self.low, self.high)):
            at = side * estimates
            end = at + np.where(at + REACH * inside > far, beyond, inside)
            # From beyond the other end, what lies within it has the law between the levels.
            back = np.maximum(at + inside, np.minimum(at + beyond, near))
            ends.append(side * np.where(at < near, back, end))
        return np.stack(ends, axis=1)


def intervals_left_out(
    concentrations: OfSamples,
    estimates: OfSamples,
    leverages: OfSamples,
    groups: Groups,
    folds: Groups,
    level: float = COVERAGE,
) -> Sets:
    """Intervals of left-out samples, each by the law of the errors of the other folds.

    Args:
        concentrations: of the samples.
        estimates: theirs, without the samples of their fold.
        leverages: of these estimates.
        groups: as of `ErrorLaw.of`.
        folds: of samples that were left out together.
        level: of the intervals.
    """
    ends = np.empty((len(estimates), 2))
    of_all = concentrations, estimates - concentrations, leverages, groups
    for fold in np.unique(folds):
        out = folds == fold
        law = ErrorLaw.of(*(values[~out] for values in of_all))
        ends[out] = law.intervals(estimates[out], leverages[out], level)
    return [[(low, high)] for low, high in ends.tolist()]


def is_determined(
    estimates: OfUnknowns, ends: EndsOfUnknowns, levels: Float[np.ndarray, "level"]
) -> Bool[np.ndarray, "unknown"]:
    """True where estimates show where in the range of the levels a concentration is.

    They do not if the set spans half of the range or more, or if they are beyond the levels by
    more than the range.

    Args:
        estimates: concentrations.
        ends: lowest and highest concentration of their sets, of all parts.
        levels: that were calibrated with.
    """
    low, high = float(levels.min()), float(levels.max())
    beyond = np.maximum(low - estimates, estimates - high)
    return (ends[:, 1] - ends[:, 0] < (high - low) / 2) & (beyond <= high - low)


def lengths_of(sets: Sets) -> Float[np.ndarray, "sample"]:
    """Total length of the intervals of every set."""
    return np.array([sum(high - low for low, high in parts) for parts in sets])


def are_covered(true: OfSamples, sets: Sets) -> Bool[np.ndarray, "sample"]:
    """True where sets contain the true concentrations."""
    pairs = zip(true, sets, strict=True)
    return np.array([any(low <= one <= high for low, high in parts) for one, parts in pairs])
