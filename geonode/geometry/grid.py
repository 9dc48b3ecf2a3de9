"""The grid of Christoffel symbols: what the geodesics are computed from.

A grid holds ln sqrt(g) and G = d ln sqrt(g) / dx at concentration nodes for every wavelength of
the series. Values and exact derivatives together make every lookup a Hermite interpolation.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geonode.geometry.chebyshev import derivatives, expand, polynomials
from geonode.geometry.metric import Metric


@dataclass(frozen=True)
class Grid:
    """Geometry of one (member, fold) model on nodes times wavelengths.

    Attributes:
        positions: ascending chart positions of the nodes, from -1 to 1.
        log_sqrt: ln sqrt(g).
        symbol: the Christoffel symbol, its derivative with respect to position.
    """

    positions: Float[Tensor, "node"]
    log_sqrt: Float[Tensor, "node wavelength"]
    symbol: Float[Tensor, "node wavelength"]

    def at_wavelengths(self, columns: Int[Tensor, "chosen"]) -> "Grid":
        """The grid of some of the wavelengths, by index."""
        return Grid(self.positions, self.log_sqrt[:, columns], self.symbol[:, columns])

    def to(self, like: Float[Tensor, "..."]) -> "Grid":
        """A copy in the format and on the device of a tensor."""
        parts = (self.positions, self.log_sqrt, self.symbol)
        return Grid(*(moved(part, like) for part in parts))


@dataclass(frozen=True)
class Grids:
    """Grids of many models, made one at a time so that memory does not grow with their number.

    Attributes:
        positions: nodes of the grids.
        models: how many.
        calls: network calls that each of them costs.
        build: the grid of one model.
    """

    positions: Float[Tensor, "node"]
    models: int
    calls: int
    build: Callable[[int], Grid]

    def __iter__(self) -> Iterator[Grid]:
        """All grids in the order of the models."""
        return (self.build(model) for model in range(self.models))


def uniform_nodes(
    resolution: int, device: torch.device, dtype: torch.dtype
) -> Float[Tensor, "node"]:
    """Equally spaced nodes on [-1, 1]; the ends are exact."""
    return torch.linspace(-1, 1, resolution, device=device, dtype=dtype)


def chebyshev_grids(
    metric: Metric,
    wavelengths: Float[Tensor, "wavelength"],
    positions: Float[Tensor, "node"],
    *,
    tolerance: float,
    largest_degree: int,
) -> Grids:
    """Grids from a Chebyshev expansion of the float64 metric.

    Raises:
        GeometryError: a metric is too sharp for the largest degree.
    """
    expansion = expand(metric, tolerance, largest_degree)
    coefficients = expansion.coefficients.to(positions)
    in_w = polynomials(wavelengths.to(positions), coefficients.shape[2]).T
    values = polynomials(positions, coefficients.shape[1])
    slopes = derivatives(positions, coefficients.shape[1])

    def build(model: int) -> Grid:
        lines = coefficients[model] @ in_w
        return Grid(positions, values @ lines, slopes @ lines)

    return Grids(positions, metric.network.models, expansion.calls, build)


def direct_grids(
    metric: Metric, wavelengths: Float[Tensor, "wavelength"], positions: Float[Tensor, "node"]
) -> Grids:
    """Grids from one network call per node: slow, readable, and right for any metric."""

    def build(model: int) -> Grid:
        one = metric[model]
        like = metric.network.parameters[0]
        parts = [
            one.with_symbol(moved(rows, like)[None], moved(wavelengths, like))
            for rows in positions.split(128)
        ]
        log_sqrt = torch.cat([part[0][0] for part in parts])
        symbol = torch.cat([part[1][0] for part in parts])
        return Grid(positions, log_sqrt.to(positions), symbol.to(positions))

    return Grids(positions, metric.network.models, len(positions) * len(wavelengths), build)


def moved(tensor: Float[Tensor, "*shape"], like: Float[Tensor, "..."]) -> Float[Tensor, "*shape"]:
    """A copy on the device and in the format of a float64 tensor.

    Moved before it is widened: a device without float64 cannot do both at once.
    """
    return tensor.to(like.device).to(like.dtype)


def hermite(grid: Grid, points: Float[Tensor, "point"]) -> Float[Tensor, "point wavelength"]:
    """Ln sqrt(g) at chart positions, from the cubic that matches it and G at both ends of a cell.

    The error is h^4 / 384 times the fourth derivative; a point beyond the nodes is taken at the
    end. Source: P. J. Davis, Interpolation and Approximation, Dover 1975, section 3.5.
    """
    cell, width, t = _cells(grid, points)
    low, high = grid.log_sqrt[cell], grid.log_sqrt[cell + 1]
    # low + t (rise + (1 - t) (start - t bend)) is exact at both ends
    rise = high - low
    start = grid.symbol[cell] * width - rise
    bend = start + grid.symbol[cell + 1] * width - rise
    return low + t * (rise + (1 - t) * (start - t * bend))


def linear(grid: Grid, points: Float[Tensor, "point"]) -> Float[Tensor, "point wavelength"]:
    """The Christoffel symbol at chart positions, by linear interpolation between nodes.

    The error is h^2 / 8 times the second derivative of G; a point beyond the nodes is taken at
    the end.
    """
    cell, _, t = _cells(grid, points)
    return torch.lerp(grid.symbol[cell], grid.symbol[cell + 1], t.expand(-1, grid.symbol.shape[1]))


def _cells(grid: Grid, points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Cell of every point, its width, and where in it the point lies (0 to 1)."""
    points = points.clamp(grid.positions[0], grid.positions[-1])
    last = len(grid.positions) - 2
    cell = (torch.searchsorted(grid.positions, points, right=True) - 1).clamp(0, last)
    width = (grid.positions[cell + 1] - grid.positions[cell])[:, None]
    return cell, width, (points - grid.positions[cell])[:, None] / width
