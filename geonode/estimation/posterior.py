"""Posterior distribution of the concentration of a spectrum.

The prior is that of the nodes of the curve (`geonode.estimation.range`), the likelihood that of
`geonode.estimation.curve`. The response need not be monotonic, so the 90% set may have several
intervals; the mode of each is reported. The estimate is the most likely concentration between the
levels, unless these have less than `EVIDENCE` of the probability: predictions far beyond them are
so unsure that almost any spectrum might be found there.

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
from itertools import chain

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import chdtrc as chi2_tail  # scipy.stats takes 0.3 s to import
from scipy.special import fdtrc as f_tail

from geonode.errors import SpectraError
from geonode.estimation.curve import DIRECTIONS, FREEDOM, STRETCH, Curve

MISFIT = 0.01  # p-value below which a spectrum fits nowhere
EVIDENCE = 0.3  # probability between the levels, of less than which the estimate is beyond them
BATCH_NUMBERS = 8_000_000

Pairs = list[tuple[float, float]]


@dataclass(frozen=True)
class Estimates:
    """Estimated concentrations of spectra.

    Attributes:
        mode: most likely concentration, between the levels if that is not unlikely.
        mean, deviation: mean and standard deviation of the posterior.
        modes: most likely concentration of every interval of the 90% set, with the probability of
            the interval, most probable first.
        sets: intervals of the 90% set; nine of ten are to hold the true concentration.
        p_value: probability of a misfit at least as large, for a spectrum of the series.
    """

    mode: Float[np.ndarray, "spectrum"]
    mean: Float[np.ndarray, "spectrum"]
    deviation: Float[np.ndarray, "spectrum"]
    modes: list[Pairs]
    sets: list[Pairs]
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
        *_parts(curve, probability),
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


def more_likely(
    probability: Float[np.ndarray, "spectrum node"],
) -> Float[np.ndarray, "spectrum node"]:
    """Probability of all nodes that are more likely than a node."""
    order = np.argsort(-_density(probability), axis=1, kind="stable")
    ordered = np.take_along_axis(probability, order, axis=1)
    found = np.empty_like(probability)
    np.put_along_axis(found, order, np.cumsum(ordered, axis=1) - ordered, axis=1)
    return found


def _parts(curve: Curve, probability: np.ndarray) -> tuple[list[Pairs], list[Pairs]]:
    """The cells whose more likely cells have less probability than `Curve.mass`, as `Estimates`.

    Returns:
        Modes and intervals of every spectrum.
    """
    taken = more_likely(probability) < curve.mass
    steps = np.diff(taken.astype(np.int8), prepend=0, append=0, axis=1)
    rows, starts = np.nonzero(steps == 1)
    _, stops = np.nonzero(steps == -1)
    modes: list[Pairs] = [[] for _ in probability]
    sets: list[Pairs] = [[] for _ in probability]
    density = _density(probability)
    for row, start, stop in zip(rows, starts, stops, strict=True):
        top = start + density[row, start:stop].argmax()
        weight = probability[row, start:stop].sum()
        modes[row].append((float(curve.concentrations[top]), float(weight)))
        sets[row].append((float(curve.edges[start]), float(curve.edges[stop])))
    return [sorted(one, key=lambda mode: -mode[1]) for one in modes], sets


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
