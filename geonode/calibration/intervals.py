"""Intervals of concentrations by calibrations whose errors are known on left-out samples alone.

The error e of a left-out sample has the variance v(c) (1 + h), with h the leverage of its spectrum
among the samples it was estimated from. The same law, with the leverage among all samples, is that
of an unknown: its 90% interval is the estimate plus and minus

    t sqrt(v(c) (1 + h)),    t: 95% quantile of Student's distribution with n - 2 degrees of freedom

for n groups that were left out; the others may be those of a line. As sum e^2 / (1 + h) over n is
s^2 for a line, and the choice among calibrations takes another degree of freedom, v is that sum
over n - 1.

v is constant plus proportional to c^2, and larger by a factor at the lowest and highest level,
which were estimated by extrapolation. Estimates beyond the levels have that factor too. Neither
share nor factor is known well, so that v is averaged over both with their posterior probability
(errors normal, prior 1 / s^2 of s^2, that of `VarianceShapes` and even).

What so few levels can promise: with 3, 4, 6 and 8 groups t is 6.3, 2.9, 2.1 and 1.9, and the
interval of two is infinite. The law was chosen, against conformal quantiles of the residuals and
single variances, on simulated series and mixtures without geonode: between the ends 0.88 to 0.95 of
the intervals hold the true level with 5 to 80 levels, 0.84 to 0.92 with four; where every spectrum
errs by 8%, 0.82 with four and 0.87 with five. A level beyond those calibrated is another matter:
where the response bends there, no residual tells, and 0.80 to 0.86 hold. Jackknife+ (R. F. Barber,
E. J. Candes, A. Ramdas and R. J. Tibshirani, Ann. Statist. 49 (2021) 486) needs nine groups for
90%.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import stdtrit  # scipy.stats takes 0.3 s to import

from geonode.calibration.methods import Fitted
from geonode.posterior.prior import COVERAGE
from geonode.spectra.replicates import VarianceShapes

FACTORS = 4.0 ** np.arange(6)
"""Of the variance at the lowest and highest level."""

EXACT = 1e-9
"""Standard deviation that is rounding, relative to the largest concentration."""

Sets = list[list[tuple[float, float]]]
"""Intervals of the 90% set of every sample, ascending."""


@dataclass(frozen=True)
class ErrorLaw:
    """Variance v of an error over concentration: constant + proportional c^2.

    Attributes:
        inside: constant (concentration squared) and proportional part between the levels.
        beyond: the same beyond them.
        low, high: lowest and highest level.
        freedom: degrees of freedom.
    """

    inside: tuple[float, float]
    beyond: tuple[float, float]
    low: float
    high: float
    freedom: int

    @classmethod
    def of(
        cls,
        concentrations: Float[np.ndarray, "sample"],
        errors: Float[np.ndarray, "sample"],
        leverages: Float[np.ndarray, "sample"],
        groups: Int[np.ndarray, "sample"],
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
        by_factor = np.where(at_end, FACTORS, 1.0)
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

        return cls(
            parts(np.ones_like(FACTORS)), parts(FACTORS), low, high, max(round(count) - 2, 0)
        )

    @property
    def quantile(self) -> float:
        """t: half width of an interval over the standard deviation."""
        if not self.freedom:
            return float("inf")
        return float(stdtrit(self.freedom, (1 + COVERAGE) / 2))

    def half_widths(
        self,
        estimates: Float[np.ndarray, "unknown"],
        leverages: Float[np.ndarray, "unknown"],
    ) -> Float[np.ndarray, "unknown"]:
        """Half widths of the intervals of estimates; infinite without a degree of freedom.

        Args:
            estimates: of unknown spectra.
            leverages: theirs.
        """
        outside = (estimates < self.low) | (estimates > self.high)
        within, beyond = (a + b * estimates**2 for a, b in (self.inside, self.beyond))
        variance = np.where(outside, beyond, within) * (1 + leverages)
        return self.quantile * np.sqrt(variance)


def intervals_left_out(
    concentrations: Float[np.ndarray, "sample"],
    errors: Float[np.ndarray, "sample"],
    leverages: Float[np.ndarray, "sample"],
    groups: Int[np.ndarray, "sample"],
    fitted: Fitted,
) -> Sets:
    """Intervals of left-out samples, each by the law of the errors of the other groups.

    The first arguments are those of `ErrorLaw.of`; the estimates are those of a calibration.
    """
    half = np.empty(len(errors))
    for group in np.unique(groups):
        out = groups == group
        of_others = (values[~out] for values in (concentrations, errors, leverages, groups))
        law = ErrorLaw.of(*of_others)
        half[out] = law.half_widths(fitted.left_out[out], fitted.leverages[out])
    ends = np.stack([fitted.left_out - half, fitted.left_out + half], axis=1).tolist()
    return [[(low, high)] for low, high in ends]


def are_held(true: Float[np.ndarray, "sample"], sets: Sets) -> Bool[np.ndarray, "sample"]:
    """Whether sets hold the true concentrations."""
    pairs = zip(true, sets, strict=True)
    return np.array([any(low <= one <= high for low, high in parts) for one, parts in pairs])
