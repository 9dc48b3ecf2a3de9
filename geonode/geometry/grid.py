"""The grid of Christoffel symbols: what the geodesics are computed from.

A grid contains ln sqrt(g) and G = d ln sqrt(g) / dx at concentration nodes for every wavelength of
the series. Nodes need not be evenly spaced. Values and exact derivatives together make a lookup a
Hermite interpolation.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Grid:
    """Geometry of one (member, fold) model on nodes times wavelengths."""

    positions: Float[Tensor, "node"]  # ascending chart positions of the nodes, from -1 to 1
    log_sqrt: Float[Tensor, "node wavelength"]  # ln sqrt(g)
    symbol: Float[Tensor, "node wavelength"]
    """The Christoffel symbol, its derivative with respect to position."""

    @cached_property
    def bend(self) -> Float[Tensor, "node wavelength"]:
        """The slope of G at the nodes, from parabolas through three of them: error O(h^2)."""
        return torch.gradient(self.symbol, spacing=(self.positions,), dim=0, edge_order=2)[0]

    def lookup(
        self, positions: Float[Tensor, "#row point"], columns: Int[Tensor, "row"] | None = None
    ) -> tuple[Float[Tensor, "row point"], Float[Tensor, "row point"]]:
        """Ln sqrt(g) and the Christoffel symbol between nodes, by cubics of every cell.

        They match values and slopes at both ends. The slope of ln sqrt(g) is G: its error is
        h^4 / 384 times its fourth derivative (P. J. Davis, Interpolation and Approximation, Dover
        1975, section 3.5). That of G is `bend`: its error is of order h^3. The derivative of the
        first cubic would be a symbol of the same order, but a difference over the cell: in a grid
        of 2000 nodes it carries the rounding of ln sqrt(g) a thousandfold.

        Args:
            positions: for every row, or once for all of them. Beyond the nodes the nearer end is
                taken: nothing is ever extrapolated.
            columns: wavelength, by index, that every row reads; None: row after row the next one.
        """
        cells = self._cells(positions, columns)
        return _cubic(self.log_sqrt, self.symbol, *cells), _cubic(self.symbol, self.bend, *cells)

    def log_sqrt_at(self, positions: Float[Tensor, "point"]) -> Float[Tensor, "point wavelength"]:
        """Ln sqrt(g) of `lookup` at every wavelength."""
        return _cubic(self.log_sqrt, self.symbol, *self._cells(positions[None], None)).T

    def _cells(self, positions: Tensor, columns: Tensor | None) -> tuple[Tensor, ...]:
        """Cell of every point, the column that its row reads, width of the cell, place in it."""
        nodes = self.positions
        if columns is None:
            columns = torch.arange(self.log_sqrt.shape[1], device=nodes.device)
        inside = positions.clamp(nodes[0], nodes[-1])
        cell = torch.searchsorted(nodes, inside.contiguous(), right=True) - 1
        cell = cell.clamp(0, len(nodes) - 2)
        width = nodes[cell + 1] - nodes[cell]
        return cell, columns[:, None], width, (inside - nodes[cell]) / width

    def at_wavelengths(self, columns: Int[Tensor, "chosen"] | slice) -> "Grid":
        """The grid of some of the wavelengths, by index."""
        return Grid(self.positions, self.log_sqrt[:, columns], self.symbol[:, columns])

    def to(self, like: Float[Tensor, "..."]) -> "Grid":
        """A copy in the format and on the device of a tensor."""
        parts = (self.positions, self.log_sqrt, self.symbol)
        return Grid(*(matched(part, like) for part in parts))


def _cubic(
    values: Tensor, slopes: Tensor, cell: Tensor, column: Tensor, width: Tensor, t: Tensor
) -> Tensor:
    """The cubic Hermite interpolant of two tables, in a form exact at both ends of a cell."""
    low, high = (values[cell + end, column] for end in (0, 1))
    rise = high - low
    start, end = (slopes[cell + end, column] * width - rise for end in (0, 1))
    return low + t * (rise + (1 - t) * (start - t * (start + end)))


def uniform_nodes(
    resolution: int, device: torch.device, dtype: torch.dtype
) -> Float[Tensor, "node"]:
    """Equally spaced nodes on [-1, 1]; the ends are exact."""
    return torch.linspace(-1, 1, resolution, device=device, dtype=dtype)


def matched(tensor: Float[Tensor, "*shape"], like: Float[Tensor, "..."]) -> Float[Tensor, "*shape"]:
    """A copy on the device and in the format of a float64 tensor.

    Moved before it is widened: a device without float64 cannot do both at once.
    """
    return tensor.to(like.device).to(like.dtype)
