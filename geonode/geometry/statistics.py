"""Statistics of a learned metric: range, variance and roughness over the chart."""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from geonode.geometry.grid import Grid


class MetricStatistics(NamedTuple):
    """Statistics of g over all concentrations and wavelengths of one model, in chart units.

    Attributes:
        lowest, highest: range of g.
        variance: of g.
        roughness: mean squared Christoffel symbol, 0 for a flat metric and the same for every
            multiple of a metric; what `metric.smoothness_weight` penalises.
    """

    lowest: float
    highest: float
    variance: float
    roughness: float


def metric_statistics(grid: Grid) -> MetricStatistics:
    """Statistics of one model; nodes count by the length of chart that they stand for."""
    g = torch.exp(2 * grid.log_sqrt)
    mean = _mean(grid.positions, g)
    return MetricStatistics(
        float(g.min()),
        float(g.max()),
        _mean(grid.positions, (g - mean).square()),
        _mean(grid.positions, grid.symbol.square()),
    )


def over_models(statistics: Iterable[MetricStatistics]) -> MetricStatistics:
    """The whole range of several models, and the means of their variance and roughness."""
    lowest, highest, variance, roughness = zip(*statistics, strict=True)
    count = len(lowest)
    return MetricStatistics(
        min(lowest), max(highest), sum(variance) / count, sum(roughness) / count
    )


def _mean(nodes: Float[Tensor, "node"], table: Float[Tensor, "node wavelength"]) -> float:
    """Mean over the chart, by the trapezoidal rule, and over wavelengths."""
    length = nodes[-1] - nodes[0]
    return float(torch.trapezoid(table, nodes, dim=0).mean() / length)
