"""Concentrations that a spectrum may have before it is seen.

A concentration is as likely as its share of the arc length of the posterior metric: where the
spectra change fast with concentration, it is told apart finely (the prior of Jeffreys is the same
for errors of one size). The range reaches beyond the training levels, as these do not say
that an unknown lies between them. Its ends are chosen by the levels that are known, never by one
that is left out. Of n + 1 levels in random order the last lies above the n others with the
probability 1 / (n + 1), and so below: the parts beyond the levels have no more.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from geonode.posterior.posterior import MetricPosterior

BEYOND = 1.5
"""Steps, in concentration or in its logarithm, by which the range reaches beyond the levels."""

PLACES = 33  # at which the metric is asked for, evenly and again on a logarithmic scale
DECADE = 30.0  # how far below the lowest positive level those on the logarithmic scale begin


class Nodes(NamedTuple):
    """Concentrations at which a curve is predicted and a posterior is computed.

    Attributes:
        coarse: for the predictions.
        fine: for the posterior.
        edges: of the cells about the fine ones.
        log_prior: of the cells, up to a constant.
    """

    coarse: Float[np.ndarray, "coarse"]
    fine: Float[np.ndarray, "fine"]
    edges: Float[np.ndarray, "edge"]
    log_prior: Float[np.ndarray, "fine"]


def believable_range(levels: Float[np.ndarray, "level"]) -> tuple[float, float]:
    """From zero to beyond the highest level by the larger of two kinds of steps.

    Args:
        levels: training levels, ascending, none negative.
    """
    before, last = (float(level) for level in levels[-2:])
    high = last + BEYOND * (last - before)
    if before > 0:
        high = max(high, last * (last / before) ** BEYOND)
    return 0.0, high


def metric_nodes(
    posterior: MetricPosterior, low: float, high: float, coarse: int, finer: int
) -> Nodes:
    """Nodes evenly on the arc length of the mean of sqrt(g).

    Args:
        posterior: of the metric.
        low: start of the range.
        high: end of the range.
        coarse: number of nodes for predictions.
        finer: times as many intervals between the fine ones.
    """
    positive = float(posterior.levels[posterior.levels > 0].min())
    places = np.union1d(
        np.linspace(low, high, PLACES), np.geomspace(positive / DECADE, high, PLACES)
    )
    middles = (places[1:] + places[:-1]) / 2
    mean, _ = posterior.sqrt_metric(middles)
    lengths = np.concatenate([[0.0], np.cumsum(mean * np.diff(places))])

    def at(shares: np.ndarray) -> np.ndarray:
        return np.interp(shares * lengths[-1], lengths, places)

    count = finer * (coarse - 1) + 1
    fine = np.linspace(0, 1, count)
    half = fine[1] / 2
    edges = np.concatenate([[0.0], fine[:-1] + half, [1.0]])
    width = np.diff(edges)
    lowest, highest = posterior.levels[[0, -1]]
    part = (at(fine) > lowest).astype(int) + (at(fine) > highest)  # below, between, beyond
    if lowest == 0:
        part = part.clip(min=1)  # nothing is below a blank
    mass = np.array([1.0, len(posterior.levels) - 1.0, 1.0])
    share = width * (mass / np.maximum(np.bincount(part, width, 3), 1e-300))[part]
    return Nodes(at(np.linspace(0, 1, coarse)), at(fine), at(edges), np.log(share))
