"""Antiderivatives of functions known by value and slope at nodes, and their inverse.

With F' = f known at the nodes, and f' too, the integral over a cell of width h is
h (f0 + f1) / 2 + h^2 (f0' - f1') / 12 with error O(h^5) (Euler-Maclaurin; P. J. Davis and
P. Rabinowitz, Methods of Numerical Integration, 2nd ed., section 2.9). That is the integral of the
cubic that matches f and f' at both ends of the cell, so F inside a cell is the quartic whose
derivative is that cubic.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class Antiderivative:
    """F with F(first node) = 0, for many functions on one set of nodes."""

    nodes: Float[Tensor, "node"]  # ascending
    integral: Float[Tensor, "node function"]
    value: Float[Tensor, "node function"]
    slope: Float[Tensor, "node function"]
    """F, f = F' and f' at the nodes."""

    @classmethod
    def of(
        cls,
        nodes: Float[Tensor, "node"],
        value: Float[Tensor, "node function"],
        slope: Float[Tensor, "node function"],
    ) -> "Antiderivative":
        """Integrate from the first node on."""
        width = nodes.diff()[:, None]
        cells = (value[:-1] + value[1:]).mul_(width / 2)
        cells.addcmul_(slope[:-1] - slope[1:], width**2 / 12)
        return cls(nodes, _cumulative(cells), value, slope)

    def at(self, points: Float[Tensor, "point"]) -> Float[Tensor, "point function"]:
        """F at points that all functions share; points beyond the nodes count as the nearer end."""
        points = points.clamp(self.nodes[0], self.nodes[-1])
        last = len(self.nodes) - 2
        cell = (torch.searchsorted(self.nodes, points, right=True) - 1).clamp(0, last)
        width = (self.nodes[cell + 1] - self.nodes[cell])[:, None]
        fraction = (points - self.nodes[cell])[:, None] / width
        value, slope = ((part[cell], part[cell + 1]) for part in (self.value, self.slope))
        rise = _Quartic.of(value, slope, width)
        return self.integral[cell] + rise(fraction)[0]

    def inverse(
        self, integrals: Float[Tensor, "point function"]
    ) -> tuple[Float[Tensor, "point function"], Float[Tensor, "point function"]]:
        """Points at which each increasing F takes the given values, and f there.

        A value that F does not reach gives the nearer end.

        The cell is found by bisection, the point in it by three Newton steps on the quartic from
        the chord: f varies by a factor 1 + O(h) over a cell, so the error shrinks from O(h^2) as
        h^4, h^8. Rows and functions do not influence each other.
        """
        integral, value, slope = self._by_function
        wanted = integrals.T.contiguous()
        last = len(self.nodes) - 2
        cell = (torch.searchsorted(integral, wanted, right=True) - 1).clamp(0, last)
        width = self.nodes.diff()[cell]
        low, high = integral.gather(1, cell), integral.gather(1, cell + 1)
        values, slopes = (
            (part.gather(1, cell), part.gather(1, cell + 1)) for part in (value, slope)
        )
        rise = _Quartic.of(values, slopes, width)
        fraction = ((wanted - low) / (high - low)).clamp(0, 1)
        for _ in range(3):
            found, density = rise(fraction)
            fraction = (fraction - (found - (wanted - low)) / density).clamp(0, 1)
        points = self.nodes[cell] + fraction * width
        return points.T, (rise(fraction)[1] / width).T

    @cached_property
    def _by_function(self) -> tuple[Tensor, Tensor, Tensor]:
        """The tables with the nodes of one function side by side, so that lookups stay in cache."""
        integral, value, slope = (
            part.T.contiguous() for part in (self.integral, self.value, self.slope)
        )
        return integral, value, slope


class _Quartic(NamedTuple):
    """Rise of F above the start of a cell, c1 t + c2 t^2 + c3 t^3 + c4 t^4 at its fraction t."""

    # Of f and f' alone: differences of F itself would cost three digits in float32.

    c1: Tensor
    c2: Tensor
    c3: Tensor
    c4: Tensor

    @classmethod
    def of(
        cls, value: tuple[Tensor, Tensor], slope: tuple[Tensor, Tensor], width: Tensor
    ) -> "_Quartic":
        """Quartic from f and f', each at both ends of the cell."""
        v0, v1 = (part * width for part in value)
        a0, a1 = (part * width**2 for part in slope)
        return cls(v0, a0 / 2, (v1 - v0) - (2 * a0 + a1) / 3, (v0 - v1) / 2 + (a0 + a1) / 4)

    def __call__(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """Rise and its derivative with respect to t."""
        c1, c2, c3, c4 = self
        value = t * (c1 + t * (c2 + t * (c3 + t * c4)))
        slope = c1 + t * (2 * c2 + t * (3 * c3 + t * (4 * c4)))
        return value, slope


def _cumulative(cells: Float[Tensor, "cell function"]) -> Float[Tensor, "node function"]:
    """Running sum from zero, in blocks: n cells cost about sqrt(n) roundings in float32, not n."""
    count, functions = cells.shape
    block = max(1, round(count**0.5))
    blocks = -(-count // block)
    sums = cells.new_zeros(1 + blocks * block, functions)
    sums[1 : count + 1] = cells
    by_block = sums[1:].unflatten(0, (blocks, block)).cumsum_(1)
    by_block[1:] += by_block[:-1, -1].cumsum(0)[:, None]
    return sums[: count + 1]
