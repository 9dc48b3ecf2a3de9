"""Errors of a grid against the network it was made of."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from geonode.geometry.grid import Grid, moved
from geonode.geometry.lookup import hermite
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
    all_columns = torch.arange(len(columns), device=like.device)
    log_sqrt, symbol = hermite(part, x[None], all_columns)
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
