"""Forward model: amounts from a spectrum by the response surface and the law of its errors.

Scores y of a spectrum at amounts c have the error y - m(c), m the surface, of covariance v(c) S. S
is learned from the residuals z of the samples with their composition left out, over the
square root of their relative variance:

    S = (k D + sum z z^T) / (k + n),    D: a diagonal, of the same size on average

D has the mean square of every direction, that of all directions, or their geometric mean. It, k,
the number of leading scores and how much amounts near the mean of the samples are preferred are
those with the smallest errors of amounts of left-out compositions. Each is one step of Newton from
the true amounts, by the law of residuals without this composition: then all have a closed form.

With q the squared error in units of v S, q + prior is minimised from several compositions by
Newton's steps without second derivatives of m and v, damped as of Levenberg and Marquardt. Minima
are compared by Student's distribution, whose tails forgive a law that is too narrow, with r the
number of leading scores: L(c) = (a + r) / 2 ln(1 + q / (a f)) + r / 2 ln v + prior / 2. Steps by L
itself would end where the logarithm of a large q is flat and the prior is not.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geonode.errors import MixtureError
from geonode.mixtures.design import Design
from geonode.mixtures.surface import Surface
from geonode.spectra.component_regression import Scores, pcr_components
from geonode.ties import EQUAL, first_smallest

MOST_SCORES = 40
LEADING = 0.7
"""Most leading scores, over the number of samples."""

SHAPES = (0.0, 0.5, 1.0)
"""Powers of the mean square of a direction in D; the rest is that of all directions."""

PRIOR_SAMPLES = (0.03, 0.3, 3.0, 30.0)
"""k of the law."""

PULLS = (0.0, 0.1, 1.0)
"""Precision of the prior of amounts, over that of the samples."""

MARGIN = 0.3
"""Of the range of the amounts: how far beyond them is searched, never below zero."""

ERROR_FREEDOM, WIDTH = 2.0, 3.0
"""a and f of Student's distribution."""

STARTS, STEPS, ALWAYS = 3, 15, 2
"""Nearest compositions to start from; steps at most, and of every start."""

SAME_SIGNAL, HOPELESS = 0.01, 10.0
"""Distance over the range from the best start, and difference of L: where another is given up."""

BATCH_ON_CPU, BATCH_ON_DEVICE = 256, 16_384
"""Unknowns of a batch."""

NEGLIGIBLE_SHARE = 1e-9


class Modes(NamedTuple):
    """Minima for every unknown, that of the lowest L first; some may be the same."""

    amounts: Float[np.ndarray, "unknown start substance"]
    above: Float[np.ndarray, "unknown start"]  # L less that of the lowest one
    covariance: Float[np.ndarray, "unknown substance substance"]
    """Of the amounts at the lowest one, by the law alone."""
    distance: Float[np.ndarray, "unknown"]  # q there
    beyond: Float[np.ndarray, "unknown"]  # squared residual that the scores do not have


class Span(NamedTuple):
    """Span of the spectra of samples, where no response surface is fitted."""

    mean: Float[np.ndarray, "wavelength"]
    directions: Float[np.ndarray, "wavelength score"]
    """Orthonormal; of the leading principal components."""
    variances: Float[np.ndarray, "score"]  # of the scores of the samples
    substances: int  # of the samples, of which it tells no amounts

    @classmethod
    def of(cls, spectra: Float[np.ndarray, "sample wavelength"], substances: int) -> "Span":
        """Span of samples, by at most a third as many components."""
        scores = Scores(spectra, np.zeros(len(spectra), dtype=np.int64))
        nothing, most = np.zeros(len(spectra)), max(1, min(MOST_SCORES, len(spectra) // 3))
        found = scores.fits(nothing, [()], pcr_components, most).components
        there = np.isfinite(found.sizes[0])
        directions = scores.of_wavelengths(found.rotation[0][:, there])
        lengths = np.linalg.norm(directions, axis=0)
        variances = found.sizes[0][there] / lengths**2 / len(spectra)
        return cls(scores.centre, directions / lengths, variances, substances)

    def modes(self, spectra: Float[np.ndarray, "unknown wavelength"]) -> Modes:
        """No amounts, but how far spectra are from those of the samples."""
        centred = spectra - self.mean
        scores = centred @ self.directions
        none = np.zeros((len(spectra), 1, self.substances))
        return Modes(
            none,
            none[..., 0],
            np.zeros((len(spectra), self.substances, self.substances)),
            np.sum(scores**2 / self.variances, axis=1),
            np.sum(centred**2, axis=1) - np.sum(scores**2, axis=1),
        )


class Likelihood(NamedTuple):
    """L at points, half of q + prior, its gradient and curvature, and q."""

    loss: Float[Tensor, "point"]
    squares: Float[Tensor, "point"]
    gradient: Float[Tensor, "point substance"]
    information: Float[Tensor, "point substance substance"]
    distance: Float[Tensor, "point"]


@dataclass(frozen=True, eq=False)
class ForwardModel:
    """Forward model fitted to samples."""

    design: Design
    mean: Float[np.ndarray, "wavelength"]  # spectrum of the samples
    directions: Float[np.ndarray, "wavelength score"]
    """Orthonormal; products with deviations from the mean are scores."""
    surface: Surface  # of the scores
    whitening: Float[Tensor, "leading score"]
    """W; W^T W is the inverse of S in the leading scores, zero elsewhere."""
    precision: Float[Tensor, "substance substance"]  # of the prior of the amounts
    furthest: float
    """Largest q of a sample at its amounts, by the surface and S without its composition."""
    members: "tuple[ForwardModel, ...]"
    """Models of most of the samples. The minima are moved by as much as the median of those that
    members reach from the lowest one is away from it."""

    @classmethod
    def of(
        cls,
        design: Design,
        spectra: Float[np.ndarray, "sample wavelength"],
        members: "tuple[ForwardModel, ...]" = (),
    ) -> "ForwardModel":
        """Fit to the spectra of a design; members have been fitted to most of them.

        Raises:
            MixtureError: they are all equal.
        """
        if not np.ptp(spectra, axis=0).any():
            raise MixtureError(
                "spectra: found the same one in all samples, or in all but those left out "
                "together, expected some that differ"
            )
        mean = spectra.mean(axis=0)
        _, singular, basis = np.linalg.svd(spectra - mean, full_matrices=False)
        rank = min(MOST_SCORES, design.compositions - 1, int(np.sum(singular > 1e-7 * singular[0])))
        directions = basis[: max(rank, 1)].T
        scores = torch.from_numpy((spectra - mean) @ directions)
        surface = Surface.of(design, scores)
        law = _law(design, surface, NEGLIGIBLE_SHARE**2 * float(scores.square().mean()))
        return cls(design, mean, directions, surface, *law, members)

    def modes(self, spectra: Float[np.ndarray, "unknown wavelength"]) -> Modes:
        """Minima, from the nearest compositions and from the mean of the amounts."""
        most = BATCH_ON_CPU if self.whitening.device.type == "cpu" else BATCH_ON_DEVICE
        parts = [
            self._modes(self._here(spectra[start : start + most]))
            for start in range(0, len(spectra), most)
        ]
        return Modes(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def information(
        self, amounts: Float[np.ndarray, "point substance"]
    ) -> Float[np.ndarray, "point substance substance"]:
        """Fisher's information about amounts, with that of the prior."""
        points = self._here(amounts)
        return self.likelihood(points, self.surface.at(points)[0]).information.cpu().numpy()

    def _here(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self.whitening)

    @cached_property
    def _whitened(self) -> Surface:
        """Surface of whitened leading scores, which are fewer."""
        return replace(self.surface, dual=self.surface.dual @ self.whitening.T)

    @cached_property
    def _of_compositions(self) -> Tensor:
        """Whitened scores of the compositions."""
        return self._whitened.at(self.surface.smoothers.compositions)[0]

    def _scores(self, spectra: Tensor) -> Tensor:
        return (spectra - self._here(self.mean)) @ self._here(self.directions)

    def _modes(self, spectra: Tensor) -> Modes:
        scores = self._scores(spectra)
        compositions = self.surface.smoothers.compositions
        apart = torch.cdist(scores @ self.whitening.T, self._of_compositions)
        near = _rounded(apart).argsort(stable=True, dim=1)[:, :STARTS]
        centre = self._centre.expand(len(scores), 1, -1)
        starts = torch.cat([compositions[near], centre], dim=1)
        repeated = scores.repeat_interleave(starts.shape[1], 0)
        amounts, at = self._minimised(starts, repeated)
        given_up = self._given_up(amounts.reshape(starts.shape), at.loss)
        at.loss[given_up] = torch.inf
        loss = at.loss.reshape(starts.shape[:2])
        # Of equal ones that of the lowest amounts, in whatever order the substances are.
        size = (amounts.reshape(starts.shape) / self._here(self.design.ranges)).sum(2)
        lower = _rounded(size).argsort(stable=True, dim=1)
        order = lower.gather(1, (loss.gather(1, lower) / EQUAL).round().argsort(stable=True, dim=1))
        loss = loss.gather(1, order)
        best = torch.arange(len(scores)).to(order) * starts.shape[1] + order[:, 0]
        found = amounts.reshape(starts.shape).gather(1, order[..., None].expand(starts.shape))
        lowest = found[:, :1]
        each = [one._next(lowest[:, 0], one._scores(spectra)) for one in self.members]
        parts = (
            found - lowest + torch.stack([lowest[:, 0], *each]).median(0).values[:, None],
            loss - loss[:, :1],
            torch.linalg.inv(at.information[best]) + self._here(self.design.rounding),
            at.distance[best],
            (spectra - self._here(self.mean)).square().sum(1) - scores.square().sum(1),
        )
        return Modes(*(part.cpu().numpy() for part in parts))

    def _given_up(
        self, amounts: Float[Tensor, "unknown start substance"], loss: Tensor
    ) -> Bool[Tensor, "point"]:
        """Starts of an unknown that join its best one, or are far worse."""
        loss, each = loss.reshape(amounts.shape[:2]), torch.arange(len(amounts)).to(loss.device)
        best = (loss <= loss.amin(1, keepdim=True) + EQUAL).to(torch.uint8).argmax(1)
        away = (amounts - amounts[each, best][:, None]) / self._here(self.design.ranges)
        given_up = (away.abs().amax(2) < SAME_SIGNAL) | (
            loss > loss[each, best][:, None] + HOPELESS
        )
        given_up[each, best] = False
        return given_up.flatten()

    def _minimised(
        self, starts: Float[Tensor, "unknown start substance"], scores: Tensor
    ) -> tuple[Float[Tensor, "point substance"], Likelihood]:
        """Amounts at minima, from every start by itself unless it is given up."""
        amounts = starts.flatten(0, 1).clone()
        damping = torch.full_like(amounts[:, 0], 1e-3)
        at = self.likelihood(amounts, scores)
        moving = torch.arange(len(amounts), device=amounts.device)
        for step_number in range(STEPS):
            here, slope, curvature = amounts[moving], at.gradient[moving], at.information[moving]
            diagonal = curvature.diagonal(dim1=1, dim2=2)
            damped = curvature + torch.diag_embed(damping[moving, None] * diagonal)
            new = self._stepped(here, slope, damped)
            there = self.likelihood(new, scores[moving])
            better = there.squares <= at.squares[moving]
            amounts[moving[better]] = new[better]
            for old, found in zip(at, there, strict=True):
                old[moving[better]] = found[better]
            damping[moving] = (damping[moving] * torch.where(better, 0.2, 8.0)).clamp(1e-6, 1e6)
            still = ((new - here) / self._box[0]).abs().amax(1) < 1e-5
            ended = (better & still) | (damping[moving] > 1e5)
            if step_number >= ALWAYS:
                ended |= self._given_up(amounts.reshape(starts.shape), at.loss)[moving]
            moving = moving[~ended]
            if not len(moving):
                break
        return amounts, at

    @cached_property
    def _centre(self) -> Tensor:
        return self._here(self.design.amounts.mean(axis=0))

    @cached_property
    def _box(self) -> tuple[Tensor, Tensor, Tensor]:
        """Ranges of the amounts, and the lowest and highest ones that are searched."""
        ranges = self._here(self.design.ranges)
        low = (self._here(self.design.low) - MARGIN * ranges).clamp(min=0)
        return ranges, low, self._here(self.design.high) + MARGIN * ranges

    def _stepped(self, here: Tensor, slope: Tensor, curvature: Tensor) -> Tensor:
        """Amounts after a step of Newton, at most half of the range long, within the box."""
        ranges, low, high = self._box
        bound = ((here <= low) & (slope > 0)) | ((here >= high) & (slope < 0))
        free = (~bound).double()
        curvature = curvature * free[:, :, None] * free[:, None] + torch.diag_embed(1 - free)
        step = -torch.linalg.solve(curvature, (slope * free)[..., None])[..., 0]
        longest = (step / ranges).abs().amax(1, keepdim=True)
        return (here + step * (0.5 / longest.clamp(min=0.5))).clamp(low, high)

    def _next(self, amounts: Tensor, scores: Tensor) -> Tensor:
        """Amounts after one step, which from the minimum of a similar model is at one's own."""
        at = self.likelihood(amounts, scores)
        return self._stepped(amounts, at.gradient, at.information)

    def likelihood(
        self, amounts: Float[Tensor, "point substance"], scores: Float[Tensor, "point score"]
    ) -> Likelihood:
        """L and what belongs to it, of scores at amounts."""
        predicted, along, variance = self._whitened.at(amounts)
        error = scores @ self.whitening.T - predicted
        distance = error.square().sum(1) / variance
        away = amounts - self._centre
        pull = away @ self.precision
        prior = (pull * away).sum(1) / 2
        leading = len(self.whitening)
        loss = (ERROR_FREEDOM + leading) / 2 * torch.log1p(distance / (ERROR_FREEDOM * WIDTH))
        loss = loss + leading / 2 * torch.log(variance) + prior
        gradient = pull - (error[:, None] @ along)[:, 0] / variance[:, None]
        information = along.mT @ along / variance[:, None, None] + self.precision
        return Likelihood(loss, distance / 2 + prior, gradient, information, distance)


def _law(
    design: Design, surface: Surface, rounding: float
) -> tuple[Float[Tensor, "leading score"], Float[Tensor, "substance substance"], float]:
    """Whitening and precision that err least on compositions left out, and their largest q."""
    amounts, ranges = torch.from_numpy(design.amounts), torch.from_numpy(design.ranges)
    away, scale = amounts - amounts.mean(0), surface.relative.sqrt()[:, None]
    prior = torch.linalg.inv(
        away.T @ away / (len(away) - 1) + NEGLIGIBLE_SHARE * torch.diag(ranges**2)
    )
    _, derivatives, _ = surface.at(amounts)
    kept = surface.composition != torch.arange(design.compositions)[:, None]
    others = surface.residuals_without() / scale * kept[..., None]
    own = surface.residuals / scale
    most = min(own.shape[1], max(int(LEADING * len(own)), len(ranges) + 1))
    ranks = torch.arange(min(len(ranges), most), most + 1)
    pulls = torch.tensor(PULLS, dtype=torch.float64)[:, None, None]
    best, chosen = np.inf, (1.0, 1.0, 1, prior, own)
    for shape, size in product(SHAPES, PRIOR_SAMPLES):
        law = covariances_of(others, kept.sum(1), shape, size, rounding)
        root = torch.linalg.cholesky(law)[surface.composition]
        along = torch.linalg.solve_triangular(root, derivatives / scale[..., None], upper=False)
        error = torch.linalg.solve_triangular(root, own[..., None], upper=False)
        # Leading scores are leading rows: of every number of them at once.
        squares = (along[..., None] * along[:, :, None]).cumsum(1)[:, ranks - 1, None]
        products = (along * error).cumsum(1)[:, ranks - 1, None]
        precisions = (pulls + NEGLIGIBLE_SHARE) * prior
        moved = products - (pulls * (away @ prior)).transpose(0, 1)[:, None]
        # Singular where leading scores tell nothing of a substance: the error is the range.
        errors = torch.linalg.solve_ex(squares + precisions, moved[..., None])[0][..., 0]
        relative = (errors / ranges).nan_to_num(1.0).clamp(-1, 1).square().mean(0)
        totals = torch.log(relative + 1e-12).mean(2)
        place = int(first_smallest(totals.flatten().numpy(), size=1.0))
        if (total := float(totals.flatten()[place])) < best - EQUAL:
            rank, pull = divmod(place, len(PULLS))
            best, chosen = total, (shape, size, int(ranks[rank]), precisions[pull], error[..., 0])
    shape, size, rank, precision, error = chosen
    law = covariances_of(own[None], torch.tensor([len(own)]), shape, size, rounding)[0]
    root = torch.linalg.cholesky(law[:rank, :rank])
    whitening = torch.zeros(rank, len(law), dtype=torch.float64)
    whitening[:, :rank] = torch.linalg.inv(root)
    return whitening, precision, float(error[:, :rank].square().sum(1).max())


def covariances_of(
    residuals: Float[Tensor, "set sample score"],
    counts: Int[Tensor, "set"],
    shape: float,
    size: float,
    rounding: float,
) -> Float[Tensor, "set score score"]:
    """Covariances S of sets of residuals, shrunk towards a diagonal prior.

    Args:
        residuals: residuals of every set, rows of zeros where it has fewer samples.
        counts: numbers of samples of the sets.
        shape: power of the variances of single scores in the prior; 0 makes them equal.
        size: samples that the prior counts as.
        rounding: smallest variance.
    """
    moments = residuals.mT @ residuals
    squares = moments.diagonal(dim1=1, dim2=2) / counts[:, None]
    squares = squares + 1e-8 * squares.amax(1, keepdim=True) + rounding
    prior = squares**shape * squares.mean(1, keepdim=True) ** (1 - shape)
    return (size * torch.diag_embed(prior) + moments) / (size + counts)[:, None, None]


def _rounded(values: Float[Tensor, "row place"]) -> Float[Tensor, "row place"]:
    """Rows in units of `EQUAL` of their largest value, rounded, so that equal ones are the same."""
    largest = values.abs().amax(1, keepdim=True).clamp(min=torch.finfo(values.dtype).tiny)
    return (values / largest / EQUAL).round()
