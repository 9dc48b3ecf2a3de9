"""Could a calibration be chance? Whether spectra and concentrations belong together at all.

On noise one of several methods may beat the mean of the levels. These tests need no method. Each
compares a sum over pairs, sum A_ij B_ij, with those of permuted rows and columns of A:

- Order: concentrations are permuted. Distance covariance (A distances of spectra, B of ranks, both
  centred twice) shows responses that rise, the von Neumann ratio (A squared distances of two
  leading scores, B neighbours) those that turn. From seven levels regression on a quarter as many
  scores (A a projector, B products of ranks, from 20 samples of concentrations) shows small ones,
  as on a background that varies. The p-value is the share of orders whose least share by one of
  these tests is as small.
- Replicates: scans are permuted among levels. A are their products, B averages those of a level.
- Axis: wavelengths are permuted. A are products of what is left of the mean spectrum, B joins
  neighbours: a spectrum is smooth in its own order, white noise in none.

Of few levels the order says little: two of the 24 orders of four are the best. There the spread
between levels counts too, against replicates or along the axis: the p-value is the least of 5/4
that of the order and 5 that of the spread, a weighted Bonferroni rule. From seven levels the order
decides alone: drift spreads levels as well.

Of several substances each is tested, by its order and by what is left of it and of the spectra
after least squares on the others (regression on a quarter as many scores): the p-value is the least
of 5 that of the order and 5/4 that of the rest. Amounts are permuted before they are regressed, so
that it is exact where they were drawn independently.

Sources: G. J. Szekely, M. L. Rizzo and N. K. Bakirov, Ann. Statist. 35 (2007) 2769; J. von Neumann,
Ann. Math. Statist. 12 (1941) 367; C. R. Genovese, K. Roeder and L. Wasserman, Biometrika 93 (2006)
509 (weights); P. H. Westfall and S. S. Young, Resampling-Based Multiple Testing, Wiley 1993 (least
p-value of several permutation tests).
"""

from dataclasses import dataclass
from itertools import permutations

import numpy as np
from jaxtyping import Float, Int
from scipy.spatial.distance import pdist, squareform

from geonode.spectra.component_regression import ROUNDING_OF_SPECTRA
from geonode.spectra.replicates import Replicates
from geonode.spectra.table import without_rounding
from geonode.ties import EQUAL
from geonode.wording import number

LIKELY_CHANCE = 0.05  # p-value above which a series could be chance
DECIDING, MANY = 7, 20  # levels whose order decides alone; samples of which amounts are regressed
FIRST, SECOND = 0.8, 0.2  # weights of two tests
EXACT_UP_TO, DRAWN = 6, 999  # rows all orders of which are compared, and how many of more rows
MOST = 100  # rows that are compared, evenly spaced

ORDER = "the order of the spectra along the concentrations"
REPLICATES = "the spread between levels against replicates"
AXIS = "the spread between levels against the noise along the axis"
OTHERS = "regression on spectra, both less what the other substances explain"

Concentrations = Float[np.ndarray, "level"]
Spectra = Float[np.ndarray, "level wavelength"]
Matrix = Float[np.ndarray, "row row"]


@dataclass(frozen=True)
class Chance:
    """Answer to whether a series could be chance."""

    p_value: float
    """Probability of as much order or spread, if spectra have nothing to do with concentration."""
    test: str
    """Test of the p-value: `ORDER`, `REPLICATES`, `AXIS` or `OTHERS`."""

    @classmethod
    def of(
        cls, concentrations: Concentrations, spectra: Spectra, replicates: Replicates | None = None
    ) -> "Chance":
        """Test levels or samples, some of which may be equal, with replicates of their scans."""
        order = _by_order(concentrations, spectra)
        if len(concentrations) >= DECIDING:
            return cls(order, ORDER)
        if replicates is not None and len(replicates.level):
            spread, test = _by_replicates(spectra, replicates), REPLICATES
        else:
            spread, test = _along_axis(spectra), AXIS
        order, spread = min(1.0, order / FIRST), min(1.0, spread / SECOND)
        return cls(order, ORDER) if order <= max(LIKELY_CHANCE, spread) else cls(spread, test)

    @classmethod
    def of_each(
        cls,
        amounts: Float[np.ndarray, "sample substance"],
        spectra: Float[np.ndarray, "sample wavelength"],
        *,
        tied: bool = False,
    ) -> "tuple[Chance, ...]":
        """Test every substance of samples, of which those of equal amounts count as one.

        Tied amounts follow from each other: nothing is left of one beside the others.
        """
        known, place = np.unique(amounts, axis=0, return_inverse=True)
        means = np.zeros((len(known), spectra.shape[1]))
        np.add.at(means, place.ravel(), spectra)
        means /= np.bincount(place.ravel())[:, None]
        ranks = np.array([np.unique(own, return_inverse=True)[1] for own in known.T])
        away, each = squareform(pdist(means)).sum(axis=1), []
        for column in range(known.shape[1]):
            # Permutations are drawn: rows stand so that no order of substances, nor a unit, counts.
            others = np.sort(np.delete(ranks, column, axis=0), axis=0)
            rows = np.lexsort([away, *others, ranks[column]])
            order = _by_order(known[rows, column], means[rows])
            if tied:
                each.append(cls(order, ORDER))
                continue
            rest = _beside_others(known[rows], column, means[rows]) / FIRST
            order /= SECOND
            each.append(cls(min(1.0, order, rest), ORDER if order < rest else OTHERS))
        return tuple(each)

    @property
    def is_likely(self) -> bool:
        """True if nothing shows that spectra and concentrations belong together."""
        return self.p_value > LIKELY_CHANCE

    @property
    def is_clear(self) -> bool:
        """True if the order of the spectra shows that they follow the concentrations."""
        return self.test == ORDER and not self.is_likely

    @property
    def sentence(self) -> str:
        """Sentence on the test, its p-value, and what would decide where it cannot."""
        said = f"{'This could be' if self.is_likely else 'More than'} {self.by}"
        decides = "replicates of the levels, or more levels, would decide"
        return f"{said}." if self.is_clear else f"{said}; whether concentration is why, {decides}."

    @property
    def by(self) -> str:
        """The test and its p-value."""
        return f"chance, by {self.test} (p = {number(self.p_value, 2)})"


def _by_order(concentrations: Concentrations, spectra: Spectra) -> float:
    """p-value of the order."""
    levels = without_rounding(concentrations)
    kept = np.argsort(levels, kind="stable")[_evenly(len(levels))]
    _, rank = np.unique(levels[kept], return_inverse=True)
    apart = np.abs(rank[:, None] - rank)
    left, singular = _axes(spectra[kept] - spectra[kept].mean(axis=0), spectra[kept])
    scores = left * singular
    near = -squareform(pdist(scores[:, :2], "sqeuclidean"))
    found = [
        _shares(_doubly_centred(squareform(pdist(scores))), _doubly_centred(apart.astype(float))),
        _shares(near, 1.0 * (apart <= 1)),
    ]
    if len(kept) >= DECIDING:
        known = concentrations[kept] if len(kept) >= MANY else rank
        basis, away = left[:, : len(kept) // 4], known - known.mean()
        found.append(_shares(basis @ basis.T, np.outer(away, away)))
    return float(_as_large(-np.min(found, axis=0), 1.0)[0])


def _beside_others(
    amounts: Float[np.ndarray, "sample substance"], column: int, spectra: Spectra
) -> float:
    """p-value of the regression of a substance on spectra, both less what the others explain."""
    kept = _evenly(len(amounts))
    own, others = amounts[kept, column], np.delete(amounts[kept], column, axis=1)
    explained, _ = np.linalg.qr(np.column_stack([np.ones(len(kept)), others]))
    rest = spectra[kept] - explained @ (explained.T @ spectra[kept])
    scores = _axes(rest, spectra[kept])[0][:, : max(1, len(kept) // 4)]
    permuted = own[_orders(len(kept))]
    left = permuted - permuted @ explained @ explained.T
    size = np.sum(left**2, axis=1) + np.finfo(float).tiny
    shares = np.sum((left @ scores) ** 2, axis=1) / size
    return float(_as_large(shares, 1.0)[0])


def _axes(rest: Spectra, spectra: Spectra) -> tuple[Float[np.ndarray, "level axis"], np.ndarray]:
    """Orthonormal axes of what is left of spectra, and its sizes along them, without rounding."""
    left, singular, _ = np.linalg.svd(rest, full_matrices=False)
    there = singular > ROUNDING_OF_SPECTRA * np.linalg.norm(spectra)
    return left[:, there], singular[there]


def _by_replicates(spectra: Spectra, replicates: Replicates) -> float:
    """p-value of the spread between levels against that of their scans."""
    level, scans = replicates.of_means(spectra)
    kept = np.argsort(level, kind="stable")[_evenly(len(level))]
    same = (level[kept, None] == level[kept]).astype(float)
    away = scans[kept] - scans[kept].mean(axis=0)
    return float(_shares(away @ away.T, same / same.sum(axis=1))[0])


def _along_axis(spectra: Spectra) -> float:
    """p-value of what differs between levels being as rough along the axis as in other orders."""
    away = (spectra - spectra.mean(axis=0)).T
    sums = [np.sum(away[order[1:]] * away[order[:-1]]) for order in _orders(len(away))]
    return float(_as_large(np.array(sums), float(np.sum(away**2)))[0])


def _shares(one: Matrix, other: Matrix) -> Float[np.ndarray, "order"]:
    """Of every order of the rows of a symmetric matrix, the share with as large a sum of A B."""
    sums = np.array([np.sum(one[order][:, order] * other) for order in _orders(len(one))])
    return _as_large(sums, float(np.sum(np.abs(one * other))))


def _orders(count: int) -> Int[np.ndarray, "order row"]:
    """Orders of rows, the given one first: all of few rows, the same random ones of more."""
    if count <= EXACT_UP_TO:
        return np.array(list(permutations(range(count))))
    drawn = np.random.default_rng(0).random((DRAWN, count)).argsort(axis=1)
    return np.concatenate([np.arange(count)[None], drawn])


def _as_large(values: Float[np.ndarray, "order"], size: float) -> Float[np.ndarray, "order"]:
    """Share of values as large as each, but for rounding of terms of a size."""
    smaller = np.searchsorted(np.sort(values), values - EQUAL * size)
    return (len(values) - smaller) / len(values)


def _evenly(count: int) -> Int[np.ndarray, "row"]:
    return np.linspace(0, count - 1, min(count, MOST)).round().astype(int)


def _doubly_centred(distances: Matrix) -> Matrix:
    return distances - distances.mean(0) - distances.mean(1)[:, None] + distances.mean()
