"""Diagnostics of a stored grid: its errors against the network, and statistics of its metric."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from geonode.errors import GeometryError
from geonode.geometry.grid import Grid, moved
from geonode.geometry.metric import Metric

CHECK_WAVELENGTHS = 32
EDGE = (0.25, 0.5, 0.75)
"""Fractions of the first and of the last cell at which a grid is checked besides: slopes of the
symbol are one-sided there, and its errors the largest."""


class CheckedGrid(NamedTuple):
    """Outcome of the check of a grid.

    Attributes:
        log_sqrt, symbol: looked-up minus direct values, on the CPU.
        lowest, highest: range of g over all concentrations and wavelengths (chart units).
        variance: of g; nodes count by the length of chart that they stand for.
        roughness: mean squared Christoffel symbol, 0 for a flat metric and the same for every
            multiple of a metric; what `metric.smoothness_weight` penalises.
    """

    log_sqrt: Float[Tensor, "position wavelength"]
    symbol: Float[Tensor, "position wavelength"]
    lowest: float
    highest: float
    variance: float
    roughness: float


@dataclass(frozen=True)
class GridCheck:
    """Comparison of the grid of a model with float64 calls of its network.

    Attributes:
        metric: the metrics of the grids in float64.
        wavelengths: charted wavelengths of the columns of the grids.
        positions: how many random positions, which are not nodes, to look at besides those in the
            cells at both ends, each at the same `CHECK_WAVELENGTHS` random wavelengths.
        tolerance: largest error of ln sqrt(g) and of the Christoffel symbol between nodes.
    """

    metric: Metric
    wavelengths: Float[Tensor, "wavelength"]
    positions: int
    tolerance: float

    def __call__(self, model: int, grid: Grid) -> CheckedGrid:
        """Check one grid, as the geodesics will see it.

        Raises:
            GeometryError: it has too few nodes for the tolerance.
        """
        like = self.metric.network.parameters[0]
        generator = torch.Generator().manual_seed(model)
        x = 2 * torch.rand(self.positions, generator=generator, dtype=torch.float64) - 1
        nodes = moved(grid.positions, like)
        ends = [a + fraction * (b - a) for a, b in (nodes[:2], nodes[-2:]) for fraction in EDGE]
        x = torch.cat([x.to(like), torch.stack(ends)])
        columns = torch.randperm(len(self.wavelengths), generator=generator)[:CHECK_WAVELENGTHS]
        part = grid.at_wavelengths(columns.to(grid.log_sqrt.device)).to(like)
        w = moved(self.wavelengths, like)[columns.to(like.device)]
        truth = self.metric[model].with_symbol(x[None], w)
        pairs = zip(part.lookup(x[None]), truth, strict=True)
        log_sqrt, symbol = ((found.T - exact[0]).cpu() for found, exact in pairs)
        error = float(torch.maximum(log_sqrt.abs(), symbol.abs()).max())
        if not error <= self.tolerance:
            # the error of the symbol is of order 3 in the width of a cell
            enough = math.ceil(len(nodes) * (error / self.tolerance) ** (1 / 3)) + 1
            raise GeometryError(
                f"christoffel.resolution: found {len(nodes)}, expected about {enough} or more: "
                f"between nodes lookups of model {model} are off by up to {error:.1e}, more than "
                f"christoffel.tolerance, {self.tolerance:g}"
            )
        g = torch.exp(2 * grid.log_sqrt)
        mean = _mean(grid.positions, g)
        return CheckedGrid(
            log_sqrt,
            symbol,
            lowest=float(g.min()),
            highest=float(g.max()),
            variance=_mean(grid.positions, (g - mean).square()),
            roughness=_mean(grid.positions, grid.symbol.square()),
        )


def error_statistics(errors: list[Float[Tensor, "..."]]) -> dict[str, float]:
    """Largest, root-mean-square, median and 99% quantile of absolute errors."""
    magnitude = torch.cat([error.abs().flatten() for error in errors])
    middle, high = torch.quantile(magnitude, magnitude.new_tensor([0.5, 0.99])).tolist()
    return {
        "max": float(magnitude.max()),
        "rms": float(magnitude.square().mean().sqrt()),
        "median": middle,
        "q99": high,
    }


def metric_statistics(members: list[CheckedGrid]) -> dict[str, float]:
    """The whole range of g of several members, and the means of its variance and roughness."""
    count = len(members)
    return {
        "lowest": min(grid.lowest for grid in members),
        "highest": max(grid.highest for grid in members),
        "variance": sum(grid.variance for grid in members) / count,
        "roughness": sum(grid.roughness for grid in members) / count,
    }


def _mean(nodes: Float[Tensor, "node"], table: Float[Tensor, "node wavelength"]) -> float:
    """Mean over the chart, by the trapezoidal rule, and over wavelengths."""
    length = nodes[-1] - nodes[0]
    return float(torch.trapezoid(table.mean(1), nodes) / length)
