"""Geometry along rows: what a solver of geodesics asks of a metric, wherever it comes from.

A row is one geodesic at one wavelength. A field gives ln sqrt(g) and the Christoffel symbol at any
positions of its rows; some of the rows are a field again.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from geonode.geometry.christoffel import SymbolMethod, analytic
from geonode.geometry.grid import Grid
from geonode.geometry.lookup import Lookup, hermite
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

    @property
    def rows(self) -> int:
        """How many rows there are."""

    @property
    def parameters(self) -> tuple[Float[Tensor, "..."], ...]:
        """What the field is made of, for gradients with respect to it."""


@dataclass(frozen=True)
class NetworkField:
    """One metric network: exact, and a network call for every position.

    Attributes:
        metric: a single model.
        wavelengths: of every row, chart units.
        method: how the Christoffel symbol is found.
    """

    metric: Metric
    wavelengths: Float[Tensor, "row"]
    method: SymbolMethod = analytic

    def __call__(
        self, positions: Float[Tensor, "row point"]
    ) -> tuple[Float[Tensor, "row point"], Float[Tensor, "row point"]]:
        """Ln sqrt(g) and the Christoffel symbol by calling the network."""
        w = self.wavelengths[:, None].expand_as(positions)
        log_sqrt, symbol = self.method(self.metric, positions.reshape(1, -1), w.reshape(1, -1))
        return log_sqrt.reshape(positions.shape), symbol.reshape(positions.shape)

    def __getitem__(self, rows: Int[Tensor, "chosen"]) -> "NetworkField":
        """The same network at the wavelengths of some rows."""
        return NetworkField(self.metric, self.wavelengths[rows], self.method)

    @property
    def rows(self) -> int:
        """How many wavelengths, repetitions counted."""
        return len(self.wavelengths)

    @property
    def parameters(self) -> tuple[Float[Tensor, "..."], ...]:
        """Weights and biases."""
        return tuple(self.metric.network.parameters)


@dataclass(frozen=True)
class GridField:
    """One grid, looked up: a gather and a few products for every position.

    Attributes:
        grid: of one model.
        columns: column of the grid that every row reads.
        lookup: what is done between the nodes.
    """

    grid: Grid
    columns: Int[Tensor, "row"]
    lookup: Lookup = hermite

    def __call__(
        self, positions: Float[Tensor, "row point"]
    ) -> tuple[Float[Tensor, "row point"], Float[Tensor, "row point"]]:
        """Ln sqrt(g) and the Christoffel symbol from the grid."""
        return self.lookup(self.grid, positions, self.columns)

    def __getitem__(self, rows: Int[Tensor, "chosen"]) -> "GridField":
        """The same grid with the columns of some rows."""
        return GridField(self.grid, self.columns[rows], self.lookup)

    @property
    def rows(self) -> int:
        """How many columns are read, repetitions counted."""
        return len(self.columns)

    @property
    def parameters(self) -> tuple[Float[Tensor, "..."], ...]:
        """The tables."""
        return self.grid.log_sqrt, self.grid.symbol
