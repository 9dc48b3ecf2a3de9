"""Antiderivatives of functions known by value and slope at nodes, and their inverse.

With F' = f known at the nodes, and f' too, the integral over a cell of width h is
h (f0 + f1) / 2 + h^2 (f0' - f1') / 12 with error O(h^5) (Euler-Maclaurin; P. J. Davis and
P. Rabinowitz, Methods of Numerical Integration, 2nd ed., section 2.9). That is the integral of the
cubic that matches f and f' at both ends of the cell, so F inside a cell is the quartic whose
derivative is that cubic.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Antiderivative:
    """F with F(first node) = 0, for many functions on one set of nodes.

    Attributes:
        nodes: ascending.
        integral, value, slope: F, f = F' and f' at the nodes.
    """

    nodes: Float[Tensor, "node"]
    integral: Float[Tensor, "node function"]
    value: Float[Tensor, "node function"]
    slope: Float[Tensor, "node function"]

    @classmethod
    def of(
        cls,
        nodes: Float[Tensor, "node"],
        value: Float[Tensor, "node function"],
        slope: Float[Tensor, "node function"],
    ) -> "Antiderivative":
        """Integrate from the first node on."""
        width = nodes.diff()[:, None]
        cells = width * (value[:-1] + value[1:]) / 2 + width**2 * (slope[:-1] - slope[1:]) / 12
        return cls(nodes, _cumulative(cells), value, slope)

    def at(self, points: Float[Tensor, "point"]) -> Float[Tensor, "point function"]:
        """F at points that all functions share; a point beyond the nodes is taken at the end."""
        points = points.clamp(self.nodes[0], self.nodes[-1])
        cell = (torch.searchsorted(self.nodes, points, right=True) - 1).clamp(
            0, len(self.nodes) - 2
        )
        width = (self.nodes[cell + 1] - self.nodes[cell])[:, None]
        fraction = (points - self.nodes[cell])[:, None] / width
        cell = cell[:, None].expand(-1, self.value.shape[1])
        return self.integral.gather(0, cell) + self._within(cell, width, fraction)[0]

    def inverse(
        self, integrals: Float[Tensor, "point function"]
    ) -> tuple[Float[Tensor, "point function"], Float[Tensor, "point function"]]:
        """Points at which each increasing F takes the given values, and f there.

        A value that F takes nowhere on the nodes is taken at the nearer end.

        The cell is found by bisection, the point in it by three Newton steps on the quartic from
        the chord: f varies by a factor 1 + O(h) over a cell, so the error shrinks from O(h^2) as
        h^4, h^8. Rows and functions do not influence each other.
        """
        table = self.integral.T.contiguous()
        wanted = integrals.T.contiguous()
        cell = (torch.searchsorted(table, wanted, right=True).T - 1).clamp(0, len(self.nodes) - 2)
        width = (self.nodes[1:] - self.nodes[:-1])[cell]
        low, high = self.integral.gather(0, cell), self.integral.gather(0, cell + 1)
        rise = integrals - low
        fraction = (rise / (high - low)).clamp(0, 1)
        for _ in range(3):
            value, slope = self._within(cell, width, fraction)
            fraction = (fraction - (value - rise) / slope).clamp(0, 1)
        return self.nodes[cell] + fraction * width, self._within(cell, width, fraction)[1] / width

    def _within(
        self, cell: Int[Tensor, "point function"], width: Tensor, t: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Rise of F above the start of its cell, and its derivative, at the cell's fraction t.

        Made of f and f' alone: differences of F itself would cost three digits in float32.
        """
        v0, v1 = (self.value.gather(0, cell + i) * width for i in (0, 1))
        a0, a1 = (self.slope.gather(0, cell + i) * width**2 for i in (0, 1))
        # v0 t + a0 t^2 / 2 + c3 t^3 + c4 t^4, with f and f' met at t = 1 too
        c3 = (v1 - v0) - (2 * a0 + a1) / 3
        c4 = (v0 - v1) / 2 + (a0 + a1) / 4
        value = t * (v0 + t * (a0 / 2 + t * (c3 + t * c4)))
        slope = v0 + t * (a0 + t * (3 * c3 + t * (4 * c4)))
        return value, slope


def _cumulative(cells: Float[Tensor, "cell function"]) -> Float[Tensor, "node function"]:
    """Running sum from zero, in blocks: n cells cost about sqrt(n) roundings in float32, not n."""
    block = max(1, round(len(cells) ** 0.5))
    sums = [part.cumsum(0) for part in cells.split(block)]
    totals = torch.stack([part[-1] for part in sums]).cumsum(0)
    joined = [sums[0], *(part + total for part, total in zip(sums[1:], totals, strict=False))]
    return torch.cat([torch.zeros_like(cells[:1]), *joined])
