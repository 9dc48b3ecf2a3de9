"""Mixtures whose measurement should make the response surface surer.

With P = (K + N)^-1 of the kernels and the noise of a smoother, the variance of its surface at c,
and what a sample at x takes away of it, are

    v(c) = k(c, c) - k_c^T P k_c,    v(c) - v(c | x) = C(c, x)^2 / (v(x) + noise),
    C(c, x) = k(c, x) - k_c^T P k_x

The next mixture is that of many which takes away most of the mean of v over the design's region,
where smoothers count by their weights. None of this needs its spectrum, so further mixtures follow.

Source: D. A. Cohn, Z. Ghahramani and M. I. Jordan, J. Artif. Intell. Res. 4 (1996) 129.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import torch
from jaxtyping import Float
from scipy.stats import qmc

from geonode.mixtures.design import CLOSED, Design
from geonode.mixtures.forward import ForwardModel
from geonode.posterior.next_levels import Proposal
from geonode.ties import first_largest

EVERYWHERE, TRIED = 256, 128
"""Points by which a mean is measured, and mixtures beside the corners that are compared."""


def propose_mixtures(forward: ForwardModel, count: int) -> list[Proposal]:
    """Propose the next mixtures, each as if the ones before had been measured.

    Args:
        forward: model of the samples.
        count: how many to propose.
    """
    surface, smoothers = forward.surface, forward.surface.smoothers
    region = points_of_region(forward.design, EVERYWHERE)
    corners = np.array([*product((0.0, 1.0), repeat=region.shape[1])])
    tried = np.concatenate(
        [_inside(forward.design, corners), points_of_region(forward.design, TRIED)]
    )
    # Of equally good ones the first by names is taken, in whatever order the substances are.
    _, first = np.unique(tried[:, np.argsort(forward.design.names)], axis=0, return_index=True)
    tried = tried[first]
    candidates = torch.from_numpy(tried)
    points = torch.cat([torch.from_numpy(region), candidates])
    explained, of_tried = (
        smoothers.kernels(one)[0] @ smoothers.roots.mT for one in (points, candidates)
    )
    # Covariances of all points with those tried, which are the last of them.
    of_candidates = replace(smoothers, compositions=candidates, counts=torch.ones(len(candidates)))
    found = of_candidates.kernels(points)[0] - explained @ of_tried.mT
    variance = (smoothers.own(points) - explained.square().sum(-1)).clamp(min=0)
    noise, weights = smoothers.noise[:, None], surface.weights * surface.sizes
    unit = surface.residuals.square().sum(1).mean() / len(forward.mean)
    proposals: list[Proposal] = []
    for number in range(count + 1):
        mean = (weights @ variance)[:EVERYWHERE].mean()
        before = float((mean * unit).sqrt())
        if number:
            proposals[-1] = proposals[-1]._replace(after=before)
        own = variance[:, EVERYWHERE:] + noise
        taken = weights @ (found[:, :EVERYWHERE].square().mean(1) / own)
        best = int(first_largest(taken.numpy()))
        here = weights @ variance[:, EVERYWHERE + best]
        error = float((here * unit).sqrt())
        proposals.append(Proposal(candidates[best].tolist(), error, before, 0.0))
        along = found[:, :, best] / own[:, best, None].sqrt()
        variance = (variance - along.square()).clamp(min=0)
        found = found - along[:, :, None] * along[:, None, EVERYWHERE:]
    return proposals[:count]


def points_of_region(design: Design, count: int) -> Float[np.ndarray, "point substance"]:
    """Evenly spread mixtures within the ranges of the amounts, to a hundredth of each.

    Those of substances in another order are the same.

    Args:
        design: of the samples.
        count: how many, a power of two.
    """
    sobol = qmc.Sobol(len(design.names), rng=0)
    return _inside(design, sobol.random(count).round(2)[:, np.argsort(np.argsort(design.names))])


def _inside(design: Design, shares: Float[np.ndarray, "point substance"]) -> np.ndarray:
    """Amounts by their shares of the ranges; beyond the largest sum they are scaled down to it."""
    amounts = design.low + shares * design.ranges
    _, first = np.unique(design.composition, return_index=True)
    total = design.amounts[first].sum(axis=1)
    # Amounts that several compositions fill up to one sum are parts of a whole, as in a simplex.
    if np.sum(total >= (1 - CLOSED) * total.max()) < max(2, len(design.names)):
        return amounts
    most = total.max() - design.low.sum()
    within = most / np.maximum(shares @ design.ranges, most)
    return design.low + within[:, None] * shares * design.ranges
