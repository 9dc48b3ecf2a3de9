"""The boundary value problem by `scipy.integrate.solve_bvp`: a truth from outside.

Nothing here is shared with the other methods: collocation of order 4 with a residual control of its
own (J. Kierzenka and L. F. Shampine, ACM Trans. Math. Softw. 27 (2001) 299) from a straight first
guess, and no use of the first integral. One row after the other, each of 10 to 100 milliseconds: it
is meant for some rows, to judge the methods that solve all.
"""

import numpy as np
import torch
from jaxtyping import Float
from scipy.integrate import solve_bvp, solve_ivp
from torch import Tensor

from geonode.errors import GeometryError
from geonode.geodesics.problem import Solution, converged
from geonode.geometry.field import Field

MESH, LARGEST_MESH = 11, 10_000
TIGHT = 1e-12


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
    rows = [
        _solve_row(field[torch.tensor([row])], float(start[row]), float(end[row]), tolerance)
        for row in range(len(start))
    ]
    v0, residual = torch.tensor([row[:2] for row in rows], dtype=torch.float64).T
    solved, iterations, evaluations = torch.tensor([row[2:] for row in rows]).T
    return Solution(
        v0=v0,
        residual=residual,
        converged=converged(v0, residual, tolerance) & (solved == 0),
        iterations=iterations,
        evaluations=evaluations,
    )


def _solve_row(
    field: Field, start: float, end: float, tolerance: float
) -> tuple[float, float, int, int, int]:
    """Velocity, residual, scipy's status, rounds and evaluations of the only row of a field."""
    evaluations = 0

    def equation(time: object, state: np.ndarray) -> np.ndarray:  # noqa: ARG001
        nonlocal evaluations
        positions, velocities = state
        evaluations += positions.size
        with torch.no_grad():
            symbol = field(torch.from_numpy(positions.reshape(1, -1).copy()))[1]
        return np.stack([velocities, -symbol.numpy().reshape(positions.shape) * velocities**2])

    def ends(first: np.ndarray, last: np.ndarray) -> np.ndarray:
        return np.array([first[0] - start, last[0] - end])

    times = np.linspace(0, 1, MESH)
    straight = np.stack([start + times * (end - start), np.full(MESH, end - start)])
    with np.errstate(all="ignore"):
        solved = solve_bvp(equation, ends, times, straight, tol=tolerance, max_nodes=LARGEST_MESH)
        v0, asked = float(solved.y[1, 0]), evaluations
        residual = np.nan
        if np.isfinite(v0):
            path = solve_ivp(equation, (0, 1), [start, v0], method="DOP853", rtol=TIGHT, atol=TIGHT)
            residual = float(path.y[0, -1]) - end if path.success else np.nan
    return v0, residual, int(solved.status), int(solved.niter), asked
