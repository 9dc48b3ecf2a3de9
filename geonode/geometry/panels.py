"""Stations of metric networks by Gauss-Legendre panels: differentiable, and without a grid.

Between neighbouring concentrations the integrals of sqrt(g) and x sqrt(g) are Gauss-Legendre sums
of a few network values. A metric is trained through this: small, exact to rounding for smooth
metrics, and free of a long running sum. The minimum of sqrt(g) is taken over the nodes and the
concentrations, where it has a gradient; a grid has it between its nodes too.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from geonode.geometry.metric import Metric
from geonode.geometry.stations import Stations


@dataclass(frozen=True)
class Panels:
    """Quadrature between neighbouring concentrations, for models with charts of their own."""

    positions: Float[Tensor, "model concentration"]
    """Ascending chart positions of the concentrations."""
    nodes: Float[Tensor, "model panel node"]
    weights: Float[Tensor, "model panel node"]
    """Quadrature in every gap between two of them."""
    differentiation: Float[Tensor, "model panel node node"]
    """Matrix from values at the nodes of a gap to the slope of their polynomial."""

    @classmethod
    def between(
        cls,
        positions: Float[Tensor, "model concentration"],
        nodes: int,
        gaps: Float[Tensor, "model panel"] | None = None,
    ) -> "Panels":
        """Gauss-Legendre panels between neighbouring positions.

        Positions ascend. Widths of the panels are given where the format of the positions may not
        resolve them.
        """
        points, weights = np.polynomial.legendre.leggauss(nodes)
        rule = [
            torch.tensor(part, dtype=positions.dtype, device=positions.device)
            for part in (points, weights, _differentiation(points))
        ]
        half = (positions.diff(dim=1) if gaps is None else gaps)[:, :, None] / 2
        middle = (positions[:, 1:] + positions[:, :-1])[:, :, None] / 2
        return cls(
            positions,
            middle + half * rule[0],
            half * rule[1],
            rule[2] / half[..., None],
        )

    def evaluate(self, metric: Metric, wavelengths: Float[Tensor, "wavelength"]) -> "PanelMetric":
        """Metrics on the panels: one for every model, or one for all of them."""
        panels, nodes = self.nodes.shape[1:]
        points = torch.cat([self.nodes.flatten(1), self.positions], dim=1)
        g = metric(points.reshape(metric.network.models, -1), wavelengths)
        g = g.reshape(*points.shape, -1)
        root, inside = g.sqrt(), panels * nodes
        return PanelMetric(
            self,
            g[:, :inside].unflatten(1, (panels, nodes)),
            root[:, :inside].unflatten(1, (panels, nodes)),
            root[:, inside:],
            wavelengths,
        )


@dataclass(frozen=True)
class PanelMetric:
    """Metrics on panels."""

    panels: Panels
    metric: Float[Tensor, "model panel node wavelength"]  # g at the nodes
    inside: Float[Tensor, "model panel node wavelength"]  # sqrt(g) at the nodes
    ends: Float[Tensor, "model concentration wavelength"]  # sqrt(g) at the concentrations
    wavelengths: Float[Tensor, "wavelength"]  # charted

    def stations(self) -> Stations:
        """Stations of the geodesics between the concentrations."""
        weights, nodes, ends = self.panels.weights, self.panels.nodes, self.ends
        return Stations(
            self.panels.positions,
            torch.einsum("mpn,mpnw->mpw", weights, self.inside),
            torch.einsum("mpn,mpnw->mpw", weights * nodes, self.inside),
            torch.minimum(self.inside.amin(2), torch.minimum(ends[:, :-1], ends[:, 1:])),
            ends,
            self.wavelengths,
        )

    def symbol(self) -> Float[Tensor, "model panel node wavelength"]:
        """Christoffel symbol at the nodes, from the polynomial through those of each panel."""
        return torch.einsum("mpij,mpjw->mpiw", self.panels.differentiation, self.inside.log())


def _differentiation(points: np.ndarray) -> np.ndarray:
    """Matrix from values at points to the derivative of their interpolating polynomial there."""
    # J.-P. Berrut and L. N. Trefethen, Barycentric Lagrange interpolation, SIAM Review 46 (2004),
    # 9.3.
    gaps = points[:, None] - points[None, :] + np.eye(len(points))
    weights = 1 / gaps.prod(axis=1)
    matrix = weights[None, :] / weights[:, None] / gaps
    np.fill_diagonal(matrix, 0)
    np.fill_diagonal(matrix, -matrix.sum(axis=1))
    return matrix
