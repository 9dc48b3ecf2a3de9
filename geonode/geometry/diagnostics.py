"""Diagnostics of a grid: errors against its network, and statistics of its metric."""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from geonode.geometry.grid import Grid, moved
from geonode.geometry.metric import Metric

CHECK_WAVELENGTHS = 32
EDGE = (0.25, 0.5, 0.75)
"""Fractions of the first and of the last cell at which a grid is checked besides: slopes of the
symbol are one-sided there, and its errors the largest."""


class GridErrors(NamedTuple):
    """Looked-up minus direct values of one model."""

    log_sqrt: Float[Tensor, "position wavelength"]
    symbol: Float[Tensor, "position wavelength"]


def grid_errors(
    grid: Grid,
    metric: Metric,
    wavelengths: Float[Tensor, "wavelength"],
    *,
    positions: int,
    seed: int,
) -> GridErrors:
    """Compare lookups in the grid of one model with float64 network calls.

    Args:
        grid: as the geodesics will see it.
        metric: that one model, in float64.
        wavelengths: charted wavelengths of the grid's columns.
        positions: how many random positions, which are not nodes, to look at besides those in the
            cells at both ends, each at the same `CHECK_WAVELENGTHS` random wavelengths.
        seed: of the random choice.
    """
    like = metric.network.parameters[0]
    generator = torch.Generator().manual_seed(seed)
    x = (2 * torch.rand(positions, generator=generator, dtype=torch.float64) - 1).to(like)
    nodes = moved(grid.positions, like)
    ends = [a + fraction * (b - a) for a, b in (nodes[:2], nodes[-2:]) for fraction in EDGE]
    x = torch.cat([x, torch.stack(ends)])
    columns = torch.randperm(len(wavelengths), generator=generator)[:CHECK_WAVELENGTHS]
    part = grid.at_wavelengths(columns.to(grid.log_sqrt.device)).to(like)
    truth = metric.with_symbol(x[None], moved(wavelengths, like)[columns.to(like.device)])
    log_sqrt, symbol = part.lookup(x[None])
    return GridErrors(log_sqrt.T - truth[0][0], symbol.T - truth[1][0])


def error_statistics(errors: list[Float[Tensor, "..."]]) -> dict[str, float]:
    """Largest, root-mean-square, median and 99% quantile of absolute errors."""
    magnitude = torch.cat([error.abs().flatten() for error in errors]).cpu()
    middle, high = torch.quantile(magnitude, magnitude.new_tensor([0.5, 0.99])).tolist()
    return {
        "max": float(magnitude.max()),
        "rms": float(magnitude.square().mean().sqrt()),
        "median": middle,
        "q99": high,
    }


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
    return float(torch.trapezoid(table.mean(1), nodes) / length)
