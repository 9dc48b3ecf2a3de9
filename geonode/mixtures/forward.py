"""Forward model: amounts from a spectrum by the response surface and the law of its errors.

Scores y of a spectrum at amounts c have the error y - m(c), m the surface, of covariance v(c) S. The
law is learned from the residuals z of the samples with their composition left out, over the square
root of their expected relative variance:

    S = (k D + sum z z^T) / (k + n),    D: a diagonal, of the same size on average

D has the mean square of every direction, that of all directions, or their geometric mean. It, k,
the number of leading scores and how much amounts near the mean of the samples are preferred are
chosen by the errors of estimated amounts of left-out compositions. These are one step of Newton
from the true amounts, and the law of each is of residuals without its composition: then all have a
closed form.

Errors are as of Student's distribution: L(c) = (a + r) / 2 ln(1 + q / (a f)) + r / 2 ln v + prior,
where q is the squared error in units of v S and r the number of scores, of which at most four
count, as errors of many scores are never as independent as their law says. Newton's steps with the
curvature of L without second derivatives start at several compositions, and are damped as of
Levenberg and Marquardt.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from geonode.mixtures.design import Design
from geonode.mixtures.surface import Surface

MOST_SCORES = 20
SCORES = (0, 1, 2, 4, 6, 9, 13, 17)
"""Leading scores beyond the number of substances, of which one is chosen."""

PRIOR_SAMPLES = (1.0, 3.0, 10.0)
"""k of the law."""

PULLS = (0.0, 0.1, 1.0)
"""Precision of the prior of amounts, over that of the samples."""

MARGIN = 0.3
"""Of the range of the amounts: how far beyond them is searched, never below zero."""

FREEDOM, WIDTH, COUNTING = 2.0, 3.0, 4
"""a and f of Student's distribution, and the largest r."""

STARTS, STEPS = 3, 15
TINY = 1e-9

Points = Float[Tensor, "point substance"]


class Modes(NamedTuple):
    """Minima of L from all starts of every unknown; some may be the same.

    Attributes:
        amounts: where they are.
        loss: L there.
        information: inverse of the covariance of the amounts, by the law alone.
        distance: q there.
    """

    amounts: Float[Tensor, "unknown start substance"]
    loss: Float[Tensor, "unknown start"]
    information: Float[Tensor, "unknown start substance substance"]
    distance: Float[Tensor, "unknown start"]


@dataclass(frozen=True, eq=False)
class ForwardModel:
    """Forward model fitted to samples.

    Attributes:
        design: of the samples.
        mean: their mean spectrum.
        directions: orthonormal; products with deviations from the mean are scores.
        surface: of the scores.
        whitening: W; W^T W is the inverse of S in the leading scores, zero elsewhere.
        precision: of the prior of the amounts.
        centre: mean of the amounts.
        errors: estimates of the samples less their amounts, with their composition left out.
        information: inverse of their covariance by the law, as of `Modes`.
    """

    design: Design
    mean: Float[np.ndarray, "wavelength"]
    directions: Float[np.ndarray, "wavelength score"]
    surface: Surface
    whitening: Float[Tensor, "leading score"]
    precision: Float[Tensor, "substance substance"]
    centre: Float[Tensor, "substance"]
    errors: Float[Tensor, "sample substance"]
    information: Float[Tensor, "sample substance substance"]

    @classmethod
    def of(cls, design: Design, spectra: Float[np.ndarray, "sample wavelength"]) -> "ForwardModel":
        """Fit to samples.

        Args:
            design: their amounts.
            spectra: theirs.
        """
        mean = spectra.mean(axis=0)
        _, singular, basis = np.linalg.svd(spectra - mean, full_matrices=False)
        rank = min(MOST_SCORES, design.compositions - 1, int(np.sum(singular > 1e-7 * singular[0])))
        directions = basis[: max(rank, 1)].T
        scores = torch.from_numpy((spectra - mean) @ directions)
        surface = Surface.of(design, scores)
        amounts = torch.from_numpy(design.amounts)
        centre = amounts.mean(0)
        deviations = amounts - centre
        covariance = deviations.T @ deviations / (len(amounts) - 1)
        nothing = torch.zeros(())
        model = cls(
            design, mean, directions, surface, nothing, torch.linalg.inv(covariance), centre,
            nothing, nothing,
        )  # fmt: skip
        return model._with_law()

    @property
    def distances(self) -> Float[Tensor, "sample"]:
        """q of the samples at their amounts, with their composition left out of the surface."""
        errors = self.surface.residuals @ self.whitening.T
        return errors.square().sum(1) / self.surface.relative

    def scores(
        self, spectra: Float[np.ndarray, "unknown wavelength"]
    ) -> Float[Tensor, "unknown score"]:
        """Scores of spectra."""
        return torch.from_numpy((spectra - self.mean) @ self.directions)

    def modes(self, scores: Float[Tensor, "unknown score"]) -> Modes:
        """Minima of L by Newton's steps from the nearest compositions and from the centre."""
        compositions = self.surface.smoothers.compositions
        predicted = self.surface.at(compositions)[0] @ self.whitening.T
        near = torch.cdist(scores @ self.whitening.T, predicted).argsort(1)[:, :STARTS]
        centre = self.centre.expand(len(scores), 1, -1)
        starts = torch.cat([compositions[near], centre], dim=1)
        count = starts.shape[1]
        amounts = self._minimised(starts.flatten(0, 1), scores.repeat_interleave(count, 0))
        loss, _, _, information, distance = self._loss(amounts, scores.repeat_interleave(count, 0))
        shape = (len(scores), count)
        return Modes(
            amounts.reshape(*shape, -1),
            loss.reshape(shape),
            information.reshape(*shape, *information.shape[1:]),
            distance.reshape(shape),
        )

    def _minimised(self, amounts: Points, scores: Tensor) -> Points:
        """Amounts at minima of L, of every point by itself."""
        low, high = self._box()
        amounts = amounts.clamp(low, high)
        damping = torch.full((len(amounts),), 1e-3, dtype=torch.float64)
        loss, gradient, curvature, *_ = self._loss(amounts, scores)
        moving = torch.arange(len(amounts))
        for _ in range(STEPS):
            at, slope, hessian = amounts[moving], gradient[moving], curvature[moving]
            diagonal = hessian.diagonal(dim1=1, dim2=2)
            floor = TINY / (high - low) ** 2
            damped = hessian + torch.diag_embed(damping[moving, None] * diagonal + floor)
            held = ((at <= low) & (slope > 0)) | ((at >= high) & (slope < 0))
            free = (~held).double()
            damped = damped * free[:, :, None] * free[:, None] + torch.diag_embed(1 - free)
            step = -torch.linalg.solve(damped, (slope * free)[..., None])[..., 0]
            longest = (step / (high - low)).abs().amax(1, keepdim=True)
            new = (at + step * (MARGIN / longest.clamp(min=MARGIN))).clamp(low, high)
            new_loss, new_slope, new_hessian, *_ = self._loss(new, scores[moving])
            better = new_loss <= loss[moving]
            moved = ((new - at) / (high - low)).abs().amax(1)
            factor = torch.where(better, 0.2, 8.0)
            damping[moving] = (damping[moving] * factor).clamp(1e-6, 1e6)
            of = moving[better]
            amounts[of], loss[of] = new[better], new_loss[better]
            gradient[of], curvature[of] = new_slope[better], new_hessian[better]
            moving = moving[~((better & (moved < 1e-5)) | (damping[moving] > 1e5))]
            if not len(moving):
                break
        return amounts

    def _box(self) -> tuple[Tensor, Tensor]:
        beyond = MARGIN * self.design.ranges
        low = np.maximum(self.design.low - beyond, 0)
        return torch.from_numpy(low), torch.from_numpy(self.design.high + beyond)

    def _loss(self, amounts: Points, scores: Tensor) -> tuple[Tensor, ...]:
        """L, its gradient and curvature, the information of the law, and q of every point."""
        predicted, derivatives, variance = self.surface.at(amounts)
        error = (scores - predicted) @ self.whitening.T
        along = self.whitening @ derivatives
        distance = error.square().sum(1) / variance
        away = amounts - self.centre
        pull = away @ self.precision
        counting = min(COUNTING, len(self.whitening))
        loss = (FREEDOM + counting) / 2 * torch.log1p(distance / (FREEDOM * WIDTH))
        loss = loss + counting / 2 * torch.log(variance) + (pull * away).sum(1) / 2
        weight = (FREEDOM + counting) / (FREEDOM * WIDTH + distance) / variance
        gradient = pull - weight[:, None] * (error[:, None] @ along)[:, 0]
        squares = along.mT @ along
        curvature = weight[:, None, None] * squares + self.precision
        information = squares / variance[:, None, None] + self.precision
        return loss, gradient, curvature, information, distance

    def _with_law(self) -> "ForwardModel":
        """Model with the law whose linear estimates of left-out compositions err least."""
        surface, prior = self.surface, self.precision
        amounts = torch.from_numpy(self.design.amounts)
        ranges = torch.from_numpy(self.design.ranges)
        substances = len(ranges)
        _, derivatives, _ = surface.at(amounts)
        scale = surface.relative.sqrt()[:, None]
        compositions = torch.arange(int(surface.composition.max()) + 1)
        kept = (surface.composition != compositions[:, None]).double()
        others = surface.residuals_without() / scale * kept[..., None]
        own = surface.residuals / scale
        away = amounts - self.centre
        ranks = {min(substances + more, own.shape[1]) for more in SCORES}
        ranks = {rank for rank in ranks if rank <= max(len(own) / 2, substances + 1)}
        best, chosen = torch.inf, self
        for shape in SHAPES:
            for size in PRIOR_SAMPLES:
                root = torch.linalg.cholesky(_law(others, kept.sum(1), shape, size))
                root = root[surface.composition]
                along = _solved(root, derivatives / scale[..., None])
                error = _solved(root, own[..., None])
                squares = (along[:, :, :, None] * along[:, :, None]).cumsum(1)
                products = (along * error).cumsum(1)
                for rank in ranks:
                    for pull in PULLS:
                        precision = (pull + TINY) * prior
                        information = squares[:, rank - 1] + precision
                        moved = products[:, rank - 1] - pull * away @ prior
                        errors = torch.linalg.solve(information, moved[..., None])[..., 0]
                        relative = (errors / ranges).clamp(-1, 1).square().mean(0)
                        if (total := float(torch.log(relative + 1e-12).mean())) < best:
                            best = total
                            whole = _law(own[None], torch.tensor([float(len(own))]), shape, size)
                            lower = torch.linalg.cholesky(whole[0, :rank, :rank])
                            whitening = torch.zeros(rank, own.shape[1], dtype=torch.float64)
                            whitening[:, :rank] = torch.linalg.inv(lower)
                            chosen = replace(
                                self,
                                whitening=whitening,
                                precision=precision,
                                errors=errors,
                                information=information,
                            )
        return chosen


SHAPES = (0.0, 0.5, 1.0)
"""Powers of the mean square of a direction in D; the rest is that of all directions."""


def _law(residuals: Tensor, counts: Tensor, shape: float, size: float) -> Tensor:
    """S of several sets of residuals, of which rows of zeros are no samples."""
    moments = residuals.mT @ residuals
    squares = moments.diagonal(dim1=1, dim2=2) / counts[:, None]
    squares = squares + 1e-8 * squares.amax(1, keepdim=True) + 1e-300
    prior = squares**shape * squares.mean(1, keepdim=True) ** (1 - shape)
    return (size * torch.diag_embed(prior) + moments) / (size + counts)[:, None, None]


def _solved(root: Tensor, right: Tensor) -> Tensor:
    return torch.linalg.solve_triangular(root, right, upper=False)
