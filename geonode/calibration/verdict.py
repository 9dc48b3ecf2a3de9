"""Methods compared on left-out levels, and the one to use.

The rule: a method counts if it beats the mean of the other levels, which knows no spectrum, both
in the median of its absolute errors and in their root mean square. Where the levels span more
than two decades, absolute errors are those of the highest levels alone: the median of the errors
relative to the levels must then be below one half too. The best is the one of the smallest
median. Another is as good if its median is at most a fifth larger, or at most one hundredth of
the range of the levels larger, and the same holds of the root mean square. The simplest method
that is as good is the one to use. If no method counts, none is.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from scipy.stats import wilcoxon

from geonode.report.wording import number, quantity
from geonode.scores.calibrations import ConcentrationScores

MARGIN = 1.2
"""Times the smallest error that is as good as the smallest."""

NEGLIGIBLE = 0.01
"""Of the range of the levels: errors that differ by less are equal."""

DECADES = 100.0
"""Highest over lowest positive level, beyond which relative errors count too."""

LARGEST_RELATIVE = 0.5
"""Median error relative to the levels, from which a method does not count over decades."""

NAMES = {
    "straight_line": "straight line",
    "single_wavelength": "best single wavelength",
    "pcr": "PCR",
    "pls": "PLS",
    "geonode": "geonode",
}
"""Names of the methods for people, the simplest method first."""

ARTICLES = {"straight_line": "a straight line", "single_wavelength": "the best single wavelength"}


@dataclass(frozen=True)
class Method:
    """One method and its errors on left-out levels.

    Attributes:
        key: one of `NAMES`.
        estimates: of every level, with this level left out.
        scores: of these.
    """

    key: str
    estimates: Float[np.ndarray, "level"]
    scores: ConcentrationScores

    @property
    def name(self) -> str:
        """Name of the method for people."""
        return NAMES[self.key]


@dataclass(frozen=True)
class Verdict:
    """Choice of the method to use.

    Attributes:
        levels: the true concentrations.
        methods: simplest first.
        guess: median error of the mean of the other levels.
        best: the method with the smallest median error, of those better than the guess if any is.
        chosen: the simplest that is as good; None: none is better than the guess.
    """

    levels: Float[np.ndarray, "level"]
    methods: list[Method]
    guess: float
    best: Method
    chosen: Method | None

    @classmethod
    def of(
        cls,
        levels: Float[np.ndarray, "level"],
        estimates: dict[str, Float[np.ndarray, "level"]],
    ) -> "Verdict":
        """Compare methods.

        Args:
            levels: the true concentrations.
            estimates: by method, each level estimated with that level left out.
        """
        methods = [
            Method(key, estimates[key], ConcentrationScores.of(levels, estimates[key]))
            for key in NAMES
            if key in estimates
        ]
        others = (levels.sum() - levels) / (len(levels) - 1)
        guess = float(np.median(np.abs(others - levels)))
        whole = cls(levels, methods, guess, min(methods, key=_errors), None)
        counting = [method for method in methods if whole.counts(method)]
        if not counting:
            return whole
        best, span = min(counting, key=_errors), float(np.ptp(levels))
        chosen = next(method for method in counting if _as_good(method, best, span))
        return replace(whole, best=best, chosen=chosen)

    def counts(self, method: Method) -> bool:
        """Whether a method is better than the mean of the other levels.

        Over decades it must also give the size of most concentrations.
        """
        if spans_decades(self.levels):
            positive = self.levels > 0
            relative = np.abs(method.estimates - self.levels)[positive] / self.levels[positive]
            if np.median(relative) >= LARGEST_RELATIVE:
                return False
        return method.scores.median_absolute_error < self.guess and method.scores.q2 > 0

    def p_value(self, method: Method) -> float | None:
        """Wilcoxon's signed-rank test of its absolute errors against those of the best; two-sided.

        None for the best itself, and where all errors are equal.
        """
        errors, of_best = (np.abs(one.estimates - self.levels) for one in (method, self.best))
        apart = errors - of_best
        return float(wilcoxon(apart).pvalue) if apart.any() else None

    def sentence(self, unit: str, wavelengths: dict[str, str]) -> str:
        """Verdict in one sentence: the method to use, and its error.

        Args:
            unit: of the concentrations.
            wavelengths: of the methods that use one, with its unit.
        """
        if self.chosen is None:
            reason = (
                "of levels over decades, none estimates most left-out ones to within half of their "
                "size"
                if spans_decades(self.levels)
                else "none estimates left-out levels better than the mean of the other levels, "
                f"{quantity(self.guess, unit, 2)} off"
            )
            return (
                f"None of the methods can be used: {reason}. The smallest median error is "
                f"{self._error(self.best, unit)}, by {_called(self.best)}."
            )
        chosen = self.chosen
        at = f" at {wavelengths[chosen.key]}" if chosen.key in wavelengths else ""
        use = f"Use {_called(chosen)}{at}: median error {self._error(chosen, unit)}"
        if chosen is not self.best:
            return (
                f"{use}, as good here as {_called(self.best)} with {self._error(self.best, unit)}."
            )
        second = min((one for one in self.methods if one is not chosen), key=_errors)
        return f"{use}; the next best is {_called(second)} with {self._error(second, unit)}."

    def _error(self, method: Method, unit: str) -> str:
        scores = method.scores
        of_range = number(100 * scores.median_error_of_range, 2)
        return f"{quantity(scores.median_absolute_error, unit, 2)} ({of_range} % of the range)"


def spans_decades(levels: Float[np.ndarray, "level"]) -> bool:
    """Whether levels, ascending, span more than `DECADES` above zero."""
    positive = levels[levels > 0]
    return bool(positive[-1] > DECADES * positive[0])


def _called(method: Method) -> str:
    """Its name inside a sentence."""
    return ARTICLES.get(method.key, method.name)


def _errors(method: Method) -> tuple[float, float]:
    return method.scores.median_absolute_error, method.scores.rmsep


def _as_good(method: Method, best: Method, span: float) -> bool:
    """Whether neither error is much larger than that of the best."""
    pairs = zip(_errors(method), _errors(best), strict=True)
    return all(error <= max(MARGIN * least, least + NEGLIGIBLE * span) for error, least in pairs)
