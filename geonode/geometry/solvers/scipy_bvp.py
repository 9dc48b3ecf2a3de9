"""The boundary value problem by `scipy.integrate.solve_bvp`: a truth from outside.

Nothing here is shared with the other methods: collocation of order 4 with a residual control of its
own (J. Kierzenka and L. F. Shampine, ACM Trans. Math. Softw. 27 (2001) 299) from a straight first
guess, and no use of the first integral. One row after the other, each of 10 to 100 milliseconds: it
is meant for some rows, to judge the methods that solve all.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy.integrate import solve_bvp, solve_ivp
from torch import Tensor

from geonode.errors import GeometryError
from geonode.geometry.field import Field
from geonode.geometry.problem import Solution, converged

MESH, LARGEST_MESH = 11, 10_000
TIGHT = 1e-12


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

    def residual(self, v0: float) -> float:
        """Where a first velocity leads minus the end; NaN if it leads nowhere."""
        if not np.isfinite(v0):
            return np.nan
        first = [self.start, v0]
        with np.errstate(all="ignore"):
            path = solve_ivp(self.equation, (0, 1), first, method="DOP853", rtol=TIGHT, atol=TIGHT)
        return float(path.y[0, -1]) - self.end if path.success else np.nan


def solve_bvp_rows(
    field: Field,
    start: Float[Tensor, "row"],
    end: Float[Tensor, "row"],
    *,
    tolerance: float,
) -> Solution:
    """Find the first velocity of the path from `start` at time 0 to `end` at time 1.

    The residual is found by following the velocity with scipy's DOP853. Iterations are rounds of
    collocation and mesh refinement. Evaluations leave out the check of the residual. Rows that are
    not solved raise nothing; `converged` tells.

    Args:
        field: the geometry of the rows, in float64 on the CPU.
        start: chart positions at time 0.
        end: chart positions at time 1; no row may end where it starts.
        tolerance: of the collocation, and largest residual of a converged row, chart units.

    Raises:
        GeometryError: rows are not in float64 on the CPU.
    """
    if start.dtype != torch.float64 or start.device.type != "cpu":
        raise GeometryError(
            f"geodesics.method: found scipy for {start.dtype} on {start.device}, expected float64 "
            "on the CPU; set precision.geometry to float64 and device to cpu"
        )
    found = []
    for place in range(len(start)):
        row = Row(field[torch.tensor([place])], float(start[place]), float(end[place]))
        path = row.collocate(tolerance)
        asked, v0 = row.evaluations, float(path.y[1, 0])
        found.append((v0, row.residual(v0), path.status, path.niter, asked))
    v0, residual = torch.tensor([row[:2] for row in found], dtype=torch.float64).T
    solved, iterations, evaluations = torch.tensor([row[2:] for row in found]).T
    return Solution(
        v0=v0,
        residual=residual,
        converged=converged(v0, residual, tolerance) & (solved == 0),
        iterations=iterations,
        evaluations=evaluations,
    )
