"""Posterior distribution of the concentration of a spectrum.

The prior is that of the nodes of the curve (`geonode.estimation.range`), the likelihood that of
`geonode.estimation.curve`. The response need not be monotonic, so the posterior may have several
modes; all are reported. The estimate is the most likely concentration between the levels, unless
these have less than `EVIDENCE` of the probability: predictions far beyond them are so unsure that
almost any spectrum might be found there.

The 90% set holds the concentrations of which few are more likely: those whose more likely ones have
together less than `Curve.mass`. That bound is calibrated apart for concentrations between the
levels and beyond.

A spectrum that matches no concentration has a small p-value. It combines two tests by Fisher's
method: the squared distance Q of the spectrum from the nearest point of the curve, and its residual
in directions that no prediction has. Q / r (r directions) is compared with F with 2 and n / 2 + 1
degrees of freedom for n training levels. On left-out levels of simulated series that law holds in
the tail: Q is small where the errors happen to be along the curve, and large where a level is off.

Source: R. A. Fisher, Statistical Methods for Research Workers, 4th edition, Oliver & Boyd 1932,
section 21.1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import chdtrc as chi2_tail  # scipy.stats takes 0.3 s to import
from scipy.special import fdtrc as f_tail

from geonode.errors import SpectraError
from geonode.estimation.curve import DIRECTIONS, FREEDOM, STRETCH, Curve

SMALLEST_WEIGHT = 0.01  # of a mode that is reported
DIP = 0.5  # largest density between two modes, relative to the lower one
MISFIT = 0.01  # p-value below which a spectrum fits nowhere
EVIDENCE = 0.3  # probability between the levels, of less than which the estimate is beyond them
BATCH_NUMBERS = 8_000_000


@dataclass(frozen=True)
class Estimates:
    """Estimated concentrations of spectra.

    Attributes:
        mode: most likely concentration, between the levels if that is not unlikely.
        mean, deviation: mean and standard deviation of the posterior.
        modes: concentration and weight of every mode of at least `SMALLEST_WEIGHT`, heaviest
            first. The weight is the posterior probability between the minima on both sides.
            Between two modes the density falls to `DIP` of the lower one or less.
        sets: intervals of the 90% set; nine of ten are to hold the true concentration.
        p_value: probability of a misfit at least as large, for a spectrum of the series.
    """

    mode: Float[np.ndarray, "spectrum"]
    mean: Float[np.ndarray, "spectrum"]
    deviation: Float[np.ndarray, "spectrum"]
    modes: list[list[tuple[float, float]]]
    sets: list[list[tuple[float, float]]]
    p_value: Float[np.ndarray, "spectrum"]

    @classmethod
    def joined(cls, parts: Sequence["Estimates"]) -> "Estimates":
        """Estimates of several blocks of spectra as those of all."""
        modes, sets = (
            [*chain(*lists)]
            for lists in zip(*((part.modes, part.sets) for part in parts), strict=True)
        )
        mode, mean, deviation, p_value = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("mode", "mean", "deviation", "p_value")
        )
        return cls(mode, mean, deviation, modes, sets, p_value)

    @property
    def disconnected(self) -> Bool[np.ndarray, "spectrum"]:
        """Whether the credible set is more than one interval."""
        return np.array([len(intervals) > 1 for intervals in self.sets], dtype=bool)

    @property
    def fits(self) -> Bool[np.ndarray, "spectrum"]:
        """Whether the spectrum may be one of the series."""
        return self.p_value >= MISFIT


def posterior(
    curve: Curve, spectra: Float[np.ndarray, "spectrum wavelength"]
) -> Float[np.ndarray, "spectrum node"]:
    """Posterior probability of every node of a curve.

    Raises:
        SpectraError: a spectrum is not finite, or has other wavelengths than the curve.
    """
    _, distance = _distances(curve, spectra)
    return _posterior(curve, distance)


def estimate(curve: Curve, spectra: Float[np.ndarray, "spectrum wavelength"]) -> Estimates:
    """Estimate the concentrations of spectra; working memory does not grow with their number.

    Raises:
        SpectraError: a spectrum is not finite, or has other wavelengths than the curve.
    """
    nodes, directions = curve.scores.shape
    size = max(1, BATCH_NUMBERS // (nodes * directions))
    blocks = range(0, max(1, len(spectra)), size)
    return Estimates.joined([_estimate(curve, spectra[at : at + size]) for at in blocks])


def _estimate(curve: Curve, spectra: np.ndarray) -> Estimates:
    residual, distance = _distances(curve, spectra)
    probability = _posterior(curve, distance)
    mean = probability @ curve.concentrations
    square = probability @ curve.concentrations**2
    between = probability[:, curve.inside].sum(axis=1, keepdims=True) >= EVIDENCE
    density = np.where(curve.inside == between, _density(probability), -1)
    return Estimates(
        curve.concentrations[density.argmax(axis=1)],
        mean,
        np.sqrt((square - mean**2).clip(min=0)),
        _modes(curve, probability),
        _credible_sets(curve, probability),
        _p_value(curve, distance, residual),
    )


def _distances(curve: Curve, spectra: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squared residuals of spectra in other directions, and distances Q to every node."""
    if spectra.shape[1] != curve.basis.shape[1]:
        raise SpectraError(
            f"spectra: found {spectra.shape[1]} wavelengths, expected the "
            f"{curve.basis.shape[1]} of the model"
        )
    if not np.isfinite(spectra).all():
        raise SpectraError("spectra: found NaN or infinity, expected finite numbers")
    if curve.offset:
        spectra = spectra - spectra.mean(axis=1, keepdims=True)
    scores = spectra @ curve.basis.T
    other = spectra - scores @ curve.basis
    distance = curve.covariances.distances(curve.scores, scores)
    return np.einsum("sw,sw->s", other, other), distance


def _posterior(curve: Curve, distance: np.ndarray) -> np.ndarray:
    directions = curve.scores.shape[1]
    effective = min(DIRECTIONS, directions)
    logarithm = curve.log_prior - 0.5 * (
        effective / directions * curve.covariances.log_determinant
        + (FREEDOM + effective) * np.log1p(distance / (FREEDOM * STRETCH))
    )
    probability = np.exp(logarithm - logarithm.max(axis=1, keepdims=True))
    return probability / probability.sum(axis=1, keepdims=True)


def _density(probability: np.ndarray) -> np.ndarray:
    """Density on the chart at every node, up to a constant; the end cells are half as wide."""
    density = probability.copy()
    density[:, [0, -1]] *= 2
    return density


def _modes(curve: Curve, probability: np.ndarray) -> list[list[tuple[float, float]]]:
    """Separate maxima of the density, with the probability of their basins."""
    density = np.pad(_density(probability), ((0, 0), (1, 1)), constant_values=-1.0)
    rises, falls = density[:, 1:-1] > density[:, :-2], density[:, 1:-1] >= density[:, 2:]
    found = []
    for row, peaks in enumerate(rises & falls):
        places, cuts = _separate(density[row, 1:-1], np.flatnonzero(peaks).tolist())
        weights = np.add.reduceat(probability[row], np.array([0, *cuts]))
        modes = [
            (float(curve.concentrations[place]), float(weight))
            for place, weight in zip(places, weights, strict=True)
            if weight >= SMALLEST_WEIGHT
        ]
        found.append(sorted(modes, key=lambda mode: -mode[1]))
    return found


def _separate(density: np.ndarray, places: list[int]) -> tuple[list[int], list[int]]:
    """Separate maxima, and the minima between them.

    Of two neighbouring maxima without a sufficient `DIP` between them, the lower is dropped.
    """
    cuts = [first + int(density[first : last + 1].argmin()) for first, last in pairwise(places)]
    while cuts:
        lower = [min(pair, key=density.__getitem__) for pair in pairwise(places)]
        depths = [density[cut] / density[low] for cut, low in zip(cuts, lower, strict=True)]
        shallowest = int(np.argmax(depths))
        if depths[shallowest] <= DIP:
            break
        places = [place for place in places if place != lower[shallowest]]
        del cuts[shallowest]
    return places, cuts


def more_likely(
    probability: Float[np.ndarray, "spectrum node"],
) -> Float[np.ndarray, "spectrum node"]:
    """Probability of all nodes that are more likely than a node."""
    order = np.argsort(-_density(probability), axis=1, kind="stable")
    ordered = np.take_along_axis(probability, order, axis=1)
    found = np.empty_like(probability)
    np.put_along_axis(found, order, np.cumsum(ordered, axis=1) - ordered, axis=1)
    return found


def _credible_sets(curve: Curve, probability: np.ndarray) -> list[list[tuple[float, float]]]:
    """Intervals of the cells whose more likely cells have less probability than `Curve.mass`."""
    taken = more_likely(probability) < curve.mass
    steps = np.diff(taken.astype(np.int8), prepend=0, append=0, axis=1)
    rows, starts = np.nonzero(steps == 1)
    _, stops = np.nonzero(steps == -1)
    sets: list[list[tuple[float, float]]] = [[] for _ in probability]
    for row, low, high in zip(rows, curve.edges[starts], curve.edges[stops], strict=True):
        sets[row].append((float(low), float(high)))
    return sets


def _p_value(curve: Curve, distance: np.ndarray, residual: np.ndarray) -> np.ndarray:
    """Combined p-value of the distance to the curve and the residual in other directions."""
    freedom = curve.training / 2 + 1
    nearest = distance[:, curve.tested].min(axis=1)
    near = f_tail(2.0, freedom, nearest / curve.scores.shape[1])
    novelty = curve.novelty
    rounding = np.finfo(float).eps * float(np.abs(curve.scores).max()) ** 2
    square = max(novelty.square, rounding)
    new = f_tail(novelty.freedom, novelty.freedom * novelty.spectra, residual / square)
    tiny = np.finfo(float).tiny
    return chi2_tail(4, -2 * (np.log(near.clip(min=tiny)) + np.log(new.clip(min=tiny))))
