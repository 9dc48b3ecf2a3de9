"""Path features by Gauss-Legendre panels: the differentiable closed form, without a grid.

Between neighbouring concentrations the integrals of sqrt(g) and x sqrt(g) are Gauss-Legendre sums
of a few network values; geodesics between any two concentrations are sums of whole panels. This
is what a metric is trained through: small, exact to rounding for smooth metrics, and free of a
long running sum. The minimum of sqrt(g) is taken over the nodes and the concentrations.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from geonode.geometry.metric import Metric


@dataclass(frozen=True)
class PanelGeometry:
    """g at all quadrature nodes, and the features of the geodesics that were asked for.

    Attributes:
        features: in the order of `FEATURES`.
        metric: g at the nodes.
        symbol: Christoffel symbol at the nodes, from the polynomial through each panel's nodes.
    """

    features: Float[Tensor, "model pair wavelength feature"]
    metric: Float[Tensor, "model panel node wavelength"]
    symbol: Float[Tensor, "model panel node wavelength"]


@dataclass(frozen=True)
class Panels:
    """Quadrature between neighbouring concentrations, for models with charts of their own.

    Attributes:
        positions: ascending chart positions of the concentrations.
        nodes, weights: quadrature in every gap between two of them.
        differentiation: matrix from values at the nodes of a gap to the slope of their polynomial.
    """

    positions: Float[Tensor, "model concentration"]
    nodes: Float[Tensor, "model panel node"]
    weights: Float[Tensor, "model panel node"]
    differentiation: Float[Tensor, "model panel node node"]

    @classmethod
    def between(cls, positions: Float[Tensor, "model concentration"], nodes: int) -> "Panels":
        """Gauss-Legendre panels with this many nodes between neighbouring positions."""
        points, weights = np.polynomial.legendre.leggauss(nodes)
        rule = [
            torch.tensor(part, dtype=positions.dtype, device=positions.device)
            for part in (points, weights, _differentiation(points))
        ]
        half = positions.diff(dim=1)[:, :, None] / 2
        middle = (positions[:, 1:] + positions[:, :-1])[:, :, None] / 2
        return cls(
            positions,
            middle + half * rule[0],
            half * rule[1],
            rule[2] / half[..., None],
        )

    def geometry(
        self,
        metric: Metric,
        wavelengths: Float[Tensor, "wavelength"],
        source: Int[Tensor, "model pair"],
        target: Int[Tensor, "model pair"],
    ) -> PanelGeometry:
        """Features of the geodesics between concentrations `source` and `target` (indices)."""
        panels, nodes = self.nodes.shape[1:]
        points = torch.cat([self.nodes.flatten(1), self.positions], dim=1)
        g = metric(points, wavelengths)
        root = g.sqrt()
        inside = root[:, : panels * nodes].unflatten(1, (panels, nodes))
        ends = root[:, panels * nodes :]
        lengths = torch.einsum("mpn,mpnw->mpw", self.weights, inside)
        moments = torch.einsum("mpn,mpnw->mpw", self.weights * self.nodes, inside)
        slowest = torch.minimum(inside.amin(2), torch.minimum(ends[:, :-1], ends[:, 1:]))

        low, high = torch.minimum(source, target), torch.maximum(source, target)
        panel = torch.arange(panels, device=low.device)
        on_path = (panel >= low[..., None]) & (panel < high[..., None])
        span = on_path.to(root)
        length = span @ lengths
        mean_position = (span @ moments) / length
        smallest = slowest[:, None].masked_fill(~on_path[..., None], torch.inf).amin(2)
        final = self.positions.gather(1, target)[..., None].expand_as(length)
        features = torch.stack(
            [final, mean_position, length, length / smallest, wavelengths.expand_as(length)], dim=-1
        )
        g_inside = g[:, : panels * nodes].unflatten(1, (panels, nodes))
        symbol = torch.einsum("mpij,mpjw->mpiw", self.differentiation, inside.log())
        return PanelGeometry(features, g_inside, symbol)


def _differentiation(points: np.ndarray) -> np.ndarray:
    """Matrix from values at points to the derivative of their interpolating polynomial there.

    Source: J.-P. Berrut and L. N. Trefethen, Barycentric Lagrange interpolation, SIAM Review 46
    (2004), section 9.3.
    """
    gaps = points[:, None] - points[None, :] + np.eye(len(points))
    weights = 1 / gaps.prod(axis=1)
    matrix = weights[None, :] / weights[:, None] / gaps
    np.fill_diagonal(matrix, 0)
    np.fill_diagonal(matrix, -matrix.sum(axis=1))
    return matrix
