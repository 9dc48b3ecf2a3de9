"""Errors that methods are compared by, and the mean of all methods with weights by them.

Unknowns lie between the lowest and the highest level, which left-out levels at the ends do not: all
methods extrapolate there, and one large error would decide. So the error of a method is the mean
absolute error of the left-out samples between the ends, if three different levels are there; of
fewer, that of all. An outlier counts by its size, not by its square. Where levels span more than
two decades it is the geometric mean of that and of the mean error relative to the levels, at most 1
each, that of a method that knows nothing; that of a blank is relative to the lowest positive level.

Of n samples the errors of a method that reads one wavelength count 1 + 1 / n times: with few levels
one of five such methods is good by chance.

The weight of a method is its error to the -`SHARPNESS`: a method off by several times the best
hardly counts, and nothing jumps where two are equally good. The errors of all but geonode count
`HANDICAP` times: it was learned on thousands of series, and the others, of a few levels, are good
by chance more often. Of three levels geonode knows too little to be trusted more. Estimates are cut
off at one span of the levels beyond them, as nothing calibrates there. That of geonode is the
likeliest concentration; where a spectrum has two, its errors on left-out samples say how often it
is the other one.

The errors of the combination are those of the whole procedure: a sample left out is estimated by
all methods without its fold, with weights from the errors of the other folds alone.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from geonode.calibration.methods import OF_ONE_WAVELENGTH
from geonode.spectra.chart import spans_decades
from geonode.spectra.table import FEWEST_LEVELS, without_rounding
from geonode.ties import EQUAL

SHARPNESS = 8
"""Of the weights; chosen on simulated series and mixtures, of 3 to 16."""

HANDICAP = 1.5
"""Of the errors of all but geonode; chosen on simulated series, where 1.3 to 2 are as good."""

FEWEST_BETWEEN = 3
"""Different levels between the ends, from which the ends do not count."""

Known = Float[np.ndarray, "sample"]
ByMethod = dict[str, Float[np.ndarray, "sample"]]


def errors_of(levels: Known, estimates: ByMethod) -> Float[np.ndarray, "method"]:
    """Errors by which methods are compared, in units of the range; rounding is `EQUAL` of it.

    Args:
        levels: the true concentrations.
        estimates: by method, each sample estimated without those of its fold.
    """
    levels = without_rounding(levels)
    between = (levels > levels.min()) & (levels < levels.max())
    if len(np.unique(levels[between])) < FEWEST_BETWEEN:
        between[:] = True
    away = np.abs(np.stack([*estimates.values()]) - levels)[:, between]
    found = away.mean(axis=1) / (np.ptp(levels) or 1.0)
    if levels.any() and spans_decades(levels):
        sizes = np.maximum(levels, levels[levels > 0].min())[between]
        found = np.sqrt(found * np.minimum(away / sizes, 1).mean(axis=1))
    counted = [1 + (key in OF_ONE_WAVELENGTH) / len(levels) for key in estimates]
    return np.maximum(found, EQUAL) * counted


class Combination(NamedTuple):
    """Weighted mean of the estimates of methods."""

    weights: dict[str, float]
    """By method; their sum is 1."""
    low: float
    """Lowest level."""
    high: float
    """Highest level."""

    @classmethod
    def of(cls, levels: Known, estimates: ByMethod) -> "Combination":
        """Combination by the errors of samples left out; arguments are those of `errors_of`."""
        handicap = HANDICAP if len(np.unique(levels)) >= FEWEST_LEVELS else 1.0
        handicaps = [1.0 if key == "geonode" else handicap for key in estimates]
        errors = errors_of(levels, estimates) * handicaps
        powers = (errors.min() / errors) ** SHARPNESS
        powers[powers < EQUAL] = 0  # beyond rounding they change nothing, and take time
        weights = dict(zip(estimates, (powers / powers.sum()).tolist(), strict=True))
        return cls(weights, float(levels.min()), float(levels.max()))

    def of_methods(self, estimates: ByMethod, leverages: ByMethod) -> tuple[Known, Known]:
        """Means of estimates, and of their leverages.

        Args:
            estimates: by method, at least those that have a weight.
            leverages: of the same; geonode has none.
        """
        used = [key for key, weight in self.weights.items() if weight]
        span = self.high - self.low or np.inf
        weights = np.array([self.weights[key] for key in used])
        values = np.stack([estimates[key] for key in used])
        none = np.zeros(values.shape[1])
        its = np.stack([leverages.get(key, none) for key in used])
        return weights @ values.clip(self.low - span, self.high + span), weights @ its


def combined_left_out(
    levels: Known, estimates: ByMethod, leverages: ByMethod, folds: Int[np.ndarray, "sample"]
) -> tuple[Known, Known]:
    """Estimates and leverages of samples left out, with weights by the other folds alone.

    Args:
        levels: the true concentrations.
        estimates: by method, each sample estimated without those of its fold.
        leverages: of these, but for geonode.
        folds: of `folds_of`.
    """

    def taken(by_method: ByMethod, which: np.ndarray) -> dict[str, np.ndarray]:
        return {key: values[which] for key, values in by_method.items()}

    found, its = np.empty((2, len(levels)))
    for fold in np.unique(folds):
        out = folds == fold
        of_others = Combination.of(levels[~out], taken(estimates, ~out))
        found[out], its[out] = of_others.of_methods(taken(estimates, out), taken(leverages, out))
    return found, its
