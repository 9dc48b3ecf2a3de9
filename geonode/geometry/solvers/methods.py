"""Every way to solve the boundary value problems of a grid, by name.

All take the same problem and return the same kind of solution. The bits of its rows (pair,
wavelength) do not depend on which others are solved with them, except for digits beyond the
tolerance by `dopri5`. Two methods shoot: they correct the first velocity until the path arrives.
"""

from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from geonode.config import GeodesicsParameters
from geonode.geometry.field import Field
from geonode.geometry.problem import BoundaryValueProblem, Solution, converged
from geonode.geometry.solvers.closed_form import ClosedForm
from geonode.geometry.solvers.initial_value import Integrator, dormand_prince, runge_kutta

BoundaryValueSolver = Callable[[ClosedForm, BoundaryValueProblem, GeodesicsParameters], Solution]


CORRECTIONS = 8
"""Largest number of corrections. A good guess takes three; eight suffice wherever Newton's method
converges at all."""

PATIENCE = 2
"""Successive shots within the tolerance after which a row is left alone."""

# Gauss-Legendre rule of order 6 on [0, 1]
GUESS = tuple(zip((0.5 - 0.15**0.5, 0.5, 0.5 + 0.15**0.5), (5 / 18, 8 / 18, 5 / 18), strict=True))


def shoot(
    field: Field,
    start: Float[Tensor, "row"],
    end: Float[Tensor, "row"],
    integrator: Integrator,
    tolerance: float,
) -> Solution:
    """Find the first velocity of the path from `start` at time 0 to `end` at time 1.

    The guess is the closed form by a coarse rule. Newton's method corrects it: the miss is divided
    by its derivative. A row that has arrived in `PATIENCE` successive shots, or whose end is not
    finite, is left alone from then on and costs nothing. Rows that do not arrive raise no error;
    `converged` marks.

    Args:
        field: the geometry of the rows.
        start: chart positions at time 0.
        end: chart positions at time 1; no row may end where it starts.
        integrator: where paths arrive, and how that depends on their velocity.
        tolerance: largest miss of a row that has arrived, chart units.
    """
    with torch.no_grad():
        v0, residual = _guess(field, start, end), torch.full_like(start, torch.nan)
        arrived = torch.zeros(len(start), dtype=torch.int64, device=start.device)
        evaluations = torch.full_like(arrived, 1 + len(GUESS))
        rows = torch.arange(len(start), device=start.device)
        change = torch.zeros_like(start)
        for _ in range(CORRECTIONS + 1):
            v0[rows] += change
            arrival = integrator(field[rows], start[rows], v0[rows])
            miss = arrival.position - end[rows]
            residual[rows] = miss
            evaluations[rows] += arrival.evaluations
            arrived[rows] = torch.where(miss.abs() <= tolerance, arrived[rows] + 1, 0)
            running = (arrived[rows] < PATIENCE) & torch.isfinite(miss)
            rows, change = rows[running], (-miss / arrival.sensitivity)[running]
            if not len(rows):
                break
    return Solution(v0, residual, converged(v0, residual, tolerance), evaluations)


def _guess(field: Field, start: Tensor, end: Tensor) -> Tensor:
    """First velocities by a coarse rule."""
    distance = end - start
    log_sqrt = field(start[:, None])[0][:, 0]
    inside = torch.stack([start + fraction * distance for fraction, _ in GUESS], dim=1)
    roots = torch.exp(field(inside)[0] - log_sqrt[:, None]).unbind(1)
    # added one by one: the order in a matrix product may depend on the number of rows
    mean = sum(weight * root for (_, weight), root in zip(GUESS, roots, strict=True))
    return distance * mean


def _by_shooting(
    integrator: Callable[[GeodesicsParameters], Integrator],
    closed_form: ClosedForm,
    problem: BoundaryValueProblem,
    parameters: GeodesicsParameters,
) -> Solution:
    grid, pairs = closed_form.grid, len(problem.source)
    width = grid.log_sqrt.shape[1]
    field = Field(grid.lookup, torch.arange(width, device=grid.positions.device).repeat(pairs))
    start, end = (
        problem.stations[at].repeat_interleave(width) for at in (problem.source, problem.target)
    )
    found = shoot(field, start, end, integrator(parameters), parameters.tolerance)
    return Solution(*(part.reshape(pairs, width) for part in found))


SOLVERS: dict[str, BoundaryValueSolver] = {
    "closed_form": lambda closed_form, problem, block: closed_form.solve(problem, block.tolerance),
    "newton": partial(_by_shooting, lambda block: partial(runge_kutta, steps=block.steps)),
    # A tenth of the tolerance is left to a step: the residual does not see what it misses.
    "dopri5": partial(
        _by_shooting, lambda block: partial(dormand_prince, tolerance=block.tolerance / 10)
    ),
}
