"""Could a calibration be chance? Whether spectra and concentrations belong together at all.

Of several methods one may beat the mean of the levels on noise. Three tests ask without any method;
each compares a sum over pairs, sum A_ij B_ij, with those of permuted rows and columns of A:

- Order. Concentrations are permuted. Distance covariance (A distances of spectra, B of ranks of
  concentrations, both centred twice) shows responses that rise. The von Neumann ratio (A squared
  distances of two leading scores, B neighbouring levels) shows those that rise and fall. The
  p-value is twice the smaller one.
- Replicates. Scans are permuted among the levels: A are their products, B averages each level.
- Axis. Wavelengths are permuted: A are products of what is left of the mean spectrum, B joins
  neighbours. White noise is as rough in any order; a spectrum is smooth in its own.

Order alone cannot decide for few levels: of four, two of 24 orders are as good as the best, and
of a response that rises and falls, equal pairs stand side by side in other orders too. There the
spread between the levels counts as well, against replicates or along the axis, by a weighted
Bonferroni rule: the p-value is the least of 5/4 that of the order and 5 that of the spread. From
seven levels on the order decides alone, as drift and baselines spread levels too.

Sources: G. J. Szekely, M. L. Rizzo and N. K. Bakirov, Ann. Statist. 35 (2007) 2769 (distance
covariance); J. von Neumann, Ann. Math. Statist. 12 (1941) 367; C. R. Genovese, K. Roeder and
L. Wasserman, Biometrika 93 (2006) 509 (weights).
"""

from dataclasses import dataclass
from itertools import permutations
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from geonode.spectra.replicates import Replicates
from geonode.spectra.table import without_rounding
from geonode.ties import EQUAL
from geonode.wording import number

LIKELY = 0.05
"""p-value above which a series could be chance."""

DECIDING = 7
"""Number of levels from which the order decides alone."""

ORDER_WEIGHT, SPREAD_WEIGHT = 0.8, 0.2
"""Of the two tests where there are fewer levels."""

REGRESSED = 20
"""Samples from which regression is a test of order too."""

EXACT_UP_TO, DRAWN = 6, 999
"""Largest number of rows all orders of which are compared, and how many of more are."""

MOST = 100
"""Rows that are compared; of more, as many evenly spaced ones."""

Matrix = Float[np.ndarray, "row row"]

MORE = "replicates of the levels, or more levels, would decide."


@dataclass(frozen=True)
class Chance:
    """Answer to whether a series could be chance."""

    p_value: float
    """Probability of so much order or spread, or more, if spectra have nothing to do with it."""
    test: Literal["order", "replicates", "axis"]
    """Which of them spoke: the one that decides the p-value."""
    levels: int
    """Number of levels or samples."""

    @classmethod
    def of(
        cls,
        concentrations: Float[np.ndarray, "level"],
        spectra: Float[np.ndarray, "level wavelength"],
        replicates: Replicates | None = None,
    ) -> "Chance":
        """Test levels, or samples.

        Args:
            concentrations: two or more; some may be equal.
            spectra: theirs, means of scans.
            replicates: these scans about their means, if there are any.
        """
        order = by_order(concentrations, spectra)
        count = len(concentrations)
        if count >= DECIDING:
            return cls(order, "order", count)
        repeated = replicates is not None and len(replicates.level) > 0
        spread = by_replicates(spectra, replicates) if repeated else along_axis(spectra)
        weighted = {"order": order / ORDER_WEIGHT}
        weighted["replicates" if repeated else "axis"] = spread / SPREAD_WEIGHT
        speaks = weighted["order"] <= LIKELY
        test = "order" if speaks else min(weighted, key=weighted.__getitem__)
        return cls(min(1.0, weighted[test]), test, count)

    @property
    def is_likely(self) -> bool:
        """Whether nothing shows that spectra and concentrations belong together."""
        return self.p_value > LIKELY

    @property
    def sentence(self) -> str:
        """Which test spoke, its p-value, and what would decide where nothing is shown."""
        by = {
            "order": "the order of the spectra along the concentrations",
            "replicates": "the spread between levels against replicates",
            "axis": "the spread between levels against the noise along the axis",
        }[self.test]
        p_value = f"p = {number(self.p_value, 2)}"
        if not self.is_likely:
            said = f"More than chance, by {by} ({p_value})."
            if self.test == "order":
                return said
            return f"{said} Their order says too little for {self.levels} levels: {MORE}"
        return f"This could be chance, by {by} ({p_value}): {MORE}"


def by_order(
    concentrations: Float[np.ndarray, "level"], spectra: Float[np.ndarray, "level wavelength"]
) -> float:
    """p-value of the order: the smallest of its tests, times their number."""
    _, rank = np.unique(without_rounding(concentrations), return_inverse=True)
    kept = np.argsort(rank, kind="stable")[_evenly(len(rank))]
    apart = np.abs(rank[kept, None] - rank[kept])
    left, singular, _ = np.linalg.svd(spectra[kept] - spectra[kept].mean(0), full_matrices=False)
    scores, leading = left * singular, left[:, :2] * singular[:2]
    covariance = share_as_large(_centred(_distances(scores)), _centred(apart.astype(float)))
    neighbours = share_as_large(-(_distances(leading) ** 2), (apart <= 1).astype(float))
    found = [covariance, neighbours]
    if len(kept) >= REGRESSED:
        known = concentrations[kept] - concentrations[kept].mean()
        basis = left[:, : len(kept) // 4]
        found.append(share_as_large(basis @ basis.T, np.outer(known, known)))
    return min(1.0, len(found) * min(found))


def by_replicates(spectra: Float[np.ndarray, "level wavelength"], replicates: Replicates) -> float:
    """p-value of the spread between levels against that of the scans of each."""
    alone = np.flatnonzero(replicates.scans == 1)
    level = np.concatenate([replicates.level, alone])
    scans = np.concatenate([spectra[replicates.level] + replicates.deviations, spectra[alone]])
    kept = np.argsort(level, kind="stable")[_evenly(len(level))]
    level, scans = level[kept], scans[kept]
    same = (level[:, None] == level).astype(float)
    away = scans - scans.mean(axis=0)
    return share_as_large(away @ away.T, same / same.sum(axis=1))


def along_axis(spectra: Float[np.ndarray, "level wavelength"]) -> float:
    """p-value of what differs between levels being as rough along the axis as white noise."""
    away = (spectra - spectra.mean(axis=0)).T
    orders = orders_of(len(away))
    sums = np.array([np.sum(away[order[1:]] * away[order[:-1]]) for order in orders])
    return _share(sums, float(np.sum(away**2)))


def share_as_large(one: Matrix, other: Matrix) -> float:
    """Share of the orders of the rows of a symmetric matrix with as large a sum over products.

    Args:
        one: whose rows and columns are permuted together.
        other: by whose elements it is multiplied.
    """
    orders, sums = orders_of(len(one)), []
    for order in orders:
        sums.append(np.sum(one[order][:, order] * other))
    return _share(np.array(sums), float(np.sum(np.abs(one * other))))


def orders_of(count: int) -> Int[np.ndarray, "order row"]:
    """Orders of some rows, the given one first: all of few rows, the same random ones of more."""
    if count <= EXACT_UP_TO:
        return np.array(list(permutations(range(count))))
    drawn = np.random.default_rng(0).random((DRAWN, count)).argsort(axis=1)
    return np.concatenate([np.arange(count)[None], drawn])


def _share(sums: Float[np.ndarray, "order"], size: float) -> float:
    """Share of sums that are as large as the first one, but for rounding."""
    return float(np.mean(sums >= sums[0] - EQUAL * size))


def _evenly(count: int) -> Int[np.ndarray, "row"]:
    """Places of at most `MOST` rows."""
    return np.linspace(0, count - 1, min(count, MOST)).round().astype(int)


def _distances(rows: Float[np.ndarray, "row score"]) -> Matrix:
    return np.linalg.norm(rows[:, None] - rows, axis=-1)


def _centred(distances: Matrix) -> Matrix:
    """Distances less the means of their rows and columns, plus that of all."""
    return distances - distances.mean(0) - distances.mean(1)[:, None] + distances.mean()
