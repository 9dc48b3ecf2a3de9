"""Values between the nodes of a grid, which may be anywhere in ascending order.

Every row reads its own column; positions that all rows share may be given once. A position beyond
the nodes is taken at the nearer end: nothing is ever extrapolated.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geonode.geometry.grid import Grid


def hermite(
    grid: Grid, positions: Float[Tensor, "#row point"], columns: Int[Tensor, "row"]
) -> tuple[Float[Tensor, "row point"], Float[Tensor, "row point"]]:
    """Cubics that match values and slopes at both ends of a cell.

    The slope of ln sqrt(g) is G: its error is h^4 / 384 times its fourth derivative (P. J. Davis,
    Interpolation and Approximation, Dover 1975, section 3.5). That of G is taken from parabolas
    through three nodes: its error is of order h^3. The derivative of the first cubic would be a
    symbol of the same order, but a difference over the cell: in a grid of 2000 nodes it carries
    the rounding of ln sqrt(g) a thousandfold.
    """
    cells = _Cells.of(grid, positions, columns)
    return (
        cells.cubic(grid.log_sqrt, grid.symbol),
        cells.cubic(grid.symbol, grid.bend),
    )


class _Cells(NamedTuple):
    """Cells of positions: index, width, and the fraction of the cell below the position."""

    cell: Tensor
    width: Tensor
    fraction: Tensor
    columns: Tensor

    @classmethod
    def of(cls, grid: Grid, positions: Tensor, columns: Tensor) -> "_Cells":
        nodes = grid.positions
        inside = positions.clamp(nodes[0], nodes[-1])
        cell = torch.searchsorted(nodes, inside.contiguous(), right=True) - 1
        cell = cell.clamp(0, len(nodes) - 2)
        low = nodes[cell]
        width = nodes[cell + 1] - low
        return cls(cell, width, (inside - low) / width, columns[:, None])

    def ends(self, table: Tensor) -> tuple[Tensor, Tensor]:
        """Values at the lower and the upper node."""
        return table[self.cell, self.columns], table[self.cell + 1, self.columns]

    def cubic(self, values: Tensor, slopes: Tensor) -> Tensor:
        """The cubic Hermite interpolant, in a form that is exact at both ends."""
        low, high = self.ends(values)
        rise, t = high - low, self.fraction
        start, end = (slope * self.width - rise for slope in self.ends(slopes))
        return low + t * (rise + (1 - t) * (start - t * (start + end)))
