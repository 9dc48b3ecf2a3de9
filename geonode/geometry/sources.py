"""Sources of grids: an expansion of the metric network gives a grid at any nodes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from geonode.compute.device import one_thread
from geonode.geometry.chebyshev import differentiation, expand, polynomials
from geonode.geometry.grid import Grid, moved
from geonode.geometry.metric import Metric


@runtime_checkable
class GridSource(Protocol):
    """Makes the grid of any model at any nodes."""

    @property
    def models(self) -> int:
        """Number of models."""

    def grid(self, model: int, positions: Float[Tensor, "node"]) -> Grid:
        """The grid of one model, in the format and on the device of its nodes."""


@dataclass(frozen=True)
class ChebyshevSource:
    """Grids from a Chebyshev expansion: two small matrix products, however many nodes.

    Attributes:
        coefficients: of ln sqrt(g) for every model, `(degree_x, degree_w)`, float64. Each has the
            degrees that it needs.
        in_w: Chebyshev polynomials at the wavelengths of the series, float64.
        calls: network calls that the expansion of a model cost, on average.
    """

    coefficients: Sequence[Float[Tensor, "..."]]
    in_w: Float[Tensor, "degree_w wavelength"]
    calls: int

    @classmethod
    @one_thread()  # or the last digits would depend on the number of cores
    def of(
        cls,
        metric: Metric,
        wavelengths: Float[Tensor, "wavelength"],
        *,
        tolerance: float,
        largest_degree: int,
    ) -> "ChebyshevSource":
        """Expand float64 metrics.

        Raises:
            GeometryError: a metric is not finite, or too sharp for the largest degree.
        """
        models = range(metric.network.models)
        expansions = [expand(metric[model], tolerance, largest_degree, model) for model in models]
        coefficients = [found for found, _ in expansions]
        degree = max(part.shape[1] for part in coefficients)
        in_w = polynomials(moved(wavelengths, coefficients[0]), degree).T
        calls = sum(calls for _, calls in expansions) // len(expansions)
        return cls(coefficients, in_w, calls)

    @property
    def models(self) -> int:
        """Number of models."""
        return len(self.coefficients)

    def lines(self, model: int, like: Float[Tensor, "..."]) -> Float[Tensor, "degree_x wavelength"]:
        """Coefficients of series in position alone, one a wavelength, in the format of a tensor."""
        coefficients = self.coefficients[model]
        lines = coefficients @ self.in_w[: coefficients.shape[1]]
        return lines.to(like.dtype).to(like.device)  # in this order, for devices without float64

    @one_thread()
    def grid(self, model: int, positions: Float[Tensor, "node"]) -> Grid:
        """Sums of polynomials, and those of the derivatives of the series."""
        # First, as cuBLAS warns where it is the first to use a GPU in a thread.
        values = polynomials(positions, len(self.coefficients[model]))
        lines = self.lines(model, positions)
        slopes = differentiation(len(lines), lines.device, lines.dtype) @ lines
        return Grid(positions, values @ lines, values @ slopes)
