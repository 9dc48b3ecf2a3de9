"""Geometry along rows: what a solver of geodesics asks of a metric, wherever it comes from."""

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Float, Int, Shaped
from torch import Tensor


@dataclass(frozen=True)
class Field:
    """Ln sqrt(g) and Christoffel symbol at positions of rows that do not influence each other.

    A row is one geodesic at one wavelength.
    """

    geometry: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
    """`Grid.lookup` or `Metric.at_rows`: from positions `(row, point)` and `which` to both."""
    which: Shaped[Tensor, "row"]
    """Of every row the column of the grid, or the charted wavelength of the network."""

    def __call__(
        self, positions: Float[Tensor, "row point"]
    ) -> tuple[Float[Tensor, "row point"], Float[Tensor, "row point"]]:
        """Ln sqrt(g) and the Christoffel symbol."""
        return self.geometry(positions, self.which)

    def __getitem__(self, rows: Int[Tensor, "chosen"]) -> "Field":
        """The field of some of the rows, in the order given; a row may be chosen repeatedly."""
        return Field(self.geometry, self.which[rows])
