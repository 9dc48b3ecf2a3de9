"""Prior distribution of the concentration of a spectrum.

The prior is uniform on the arc length of the posterior metric, so that concentrations are resolved
finely where the spectra change fast (for errors of one size this is Jeffreys' prior). The range
reaches beyond the training levels, as an unknown need not lie between them. Its ends depend on the
training levels alone, never on a left-out one. Of n + 1 levels in random order the last lies above
the n others with probability 1 / (n + 1), and likewise below: each part beyond the levels has that
prior probability.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.interpolate import PchipInterpolator

from geonode.errors import TrainingError

BEYOND = 1.5
"""Reach of the range beyond the levels, in steps of concentration or of its logarithm."""

KNOTS = 32
RANKS = 2.0  # length of the scale of ranks in the placement of the knots; others have length 1
LOWEST = 1 / 30  # begin of the logarithmic scale, relative to the lowest positive level
REFINED = 16  # cells between two knots, over which sqrt(g) is interpolated and integrated
CURVE_NODES = 1025

Levels = Float[np.ndarray, "level"]
Knots = Float[np.ndarray, "knot"]


class Nodes(NamedTuple):
    """Concentrations of the posterior."""

    shares: Knots  # share of the arc length up to every knot, from 0 to 1
    fine: Float[np.ndarray, "fine"]  # nodes of the posterior, evenly spaced on the arc length
    edges: Float[np.ndarray, "edge"]  # edges of the cells about the nodes
    log_prior: Float[np.ndarray, "fine"]  # log prior probability of the cells, up to a constant


def believable_range(levels: Levels) -> tuple[float, float]:
    """Range of concentrations to consider, beyond both ends of the levels.

    Above by the larger of a linear and a logarithmic step; below the linear one is never smaller,
    as the tangent of r^-1.5 at 1 is below it. Half of the span of the levels is a step too:
    neighbours may be close where others are far apart. It begins at zero if it would begin below
    all knots on the logarithmic scale. Logarithms near zero, such as of what rounding leaves of
    0.9 - 1.5 * 0.6, would fill the range otherwise.

    Args:
        levels: training levels, ascending, none negative.
    """
    first, second = (float(level) for level in levels[:2])
    before, last = (float(level) for level in levels[-2:])
    least = (last - first) / 2
    low = first - max(BEYOND * (second - first), least)
    high = last + max(BEYOND * (last - before), least)
    if before > 0:
        high = max(high, last * (last / before) ** BEYOND)
    return low if low > _lowest_on_logarithm(levels) else 0.0, high


def knots_over_range(levels: Levels) -> Knots:
    """Knots over the believable range, evenly spaced on the sum of three scales.

    These are a linear and a logarithmic scale and that of the rank among the levels. So knots are
    dense where spectra change with the concentration, with its logarithm, or as levels are dense.

    Args:
        levels: training levels, ascending, none negative, not all zero.
    """
    low, high = believable_range(levels)
    lowest = max(low, _lowest_on_logarithm(levels))
    borders = np.unique([low, *levels, high])
    scales = np.linspace(low, high, CURVE_NODES), np.geomspace(lowest, high, CURVE_NODES), borders
    dense = np.unique(np.concatenate(scales))
    linear = (dense - low) / (high - low)
    logarithmic = np.log(np.maximum(dense / lowest, 1)) / np.log(high / lowest)
    rank = np.interp(dense, borders, np.linspace(0, 1, len(borders)))
    place = linear + logarithmic + RANKS * rank
    return np.interp(np.linspace(0, place[-1], KNOTS), place, dense)


def _lowest_on_logarithm(levels: np.ndarray) -> float:
    """Begin of the logarithmic scale of the knots."""
    return float(levels[levels > 0].min() * LOWEST)


def nodes_on_metric(levels: Levels, knots: Knots, sqrt_metric: Knots) -> Nodes:
    """Nodes evenly spaced on the arc length of a metric.

    Args:
        levels: training levels, ascending, none negative.
        knots: knots of `knots_over_range`.
        sqrt_metric: sqrt(g) at the knots, positive.

    Raises:
        TrainingError: sqrt(g) is not finite, or the levels are too small a part of the range.
    """
    if not np.isfinite(sqrt_metric).all():
        raise TrainingError(
            f"estimation: found predictions that are not finite between {knots[0]:g} and "
            f"{knots[-1]:g}, expected levels over fewer decades"
        )
    count = len(knots)
    between = np.interp(np.arange(REFINED * (count - 1) + 1) / REFINED, np.arange(count), knots)
    # ln sqrt(g) is smooth on this chart, whether spectra follow concentration or its logarithm.
    position = np.arcsinh(between / levels[levels > 0].min())
    logarithm = PchipInterpolator(position[::REFINED], np.log(sqrt_metric))(position)
    fine_metric = np.exp(logarithm)
    steps = (fine_metric[1:] + fine_metric[:-1]) / 2 * np.diff(between)
    lengths = np.concatenate([[0.0], np.cumsum(steps)])
    shares = lengths / lengths[-1]
    places = np.linspace(0, 1, CURVE_NODES)
    borders = np.concatenate([[0.0], (places[1:] + places[:-1]) / 2, [1.0]])
    fine, edges = (np.interp(where, shares, between) for where in (places, borders))
    below, beyond = fine < levels[0], fine > levels[-1]
    if (below | beyond).all():
        raise TrainingError(
            f"estimation: found levels from {levels[0]:g} to {levels[-1]:g} and a range up to "
            f"{knots[-1]:g}, of which they are less than a {CURVE_NODES}th; expected one between "
            f"{levels[-2]:g} and {levels[-1]:g}"
        )
    width = np.diff(borders)
    mass = np.full(CURVE_NODES, (len(levels) - 1) / width[~below & ~beyond].sum())
    for part in (below, beyond):
        mass[part] = 1 / max(width[part].sum(), np.finfo(float).tiny)
    return Nodes(shares[::REFINED], fine, edges, np.log(width * mass))
