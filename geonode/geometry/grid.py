"""The grid of Christoffel symbols: what the geodesics are computed from.

A grid holds ln sqrt(g) and G = d ln sqrt(g) / dx at concentration nodes for every wavelength of
the series. Nodes need not be evenly spaced. Values and exact derivatives together make a lookup a
Hermite interpolation (`geonode.geometry.lookup`).
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geonode.errors import GeometryError

FEWEST_NODES = 4


@dataclass(frozen=True)
class Grid:
    """Geometry of one (member, fold) model on nodes times wavelengths.

    Attributes:
        positions: ascending chart positions of the nodes, from -1 to 1.
        log_sqrt: ln sqrt(g).
        symbol: the Christoffel symbol, its derivative with respect to position.

    Raises:
        GeometryError: the shapes of the three do not agree.
    """

    positions: Float[Tensor, "node"]
    log_sqrt: Float[Tensor, "node wavelength"]
    symbol: Float[Tensor, "node wavelength"]

    def __post_init__(self) -> None:
        """Compare the shapes; values are for `require_valid`, as looking at them costs time."""
        nodes = self.positions.shape
        for name, table in (("log_sqrt", self.log_sqrt), ("symbol", self.symbol)):
            if table.ndim != 2 or table.shape[:1] != nodes or table.shape != self.log_sqrt.shape:
                raise GeometryError(
                    f"{name}: found the shape {tuple(table.shape)}, expected (nodes, wavelengths) "
                    f"with positions of the shape {tuple(nodes)}"
                )

    def require_valid(self) -> None:
        """Refuse nodes that do not ascend and values that are not finite.

        Raises:
            GeometryError: naming the table and the first bad entry.
        """
        nodes = self.positions
        if not ((nodes.diff() > 0).all() and torch.isfinite(nodes).all()):
            raise GeometryError(
                "positions: found nodes that are out of order or not finite, expected ascending "
                "nodes"
            )
        for name, table in (("log_sqrt", self.log_sqrt), ("symbol", self.symbol)):
            bad = ~torch.isfinite(table)
            if bad.any():
                node, column = bad.nonzero()[0].tolist()
                raise GeometryError(
                    f"{name}: found {float(table[node, column])} at node {node}, wavelength "
                    f"{column}, expected finite values; train the metric again"
                )

    @cached_property
    def bend(self) -> Float[Tensor, "node wavelength"]:
        """The slope of G at the nodes, from parabolas through three of them: error O(h^2)."""
        nodes = self.positions
        return torch.gradient(self.symbol, spacing=(nodes,), dim=0, edge_order=2)[0]

    def at_wavelengths(self, columns: Int[Tensor, "chosen"] | slice) -> "Grid":
        """The grid of some of the wavelengths, by index."""
        return Grid(self.positions, self.log_sqrt[:, columns], self.symbol[:, columns])

    def to(self, like: Float[Tensor, "..."]) -> "Grid":
        """A copy in the format and on the device of a tensor."""
        parts = (self.positions, self.log_sqrt, self.symbol)
        return Grid(*(moved(part, like) for part in parts))


def uniform_nodes(
    resolution: int, device: torch.device, dtype: torch.dtype
) -> Float[Tensor, "node"]:
    """Equally spaced nodes on [-1, 1]; the ends are exact.

    Raises:
        GeometryError: there are too few.
    """
    if resolution < FEWEST_NODES:
        raise GeometryError(f"resolution: found {resolution}, expected {FEWEST_NODES} or more")
    return torch.linspace(-1, 1, resolution, device=device, dtype=dtype)


def moved(tensor: Float[Tensor, "*shape"], like: Float[Tensor, "..."]) -> Float[Tensor, "*shape"]:
    """A copy on the device and in the format of a float64 tensor.

    Moved before it is widened: a device without float64 cannot do both at once.
    """
    return tensor.to(like.device).to(like.dtype)
