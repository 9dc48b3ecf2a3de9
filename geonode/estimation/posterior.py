"""Posterior distribution of the concentration of a spectrum.

The prior is that of the nodes of the curve (`geonode.estimation.range`), the likelihood that of
`geonode.estimation.curve`. The response need not be monotonic, so the set may have several
intervals; the mode of each is reported. The estimate is the most likely concentration between the
levels, unless these have less than `EVIDENCE` of the probability: predictions far beyond them are
so unsure that almost any spectrum might be found there.

The 90% set contains the concentrations of which few are more likely: those whose more likely ones
have together less than `Curve.mass`. That bound is calibrated apart for concentrations between the
levels and beyond. At another level it is that of `mass_of_level`.

A spectrum that matches no concentration has a small p-value. It combines two tests by Fisher's
method: the squared distance Q of the spectrum from the nearest point of the curve, and its residual
in directions that no prediction has. Q / r (r directions) is compared with F with 2 and n / 2 + 1
degrees of freedom for n training levels. On left-out levels of simulated series that law is right
in the tail: Q is small where the errors happen to be along the curve, large where a level is off.

Source: R. A. Fisher, Statistical Methods for Research Workers, 4th edition, Oliver & Boyd 1932,
section 21.1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.special import betainc
from torch import Tensor

from geonode.compute.device import CPU, on_device, unless_out_of_memory
from geonode.errors import SpectraError
from geonode.estimation.curve import DIRECTIONS, FREEDOM, STRETCH, Curve
from geonode.estimation.distances import Distances
from geonode.parameter_types import require_level
from geonode.posterior.prior import COVERAGE
from geonode.ties import EQUAL

MISFIT = 0.01  # p-value below which a spectrum fits nowhere
EVIDENCE = 0.3  # probability between the levels, of less than which the estimate is beyond them
TAIL = 1.2  # of masses over levels; chosen on simulated series
BATCH_ON_CPU, BATCH_ON_DEVICE = 256, 16_384
"""Spectra at once: on a CPU their probabilities stay in its cache, a GPU is filled."""

Pairs = list[tuple[float, float]]
Spectra = Float[np.ndarray, "spectrum wavelength"]
OfSpectra = Float[np.ndarray, "spectrum"]
PerSpectrum = Float[Tensor, "spectrum"]


@dataclass(frozen=True)
class Estimates:
    """Estimated concentrations of spectra."""

    mode: OfSpectra
    """Most likely concentration, between the levels if that is not unlikely."""
    mean: OfSpectra  # of the posterior
    modes: list[Pairs]
    """Most likely concentration of every interval of the set, with the probability of the
    interval, most probable first."""
    sets: list[Pairs]  # intervals of the set, which is to contain the true concentration
    p_value: OfSpectra
    """Probability of a misfit at least as large, for a spectrum of the series."""

    @classmethod
    def joined(cls, parts: Sequence["Estimates"]) -> "Estimates":
        """Estimates of several blocks of spectra as those of all."""
        modes, sets = (
            [*chain(*lists)]
            for lists in zip(*((part.modes, part.sets) for part in parts), strict=True)
        )
        mode, mean, p_value = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("mode", "mean", "p_value")
        )
        return cls(mode, mean, modes, sets, p_value)

    @property
    def disconnected(self) -> Bool[np.ndarray, "spectrum"]:
        """True for spectra whose 90% set is more than one interval."""
        return np.array([len(intervals) > 1 for intervals in self.sets], dtype=bool)

    @property
    def fits(self) -> Bool[np.ndarray, "spectrum"]:
        """True for spectra that may belong to the series."""
        return self.p_value >= MISFIT


class Posteriors(NamedTuple):
    """Posteriors of some spectra over the nodes of a curve."""

    probability: Float[Tensor, "spectrum node"]  # posterior probability of every node
    nearest: Float[Tensor, "spectrum"]  # squared distance Q from the nearest node that is tested
    residual: Float[Tensor, "spectrum"]
    """Squared residual in other directions (signal squared, summed over wavelengths)."""


class Summaries(NamedTuple):
    """Summaries of the posteriors of spectra for a map, as arrays; see `Estimates`."""

    mode: OfSpectra
    low: OfSpectra  # end of the set
    high: OfSpectra
    p_value: OfSpectra
    disconnected: Bool[np.ndarray, "spectrum"]  # true if the 90% set is more than one interval


class Law:
    """Law of the nodes of a curve on a device: their probabilities, given spectra.

    Args:
        curve: the curve.
        place: device on which to compute, with double precision.
        level: probability that sets hold the concentration.
    """

    def __init__(self, curve: Curve, place: torch.device = CPU, level: float = COVERAGE) -> None:
        self.curve, self.place = curve, place
        self._mass = mass_of_level(curve.mass, level)
        directions = curve.scores.shape[1]
        self._effective = min(DIRECTIONS, directions)
        of_errors = self._effective / directions * curve.covariances.log_determinant
        parts = curve.log_prior - of_errors / 2, curve.pedestal, curve.basis
        self._constant, self._pedestal, self._basis, self._concentrations, self._edges = (
            on_device(part, place, torch.float64)
            for part in (*parts, curve.concentrations, curve.edges)
        )
        self._inside, self._tested = (
            torch.from_numpy(part).to(place) for part in (curve.inside, curve.tested)
        )
        self._distances = Distances(curve.covariances, curve.scores, place)

    def posteriors(self, spectra: Spectra) -> Posteriors:
        """Posteriors of spectra.

        Raises:
            SpectraError: a spectrum is not finite, or has other wavelengths than the curve.
        """
        wavelengths = self.curve.basis.shape[1]
        if spectra.shape[1] != wavelengths:
            raise SpectraError(
                f"spectra: found {spectra.shape[1]} wavelengths, expected the {wavelengths} of the "
                "model"
            )
        # A copy, as tensors of torch begin where products of matrices always round alike. Single
        # precision takes half of the time to a GPU.
        copy = torch.tensor(np.ascontiguousarray(spectra), device=self.place)
        signal = copy.to(torch.float64) - self._pedestal
        if not torch.isfinite(signal.sum(dim=1)).all():
            raise SpectraError("spectra: found NaN or infinity, expected finite numbers")
        if self.curve.offset:
            signal = signal - signal.mean(dim=1, keepdim=True)
        scores = signal @ self._basis.T
        residual = (signal - scores @ self._basis).square_().sum(dim=1)
        distance = self._distances(scores)
        nearest = distance[:, self._tested].amin(dim=1)
        tail = distance.div_(FREEDOM * STRETCH).log1p_()
        logarithm = tail.mul_(-(FREEDOM + self._effective) / 2).add_(self._constant)
        return Posteriors(torch.softmax(logarithm, dim=1), nearest, residual)

    def summaries(self, spectra: Spectra) -> Summaries:
        """Summaries of the posteriors of any number of spectra.

        Raises:
            SpectraError: as `posteriors`.
        """
        most = BATCH_ON_CPU if self.place.type == "cpu" else BATCH_ON_DEVICE
        parts = [self._summed(spectra[at : at + most]) for at in range(0, len(spectra), most)]
        mode, low, high, several, nearest, residual = torch.cat(parts, dim=1).cpu().numpy()
        return Summaries(mode, low, high, self.p_values(nearest, residual), several > 0)

    def _summed(self, spectra: np.ndarray) -> Tensor:
        """Summaries of a batch, but for p-values, in halves where memory does not suffice."""
        if len(spectra) == 1:
            return self._summed_at_once(spectra)
        found = unless_out_of_memory(partial(self._summed_at_once, spectra), "halves of the batch")
        if found is None:
            middle = len(spectra) // 2
            halves = self._summed(spectra[:middle]), self._summed(spectra[middle:])
            found = torch.cat(halves, dim=1)
        return found

    def _summed_at_once(self, spectra: np.ndarray) -> Tensor:
        found = self.posteriors(spectra)
        rows, _, _, lows, highs = self._parts(found)
        each = torch.arange(len(spectra), device=self.place)
        first, after = (torch.searchsorted(rows, each, right=end) for end in (False, True))
        ends = lows[first], highs[after - 1]
        return torch.stack(
            [self.mode(found), *ends, after - first > 1, found.nearest, found.residual]
        )

    def estimates(self, found: Posteriors) -> Estimates:
        """Estimates by posteriors."""
        rows, starts, finals, lows, highs = self._parts(found)
        density, tops, weights = _density(found.probability), [], []
        columns = (column.tolist() for column in (rows, starts, finals))
        for row, start, final in zip(*columns, strict=True):
            part = slice(start, final + 1)
            tops.append(start + int(_first_largest(density[row, None, part])))
            weights.append(float(found.probability[row, part].sum()))
        nodes = torch.tensor(tops, dtype=torch.long, device=self.place)
        peaks = self._peaks(density, rows, nodes).tolist()
        modes: list[Pairs] = [[] for _ in density]
        sets: list[Pairs] = [[] for _ in density]
        each = zip(rows.tolist(), peaks, weights, lows.tolist(), highs.tolist(), strict=True)
        for row, peak, weight, low, high in each:
            modes[row].append((peak, weight))
            sets[row].append((low, high))
        means = found.probability @ self._concentrations
        mode, mean, nearest, residual = (
            column.cpu().numpy()
            for column in (self.mode(found), means, found.nearest, found.residual)
        )
        for one in modes:  # of equal ones the lower concentration is first
            one.sort(key=lambda mode: (-round(mode[1] / EQUAL), mode[0]))
        return Estimates(mode, mean, modes, sets, self.p_values(nearest, residual))

    def _parts(self, found: Posteriors) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Parts of all sets, row by row and ascending: spectra, first and last nodes, both ends."""
        density = _density(found.probability)
        least = self._least(found.probability, density)
        inside, beyond = ((1 - EQUAL) * least).split(1, dim=1)
        within = density >= torch.where(self._inside, inside, beyond)
        steps = torch.nn.functional.pad(within.to(torch.int8), (1, 1)).diff(dim=1)
        rows, starts = (steps == 1).nonzero(as_tuple=True)
        finals = (steps == -1).nonzero(as_tuple=True)[1] - 1
        at = density, least, rows
        return rows, starts, finals, self._ends(*at, starts, -1), self._ends(*at, finals, 1)

    def mode(self, found: Posteriors) -> PerSpectrum:
        """Modes of posteriors, see `Estimates`."""
        probability = found.probability
        between = probability @ self._inside.double() >= EVIDENCE
        density = _density(probability)
        top = _first_largest(torch.where(self._inside == between[:, None], density, -1.0))
        return self._peaks(density, torch.arange(len(top), device=self.place), top)

    def _peaks(self, density: Tensor, rows: Tensor, tops: Tensor) -> PerSpectrum:
        """Tops of parabolas through ln density at nodes and neighbours, which move with both."""
        last = density.shape[1] - 1
        before, after = (tops - 1).clamp(min=0), (tops + 1).clamp(max=last)
        places = torch.stack([before, tops, after])
        low, here, high = density[rows, places].clamp(min=torch.finfo(density.dtype).tiny).log()
        bend = (2 * here - low - high).clamp(min=torch.finfo(density.dtype).tiny)
        inside = self._inside[places]
        # A node at an end of the range, or of the levels, stays where it is.
        free = (inside[0] == inside[1]) & (inside[1] == inside[2]) & (tops > 0) & (tops < last)
        shift = ((high - low) / (2 * bend)).clamp(-0.5, 0.5) * free
        values = self._concentrations[places]
        step = torch.where(shift > 0, values[2] - values[1], values[1] - values[0])
        return values[1] + shift * step

    def _least(self, probability: Tensor, density: Tensor) -> Float[Tensor, "spectrum 2"]:
        """Densities whose more likely ones have the mass of sets, between the levels and beyond."""
        if density.device.type == "cpu":  # where NumPy takes a twentieth of the time of torch
            ordered = torch.from_numpy(np.sort(density.numpy(), axis=1))
        else:
            ordered = density.sort(dim=1).values
        # All that is more likely; a cell at an end has half of its density.
        likelier = ordered.flip(1).cumsum(1).flip(1) - ordered
        for end in (0, -1):
            likelier.addcmul_(probability[:, end, None], ordered < density[:, end, None], value=-1)
        inside, found = self.curve.inside, []
        for part in (inside, ~inside):
            mass = float(self._mass[part].max(initial=0.0))
            place = (likelier >= mass).sum(dim=1, keepdim=True)
            both = torch.cat([place - 1, place], dim=1).clamp(0, density.shape[1] - 1)
            (out, within), (more, less) = (
                one.gather(1, both).unbind(1) for one in (ordered, likelier)
            )
            share = (mass - less) / (more - less).clamp(min=torch.finfo(density.dtype).tiny)
            found.append(within - share.clamp(0, 1) * (within - out))
        return torch.stack(found, dim=1)

    def _ends(
        self, density: Tensor, least: Tensor, rows: Tensor, nodes: Tensor, step: int
    ) -> PerSpectrum:
        """Ends of parts of sets, between their outermost nodes and the next ones by the density."""
        last, edge = density.shape[1] - 1, self._edges[nodes + (step > 0)]
        others = (nodes + step).clamp(0, last)
        here, there = density[rows, nodes], density[rows, others]
        away = here - least[rows, (~self._inside[nodes]).long()]
        share = away / (here - there).clamp(min=torch.finfo(density.dtype).tiny)
        own, other = self._concentrations[nodes], self._concentrations[others]
        between = own + share.clamp(0, 1) * (other - own)
        # The edge of the cell at an end of the levels, where the least density changes, and of all.
        is_edge = (others == nodes) | (self._inside[nodes] != self._inside[others])
        return torch.where(is_edge, edge, between)

    def p_values(self, nearest: OfSpectra, residual: OfSpectra) -> OfSpectra:
        """Combined p-values of distances from the curve and residuals in other directions."""
        curve, novelty, tiny = self.curve, self.curve.novelty, np.finfo(float).tiny
        # F of 2 degrees of freedom, and chi-squared of 4, have tails in closed form.
        freedom, directions = curve.training / 2 + 1, curve.scores.shape[1]
        near = -freedom / 2 * np.log1p(nearest * (2 / freedom / directions))
        rounding = np.finfo(float).eps * float(np.abs(curve.scores).max()) ** 2
        ratio = residual / max(novelty.square, rounding)
        # The tail of F; scipy.special.fdtrc is off by a fifth for many degrees of freedom.
        halves = novelty.freedom * novelty.spectra / 2, novelty.freedom / 2
        new = betainc(*halves, 1 / (1 + ratio / novelty.spectra))
        fisher = np.maximum(near, np.log(tiny)) + np.log(np.maximum(new, tiny))
        return np.exp(fisher) * (1 - fisher)


def mass_of_level(mass: Float[np.ndarray, "*node"], level: float) -> Float[np.ndarray, "*node"]:
    """Mass of sets of a level, from that of 90% sets.

    What is outside has the power k^`TAIL` of what is outside of those, with 0.1^k = 1 - level: for
    `TAIL` 1, masses of 0.9 would become the level. Of 1880 left-out levels of simulated series,
    sets of 60, 80, 90, 95 and 99% contain .58, .78, .89, .94 and .98.

    Raises:
        ParameterError: the level is none.
    """
    require_level("calibration", level)
    return 1 - (1 - mass) ** ((np.log(1 - level) / np.log(1 - COVERAGE)) ** TAIL)


def estimate(curve: Curve, spectra: Spectra, level: float = COVERAGE) -> Estimates:
    """Estimate the concentrations of spectra; working memory does not grow with their number.

    Args:
        curve: the curve.
        spectra: on its axis.
        level: probability that sets hold the concentration.

    Raises:
        SpectraError: a spectrum is not finite, or has other wavelengths than the curve.
    """
    law, parts = Law(curve, level=level), []
    for at in range(0, max(1, len(spectra)), BATCH_ON_CPU):
        parts.append(law.estimates(law.posteriors(spectra[at : at + BATCH_ON_CPU])))
    return Estimates.joined(parts)


def _density(probability: Tensor) -> Tensor:
    """Density on the chart at every node, up to a constant; the end cells are half as wide."""
    density = probability.clone()
    density[:, [0, -1]] *= 2
    return density


def _first_largest(values: Float[Tensor, "row node"]) -> Int[Tensor, "row"]:
    """Node of the largest value of every row; of equal ones the lowest, as of `geonode.ties`."""
    return (values >= (1 - EQUAL) * values.amax(dim=1, keepdim=True)).to(torch.uint8).argmax(dim=1)
