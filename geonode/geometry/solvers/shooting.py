"""The boundary value problem by shooting: correct the first velocity until the path arrives.

Rows are independent: the bits of one do not depend on which others are solved with it, as long as
those of the field and of the integrator do not.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from geonode.geometry.field import Field
from geonode.geometry.problem import Solution, converged
from geonode.geometry.solvers.initial_value import Integrator

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
