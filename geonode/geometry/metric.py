"""The learned metric g(x, w) of charted concentration x at charted wavelength w.

g = softplus(f) + 0.1 with f a perceptron 2 -> 64 -> 128 -> 1: positive, analytic, and bounded away
from zero. Its Christoffel symbol, the only one in one dimension, is G = 1/2 d/dx ln g.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import softplus

from geonode.geometry.perceptron import Perceptron

SIZES = (2, 64, 128, 1)
FLOOR = 0.1


@dataclass(frozen=True)
class Metric:
    """Metrics of many (member, fold) models at once; rows are points (x, w)."""

    network: Perceptron

    def __getitem__(self, model: int) -> "Metric":
        """One of the metrics."""
        return Metric(self.network[model : model + 1])

    def __call__(
        self,
        positions: Float[Tensor, "#model position"],
        wavelengths: Float[Tensor, "wavelength"],
    ) -> Float[Tensor, "model position wavelength"]:
        """The metric g on the product of positions and wavelengths, both in chart units."""
        points = product(positions, wavelengths, self.network.models)
        value = softplus(self.network(points)) + FLOOR
        return value.reshape(-1, positions.shape[1], len(wavelengths))

    def log_sqrt(
        self, positions: Float[Tensor, "position"], wavelengths: Float[Tensor, "wavelength"]
    ) -> Float[Tensor, "model position wavelength"]:
        """Ln sqrt(g) on the same product for all models, both in chart units."""
        return 0.5 * torch.log(self(positions[None], wavelengths))

    def at_rows(
        self, positions: Float[Tensor, "row point"], wavelengths: Float[Tensor, "row"]
    ) -> tuple[Float[Tensor, "row point"], Float[Tensor, "row point"]]:
        """Ln sqrt(g) and the Christoffel symbol of a single model, at one wavelength every row."""
        points = torch.stack([positions, wavelengths[:, None].expand_as(positions)], dim=-1)
        log_sqrt, symbol = self._with_symbol(points.flatten(0, 1)[None])
        return log_sqrt.reshape(positions.shape), symbol.reshape(positions.shape)

    def with_symbol(
        self,
        positions: Float[Tensor, "#model position"],
        wavelengths: Float[Tensor, "wavelength"],
    ) -> tuple[
        Float[Tensor, "model position wavelength"], Float[Tensor, "model position wavelength"]
    ]:
        """Ln sqrt(g) and the Christoffel symbol on a product, by forward-mode differentiation."""
        shape = (-1, positions.shape[1], len(wavelengths))
        points = product(positions, wavelengths, self.network.models)
        log_sqrt, symbol = self._with_symbol(points)
        return log_sqrt.reshape(shape), symbol.reshape(shape)

    def _with_symbol(self, points: Tensor) -> tuple[Tensor, Tensor]:
        # d ln sqrt(g) / dx = g' / (2 g) and softplus' is the logistic function
        value, change = self.network.with_derivative(points, points.new_tensor([1.0, 0.0]))
        metric = softplus(value) + FLOOR
        return 0.5 * torch.log(metric), torch.sigmoid(value) * change / (2 * metric)


def product(
    positions: Float[Tensor, "#model position"],
    wavelengths: Float[Tensor, "wavelength"],
    models: int,
) -> Float[Tensor, "model row 2"]:
    """Every (position, wavelength) as a row, wavelengths fastest."""
    x = positions.expand(models, -1)[:, :, None].expand(-1, -1, len(wavelengths))
    w = wavelengths.expand_as(x)
    return torch.stack([x, w], dim=-1).flatten(1, 2)
