"""One geodesic by `scipy.integrate.solve_bvp`: a truth from outside.

Nothing here is shared with the methods of the package: collocation of order 4 with a residual
control of its own (J. Kierzenka and L. F. Shampine, ACM Trans. Math. Softw. 27 (2001) 299) from a
straight first guess, and no use of the first integral. A row takes 10 to 100 milliseconds.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy.integrate import solve_bvp
from torch import Tensor

from geonode.geometry.field import Field

MESH, LARGEST_MESH = 11, 10_000


@dataclass
class Row:
    """One boundary value problem, as scipy asks for it.

    Attributes:
        field: the geometry of this row alone, in float64 on the CPU.
        start, end: chart positions.
        evaluations: positions at which scipy has asked for the geometry so far.
    """

    field: Field
    start: float
    end: float
    evaluations: int = 0

    def equation(
        self,
        time: object,  # noqa: ARG002
        state: Float[np.ndarray, "2 *mesh"],
    ) -> Float[np.ndarray, "2 *mesh"]:
        """Derivatives of positions and velocities by time."""
        positions, velocities = state
        self.evaluations += positions.size
        with torch.no_grad():
            symbol = self.field(torch.from_numpy(positions.reshape(1, -1).copy()))[1]
        return np.stack([velocities, -symbol.numpy().reshape(positions.shape) * velocities**2])

    def misses(
        self, first: Float[np.ndarray, "2"], last: Float[np.ndarray, "2"]
    ) -> Float[np.ndarray, "2"]:
        """Distances of the ends of a path from where they should be."""
        return np.array([first[0] - self.start, last[0] - self.end])

    def collocate(self, tolerance: float) -> Any:
        """The path from a straight first guess, as `solve_bvp` returns it."""
        times, span = np.linspace(0, 1, MESH), self.end - self.start
        straight = np.stack([self.start + times * span, np.full(MESH, span)])
        with np.errstate(all="ignore"):
            return solve_bvp(
                self.equation, self.misses, times, straight, tol=tolerance, max_nodes=LARGEST_MESH
            )


def velocities(
    field: Field, start: Float[Tensor, "row"], end: Float[Tensor, "row"], *, tolerance: float
) -> tuple[Float[Tensor, "row"], int]:
    """First velocities of the paths from `start` at time 0 to `end` at time 1.

    Args:
        field: the geometry of the rows, in float64 on the CPU.
        start: chart positions at time 0.
        end: chart positions at time 1; no row may end where it starts.
        tolerance: of the collocation.

    Returns:
        The velocities, NaN where scipy finds none, and how often it asked for the geometry.
    """
    found, asked = [], 0
    for place in range(len(start)):
        row = Row(field[torch.tensor([place])], float(start[place]), float(end[place]))
        path = row.collocate(tolerance)
        found.append(float(path.y[1, 0]) if path.status == 0 else np.nan)
        asked += row.evaluations
    return torch.tensor(found, dtype=torch.float64), asked
