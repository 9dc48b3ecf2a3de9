"""Methods compared on left-out levels, and the one to use.

The rule: a method counts if it beats the mean of the other levels, which knows no spectrum, both
in the median of its absolute errors and in their root mean square. Where the levels span more
than two decades, the root mean square is that of the highest levels alone. There the errors
relative to the levels count too: a method whose median is one half or more does not count, and
methods are compared by both root mean squares. A relative error is at most 1, that of a method
that knows nothing, and that of a blank is relative to the lowest positive level.

The best is the one of the smallest root mean square (the smallest product of the two). Another is
as good if its errors are larger by at most `MARGIN`. The simplest method that is as good is the
one to use. If no method counts, none is. Of n levels, the errors of a method that reads one
wavelength count 1 + 1 / n times: with so few levels one of five such methods is good by chance. On
simulated mixtures of 4 to 6 levels this makes the unknowns better by 5%, and costs nothing else.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from geonode.calibration.methods import ConcentrationScores
from geonode.spectra.chart import spans_decades
from geonode.ties import EQUAL, first_smallest
from geonode.wording import number, quantity

MARGIN = 1.05
"""Times the smallest error that is as good as the smallest.

On simulated series and mixtures of 4 to 80 levels a simpler method within it costs 1% of accuracy;
a fifth, one standard error of a root mean square, or that of paired squares cost 3 to 20%.
"""

RIVAL = 2.0
"""Times the smallest error, beyond which a method was never about to be chosen."""

LARGEST_RELATIVE = 0.5
"""Median error relative to the levels, from which a method does not count over decades."""

NAMES = {
    "straight_line": "straight line",
    "line_over_c": "straight line, weighted 1/c",
    "line_over_c2": "straight line, weighted 1/c²",
    "quadratic": "quadratic",
    "single_wavelength": "best single wavelength",
    "pcr": "PCR",
    "pls": "PLS",
    "preprocessed_pls": "PLS on preprocessings",
    "geonode": "geonode",
}
"""Names of the methods for people, the simplest method first."""

OF_ONE_WAVELENGTH = [*NAMES][:5]
"""Methods that read one wavelength."""


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
        best: the method with the smallest error, of those better than the guess if any is.
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
        whole = cls(levels, methods, guess, methods[0], None)
        counting = [method for method in methods if whole.counts(method)]
        compared = counting or methods
        squares = _squares(levels, {method.key: method.estimates for method in compared})
        best, simplest = _chosen(squares.mean(axis=1), levels)
        chosen = compared[int(simplest)] if counting else None
        return replace(whole, best=compared[int(best)], chosen=chosen)

    @property
    def used(self) -> Method:
        """The chosen method; the best where none is good enough."""
        return self.chosen or self.best

    def by_key(self, key: str) -> Method:
        """Method of a key."""
        return next(method for method in self.methods if method.key == key)

    def counts(self, method: Method) -> bool:
        """Whether a method is better than the mean of the other levels.

        Over decades it must also give the size of most concentrations.
        """
        if spans_decades(self.levels):
            positive = self.levels > 0
            relative = np.abs(method.estimates - self.levels)[positive] / self.levels[positive]
            if np.median(relative) >= (1 - EQUAL) * LARGEST_RELATIVE:
                return False
        # The mean of the others itself has their errors, but for rounding.
        smaller = method.scores.median_absolute_error < (1 - EQUAL) * self.guess
        return smaller and method.scores.q2 > EQUAL

    def p_value(self, method: Method) -> float | None:
        """Wilcoxon's signed-rank test of its absolute errors against those of the best; two-sided.

        None for the best itself, and where all errors are equal.
        """
        from scipy.stats import wilcoxon  # noqa: PLC0415 - 0.3 s, which saved ones do not need

        errors, of_best = (np.abs(one.estimates - self.levels) for one in (method, self.best))
        apart = errors - of_best
        return float(wilcoxon(apart).pvalue) if apart.any() else None

    def sentence(self, unit: str, wavelengths: dict[str, str]) -> str:
        """Verdict in one sentence: the method to use, and its errors.

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
                f"None of the methods can be used: {reason}. The smallest error (RMSEP) is "
                f"{self._error(self.best, unit)}, by {_called(self.best)}."
            )
        chosen = self.chosen
        at = f" at {wavelengths[chosen.key]}" if chosen.key in wavelengths else ""
        median = quantity(chosen.scores.median_absolute_error, unit, 2)
        use = f"Use {_called(chosen)}{at}: RMSEP {self._error(chosen, unit)}, median error {median}"
        if chosen is not self.best:
            share = chosen.scores.rmsep_of_range - self.best.scores.rmsep_of_range
            by = f"smaller by {number(100 * share, 2)} % of the range"
            than = f"{self.best.name}'s typical error is {by if share > 0 else 'no smaller'}"
            name = _called(chosen)
            return f"{use}. {name[0].upper()}{name[1:]} is simplest; {than}."
        others = [one for one in self.methods if one is not chosen]
        if not others:
            return f"{use}."
        squares = _squares(self.levels, {one.key: one.estimates for one in others})
        second = others[int(_chosen(squares.mean(axis=1), self.levels)[0])]
        smaller = not spans_decades(self.levels) and second.scores.rmsep < chosen.scores.rmsep
        alone = smaller and second.key in OF_ONE_WAVELENGTH
        but = ", but from one wavelength alone" if alone else ""
        return f"{use}; next is {_called(second)} with {self._error(second, unit)}{but}."

    def _error(self, method: Method, unit: str) -> str:
        """Root mean square error, also as share of the range and, over decades, of the levels."""
        scores = method.scores
        shares = f"{number(100 * scores.rmsep_of_range, 2)} % of the range"
        if spans_decades(self.levels):
            relative = np.sqrt(_squares(self.levels, {"": method.estimates})[0, :, 1].mean())
            shares += f", {number(100 * float(relative), 2)} % of the level"
        return f"{quantity(scores.rmsep, unit, 2)} ({shares})"


def chosen_without(
    levels: Float[np.ndarray, "level"],
    estimates: dict[str, Float[np.ndarray, "level"]],
    groups: Int[np.ndarray, "level"],
) -> Int[np.ndarray, "level"]:
    """Place of the method that the errors of the other groups choose, for every level.

    A method that is chosen by these same errors has slightly more in use: one with small errors by
    chance is preferred. Those of the methods that are chosen by the others are not.

    Args:
        levels: the true concentrations.
        estimates: by method, the simplest first, each level estimated with its group left out.
        groups: of levels that were left out together, from 0 on.
    """
    squares = _squares(levels, estimates)
    means = squares.mean(axis=1)
    best, _ = _chosen(means, levels)
    rivals = np.flatnonzero((_sizes(means, levels) <= RIVAL * _sizes(means, levels)[best]).all(1))
    squares = squares[rivals].swapaxes(0, 1)
    of_group = np.zeros((groups.max() + 1, *squares.shape[1:]))
    np.add.at(of_group, groups, squares)
    of_others = (of_group.sum(axis=0) - of_group)[groups] / len(levels)
    return rivals[_chosen(of_others, levels)[1]]


def _squares(levels: np.ndarray, estimates: dict[str, np.ndarray]) -> np.ndarray:
    """Squared errors that count, and over decades relative ones: (method, level, kind)."""
    counted = np.array([1 + (name in OF_ONE_WAVELENGTH) / len(levels) for name in estimates])
    errors = np.abs(np.stack([*estimates.values()]) - levels)
    kinds = [errors]
    if spans_decades(levels):
        sizes = np.maximum(levels, levels[levels > 0].min())
        kinds.append(np.minimum(errors / sizes, 1))
    return (counted[:, None, None] * np.stack(kinds, axis=-1)) ** 2


def _chosen(means: np.ndarray, levels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places of the best and of the simplest method that is as good, by mean squares.

    Args:
        means: (..., method, kind).
        levels: the true concentrations.
    """
    sizes = _sizes(means, levels)
    best = first_smallest(np.log(sizes).sum(axis=-1), size=1.0)
    of_best = np.take_along_axis(sizes, best[..., None, None], axis=-2)
    simplest = np.argmax((sizes <= (1 + EQUAL) * MARGIN * of_best).all(axis=-1), axis=-1)
    return best, np.asarray(simplest)


def _sizes(means: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Root mean squares of every kind; those that are rounding are all `EQUAL` of the range."""
    return np.maximum(np.sqrt(means), EQUAL * np.array([np.ptp(levels), 1.0])[: means.shape[-1]])


def _called(method: Method) -> str:
    """Its name inside a sentence."""
    if method.key not in OF_ONE_WAVELENGTH:
        return method.name
    return f"{'the' if method.key == 'single_wavelength' else 'a'} {method.name}"
