"""Sources of grids: an expansion of the network, or the network itself."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from geonode.compute.device import one_thread
from geonode.config import ChristoffelParameters
from geonode.geometry.chebyshev import differentiation, expand, polynomials
from geonode.geometry.grid import Grid, moved
from geonode.geometry.metric import Metric

ROWS = 128  # nodes in one call of the network, so that memory does not grow with the grid


@runtime_checkable
class GridSource(Protocol):
    """Makes the grid of any model at any nodes."""

    @property
    def models(self) -> int:
        """Number of models."""

    @property
    def calls(self) -> int:
        """Network calls so far, per model."""

    def grid(self, model: int, positions: Float[Tensor, "node"]) -> Grid:
        """The grid of one model, in the format and on the device of its nodes."""


def grid_source(
    parameters: ChristoffelParameters, metric: Metric, wavelengths: Float[Tensor, "wavelength"]
) -> GridSource:
    """Grids of float64 metrics by the method of the block `christoffel`.

    Raises:
        GeometryError: a metric is not finite, or too sharp for `chebyshev`.
    """
    if parameters.method == "direct":
        return DirectSource(metric, wavelengths)
    return ChebyshevSource.of(
        metric,
        wavelengths,
        tolerance=parameters.expansion_tolerance,
        largest_degree=parameters.largest_degree,
    )


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
        """Coefficients of series in position alone, one for every wavelength.

        Args:
            model: which metric.
            like: of the format and on the device that is asked for.
        """
        coefficients = self.coefficients[model]
        lines = coefficients @ self.in_w[: coefficients.shape[1]]
        return lines.to(like.dtype).to(like.device)

    @one_thread()
    def grid(self, model: int, positions: Float[Tensor, "node"]) -> Grid:
        """Sums of polynomials, and those of the derivatives of the series."""
        # First, as cuBLAS warns where it is the first to use a GPU in a thread.
        values = polynomials(positions, len(self.coefficients[model]))
        lines = self.lines(model, positions)
        slopes = differentiation(len(lines), lines.device, lines.dtype) @ lines
        return Grid(positions, values @ lines, values @ slopes)


@dataclass
class DirectSource:
    """Grids from one network call a node and wavelength: slow, readable, right for any metric.

    Attributes:
        metric: float64 metrics.
        wavelengths: charted wavelengths of the series.
    """

    metric: Metric
    wavelengths: Float[Tensor, "wavelength"]
    _points: int = field(default=0, init=False)

    @property
    def models(self) -> int:
        """Number of models."""
        return self.metric.network.models

    @property
    def calls(self) -> int:
        """Network calls so far, per model."""
        return self._points // self.models

    @one_thread()
    def grid(self, model: int, positions: Float[Tensor, "node"]) -> Grid:
        """Values and derivatives on the network."""
        one, like = self.metric[model], self.metric.network.parameters[0]
        wavelengths = moved(self.wavelengths, like)
        self._points += len(positions) * len(wavelengths)
        parts = [
            one.with_symbol(moved(rows, like)[None], wavelengths) for rows in positions.split(ROWS)
        ]
        log_sqrt, symbol = (
            torch.cat([part[i][0] for part in parts]).to(positions.dtype).to(positions.device)
            for i in (0, 1)
        )
        return Grid(positions, log_sqrt, symbol)
