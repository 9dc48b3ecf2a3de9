"""Geometry along rows: what a solver of geodesics asks of a metric, wherever it comes from.

A row is one geodesic at one wavelength. A field gives ln sqrt(g) and the Christoffel symbol at any
positions of its rows; some of the rows are a field again.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from geonode.geometry.grid import Grid
from geonode.geometry.metric import Metric


@runtime_checkable
class Field(Protocol):
    """ln sqrt(g) and Christoffel symbol at positions of rows that do not influence each other."""

    def __call__(
        self, positions: Float[Tensor, "row point"]
    ) -> tuple[Float[Tensor, "row point"], Float[Tensor, "row point"]]:
        """Ln sqrt(g) and the Christoffel symbol."""

    def __getitem__(self, rows: Int[Tensor, "chosen"]) -> "Field":
        """The field of some of the rows, in the order given; a row may be chosen repeatedly."""


@dataclass(frozen=True)
class NetworkField:
    """One metric network: exact, and a network call for every position."""

    metric: Metric  # a single model
    wavelengths: Float[Tensor, "row"]  # of every row, chart units

    def __call__(
        self, positions: Float[Tensor, "row point"]
    ) -> tuple[Float[Tensor, "row point"], Float[Tensor, "row point"]]:
        """Ln sqrt(g) and the Christoffel symbol by calling the network."""
        w = self.wavelengths[:, None].expand_as(positions)
        log_sqrt, symbol = self.metric.at_points(positions.reshape(1, -1), w.reshape(1, -1))
        return log_sqrt.reshape(positions.shape), symbol.reshape(positions.shape)

    def __getitem__(self, rows: Int[Tensor, "chosen"]) -> "NetworkField":
        """Field of some rows: the network at their wavelengths."""
        return NetworkField(self.metric, self.wavelengths[rows])


@dataclass(frozen=True)
class GridField:
    """One grid, looked up: a gather and a few products for every position."""

    grid: Grid  # of one model
    columns: Int[Tensor, "row"]  # column of the grid that every row reads

    def __call__(
        self, positions: Float[Tensor, "row point"]
    ) -> tuple[Float[Tensor, "row point"], Float[Tensor, "row point"]]:
        """Ln sqrt(g) and the Christoffel symbol from the grid."""
        return self.grid.lookup(positions, self.columns)

    def __getitem__(self, rows: Int[Tensor, "chosen"]) -> "GridField":
        """Field of some rows: the grid with their columns."""
        return GridField(self.grid, self.columns[rows])
