"""Methods compared on left-out levels, and whether their combination can be used.

What estimates, unless a method is asked for, is the mean of all methods with weights by their
errors (`combination`). It counts, as any method does, if it beats the mean of the other levels,
which knows no spectrum, both in the median of its absolute errors and in their root mean square.
Where the levels span more than two decades, the root mean square is that of the highest levels
alone. There the errors relative to the levels count too: a method whose median is one half or more
does not count. A relative error is at most 1, that of a method that knows nothing, and that of a
blank is relative to the lowest positive level.

The errors of the combination are those of the whole procedure, each level left out before weights
are taken. Those of the best single method are not: it is the best by these same errors.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from geonode.calibration.combination import ByMethod, Combination, Known, errors_of
from geonode.calibration.methods import CALIBRATIONS, OF_ONE_WAVELENGTH, ConcentrationScores
from geonode.spectra.chart import spans_decades
from geonode.ties import EQUAL, first_smallest
from geonode.wording import listed, number, quantity

LARGEST_RELATIVE = 0.5
"""Median error relative to the levels, from which a method does not count over decades."""

NAMES = {key: one.name for key, one in CALIBRATIONS.items()}
NAMES |= {"geonode": "geonode", "combined": "combined"}
"""Names of the methods for people, the simplest method first."""

DIFFERS = 0.05
"""Probability of errors as different by chance, below which methods differ."""

MENTIONED = 0.1
"""Weight in the combination from which a method is named, the first three at most."""


class Method(NamedTuple):
    """One method and its errors on left-out levels."""

    key: str  # one of `NAMES`
    name: str  # for people
    estimates: Known  # of every level, with this level left out
    scores: ConcentrationScores  # of these


@dataclass(frozen=True)
class Verdict:
    """Comparison of methods, and the one to use."""

    levels: Known
    """The true concentrations."""
    methods: list[Method]
    """Simplest first, the combination last."""
    guess: float
    """Median error of the mean of the other levels."""
    best: Method
    """Single method with the smallest error of `errors_of`."""
    combination: Combination
    """Of the single methods."""

    @classmethod
    def of(cls, levels: Known, estimates: ByMethod) -> "Verdict":
        """Compare methods.

        Args:
            levels: the true concentrations.
            estimates: by method, each level estimated with that level left out; those of
                "combined" as of `combined_left_out`.
        """
        methods = [
            Method(key, name, estimates[key], ConcentrationScores.of(levels, estimates[key]))
            for key, name in NAMES.items()
            if key in estimates
        ]
        guess = float(np.median(np.abs(_mean_of_others(levels) - levels)))
        single = {one.key: one.estimates for one in methods if one.key != "combined"}
        best = methods[int(first_smallest(errors_of(levels, single)))]
        return cls(levels, methods, guess, best, Combination.of(levels, single))

    @property
    def chosen(self) -> Method | None:
        """The combination; None: it is no better than the guess."""
        return self.methods[-1] if self.counts(self.methods[-1]) else None

    def by_key(self, key: str) -> Method:
        """Method of a key."""
        return next(method for method in self.methods if method.key == key)

    def counts(self, method: Method) -> bool:
        """True if a method is better than the mean of the other levels.

        Over decades it must also give the size of most concentrations.
        """
        if spans_decades(self.levels):
            positive = self.levels > 0
            relative = np.abs(method.estimates - self.levels)[positive] / self.levels[positive]
            if np.median(relative) >= (1 - EQUAL) * LARGEST_RELATIVE:
                return False
        # The mean of the others itself has their errors, but for rounding.
        smaller = method.scores.median_absolute_error < (1 - EQUAL) * self.guess
        both = {"own": method.estimates, "guess": _mean_of_others(self.levels)}
        own, of_guess = errors_of(self.levels, both).tolist()
        return smaller and own < (1 - EQUAL) * of_guess

    def beside_best(self, method: Method) -> str:
        """Comparison of the errors of a method with those of the best single one, in words.

        By Wilcoxon's signed-rank test of their sizes, two-sided.
        """
        from scipy.stats import wilcoxon  # noqa: PLC0415 - 0.3 s, which saved ones do not need

        if method is self.best:
            return "the best"
        own, best = (np.abs(one.estimates - self.levels) for one in (method, self.best))
        if not (own - best).any():
            return "equal"
        p_value = float(wilcoxon(own - best).pvalue)
        smaller = method.scores.rmsep < self.best.scores.rmsep
        apart = "smaller errors" if smaller else "larger errors"
        outcome = apart if p_value < DIFFERS else "could be as good"
        return f"{outcome} (p = {number(p_value, 2)})"

    def sentence(self, unit: str, wavelengths: dict[str, str]) -> str:
        """Verdict in one sentence: the method to use, and its errors.

        Args:
            unit: of the concentrations.
            wavelengths: of the methods that use one, with its unit.
        """
        if self.chosen is None:
            reason = (
                "levels span decades, and most left-out ones are not estimated to within half of "
                "their size"
                if spans_decades(self.levels)
                else "left-out levels are estimated no better than by the mean of the other "
                f"levels, {quantity(self.guess, unit, 2)} off"
            )
            some = any(map(self.counts, self.methods))
            none = "The combination of all methods cannot be used"
            none = none if some else "None of the methods can be used, nor their combination"
            return (
                f"{none}: {reason}. The smallest error (RMSEP) is {self._error(self.best, unit)}, "
                f"by {_called(self.best)}."
            )
        chosen, best = self.chosen, self.best
        at = f" at {wavelengths[best.key]}" if best.key in wavelengths else ""
        median = quantity(chosen.scores.median_absolute_error, unit, 2)
        errors = f"RMSEP {self._error(chosen, unit)}, median error {median}"
        return (
            f"Use {self.composition}: {errors}. The best single method, by these same errors, is "
            f"{_called(best)}{at} with RMSEP {self._error(best, unit)}."
        )

    @property
    def composition(self) -> str:
        """The combination and its largest weights."""
        order = sorted(self.combination.weights.items(), key=lambda one: -round(one[1], 2))
        named = [f"{NAMES[key]} ({one:.0%})" for key, one in order if one >= MENTIONED]
        mostly = "mostly " if order[0][1] > 1 / 2 else ""
        return f"combined: {mostly}{listed(named[:3])}"

    def relative_error(self, method: Method) -> float | None:
        """Root mean square error relative to the levels, at most 1 each; None: not over decades."""
        if not spans_decades(self.levels):
            return None
        sizes = np.maximum(self.levels, self.levels[self.levels > 0].min())
        relative = np.minimum(np.abs(method.estimates - self.levels) / sizes, 1)
        return float(np.sqrt(np.mean(relative**2)))

    def _error(self, method: Method, unit: str) -> str:
        """Root mean square error, also as share of the range and, over decades, of the levels."""
        scores = method.scores
        shares = f"{number(100 * scores.rmsep_of_range, 2)} % of the range"
        if (relative := self.relative_error(method)) is not None:
            shares += f", {number(100 * relative, 2)} % of the level"
        return f"{quantity(scores.rmsep, unit, 2)} ({shares})"


def _mean_of_others(levels: np.ndarray) -> np.ndarray:
    """Estimates of every level without a spectrum."""
    return (levels.sum() - levels) / (len(levels) - 1)


def _called(method: Method) -> str:
    """Its name inside a sentence."""
    if method.key not in OF_ONE_WAVELENGTH:
        return method.name
    return f"{'the' if method.key == 'single_wavelength' else 'a'} {method.name}"
