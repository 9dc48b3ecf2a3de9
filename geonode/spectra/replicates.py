"""Single scans about the mean spectrum of their level: how well a measurement repeats."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

CROSSINGS = 12
"""Concentrations compared at which the proportional part of a variance is as large as the constant.

They run from the highest level to the lowest positive one, evenly in their logarithms.
"""

CONSTANT = 2 / 3
"""Prior probability that there is no proportional part.

On simulated errors, constant and proportional, of 6 to 60 levels, even and over decades, 0.83 to 1
of the intervals of each third of the range then hold, 0.85 to 0.98 from 12 levels on; with 12 in 13
proportional ones it was 0.77 to 1.
"""


class VarianceShapes(NamedTuple):
    """Shapes of a variance over concentration c: constant + proportional c^2, each to be scaled."""

    constant: Float[np.ndarray, "shape"]  # constant part (concentration squared)
    proportional: Float[np.ndarray, "shape"]  # factor of c^2
    log_prior: Float[np.ndarray, "shape"]  # log prior probability

    @classmethod
    def over(cls, concentrations: Float[np.ndarray, "sample"]) -> "VarianceShapes":
        """Shapes that turn proportional somewhere in the range, and the constant one, the last."""
        top = float(concentrations.max()) or 1.0
        lowest = concentrations[concentrations > 0].min(initial=top)
        crossings = np.geomspace(top, lowest, CROSSINGS)
        prior = np.append(np.full(CROSSINGS, (1 - CONSTANT) / CROSSINGS), CONSTANT)
        proportional = np.append(np.ones(CROSSINGS), 0.0)
        return cls(np.append(crossings, top) ** 2, proportional, np.log(prior))

    def at(self, concentrations: Float[np.ndarray, "sample"]) -> Float[np.ndarray, "sample shape"]:
        """Values of every shape."""
        return self.constant + np.multiply.outer(concentrations**2, self.proportional)


@dataclass(frozen=True, eq=False)
class Replicates:
    """Deviations of scans from the mean of their level, of the levels with two scans or more."""

    scans: Int[np.ndarray, "level"]  # behind the mean spectrum of every level
    level: Int[np.ndarray, "scan"]  # place of the level of every deviation
    deviations: Float[np.ndarray, "scan wavelength"]  # (signal units)

    @classmethod
    def of(cls, scans: list[Float[np.ndarray, "_scan wavelength"]]) -> "Replicates":
        """Replicates of the scans of all levels."""
        several = [place for place, of_level in enumerate(scans) if len(of_level) > 1]
        width = scans[0].shape[1]
        return cls(
            np.array([len(of_level) for of_level in scans]),
            np.repeat(several, [len(scans[place]) for place in several]).astype(np.int64),
            np.concatenate(
                [np.zeros((0, width)), *(scans[at] - scans[at].mean(axis=0) for at in several)]
            ),
        )

    def of_means(
        self, means: Float[np.ndarray, "level wavelength"]
    ) -> tuple[Int[np.ndarray, "row"], Float[np.ndarray, "row wavelength"]]:
        """Place of the level of every scan behind mean spectra, and its spectrum."""
        once = np.flatnonzero(self.scans == 1)
        repeated = means[self.level] + self.deviations
        return np.append(once, self.level), np.concatenate([means[once], repeated])

    @property
    def noise(self) -> Float[np.ndarray, "wavelength"] | None:
        """Pooled standard deviation of one scan about the mean of its level; None without any.

        The square root of the summed squared deviations over the summed degrees of freedom
        (scans - 1) of all levels; two scans differ by sqrt(2) times this.
        """
        freedom = len(self.level) - len(np.unique(self.level))
        if freedom == 0:
            return None
        return np.sqrt(np.sum(self.deviations**2, axis=0) / freedom)

    def excess(self, levels: Int[np.ndarray, "known"]) -> Float[np.ndarray, "row wavelength"]:
        """Excess variance of one scan over that of a mean spectrum.

        Args:
            levels: places of the levels whose scans may be looked at.

        Returns:
            Rows whose outer products add up to the covariance: the pooled one of a scan, less its
            share 1 / n in a mean of n scans, on average over the levels. No rows if no level was
            scanned twice.
        """
        known = np.isin(self.level, levels)
        freedom = int(known.sum()) - len(np.unique(self.level[known]))
        share = 1 - float(np.mean(1 / self.scans[levels]))
        return self.deviations[known] * np.sqrt(share / max(freedom, 1))

    def growth(
        self, levels: Int[np.ndarray, "known"], concentrations: Float[np.ndarray, "level"]
    ) -> tuple[float, float]:
        """Variance of a scan at a concentration c over the pooled one: a + b c^2.

        Gains and preparations err in proportion to the concentration, detectors do not. The
        concentration at which both parts are equal is averaged over with its posterior probability
        (normal deviations, prior 1 / s^2 of their common variance s^2).

        Args:
            levels: places of the levels whose scans may be looked at.
            concentrations: of all levels.

        Returns:
            a, and b (per squared concentration).
        """
        known = np.isin(self.level, levels)
        places, of_level = np.unique(self.level[known], return_inverse=True)
        freedom = np.bincount(of_level) - 1
        squares = np.bincount(of_level, np.mean(self.deviations[known] ** 2, axis=1))
        total = squares.sum()
        if total == 0:
            return 1.0, 0.0
        shapes = VarianceShapes.over(concentrations)
        values = shapes.at(concentrations[places])
        size = (squares[:, None] / values).sum(axis=0)
        logarithm = -0.5 * (freedom @ np.log(values) + freedom.sum() * np.log(size))
        logarithm += shapes.log_prior
        weights = np.exp(logarithm - logarithm.max())
        share = weights / weights.sum() * size / total
        return float(share @ shapes.constant), float(share @ shapes.proportional)
