"""The boundary value problem by shooting: correct the first velocity until the path arrives.

Paths of x'' = -G(x) x'^2 are followed by torchdiffeq (R. T. Q. Chen et al., Neural Ordinary
Differential Equations, NeurIPS 2018), in equal steps of order 4. It is imported when it is used,
for it brings SciPy along, half a second that few runs need. Every row is on its own: its bits are
the same in any company, if those of the field are.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from geonode.geodesics.problem import Solution, converged
from geonode.geometry.field import Field

CORRECTIONS = 8
"""Corrections at most. A good guess takes three; eight square an error away from anywhere that
Newton's method converges from."""

# Gauss-Legendre rule of order 6 on [0, 1]
GUESS = tuple(zip((0.5 - 0.15**0.5, 0.5, 0.5 + 0.15**0.5), (5 / 18, 8 / 18, 5 / 18), strict=True))


def shoot(
    field: Field,
    start: Float[Tensor, "row"],
    end: Float[Tensor, "row"],
    *,
    tolerance: float,
    patience: int,
    steps: int,
) -> Solution:
    """Find the first velocity of the path from `start` at time 0 to `end` at time 1.

    The guess is the closed form by a coarse rule. Newton's method corrects it: the miss is divided
    by its derivative. A row that has arrived in so many shots running, or whose end is no finite
    number, is corrected no further, and costs nothing from then on.

    Rows that do not arrive raise nothing; `converged` tells.

    Args:
        field: the geometry of the rows.
        start: chart positions at time 0.
        end: chart positions at time 1; no row may end where it starts.
        tolerance: largest miss of a row that has arrived, chart units.
        patience: successive shots that must arrive.
        steps: in time, of every shot.
    """
    with torch.no_grad():
        v0, residual = _guess(field, start, end), torch.full_like(start, torch.nan)
        shots, arrived = torch.zeros(2, len(start), dtype=torch.int64, device=start.device)
        rows = torch.arange(len(start), device=start.device)
        change = torch.zeros_like(start)
        for _ in range(CORRECTIONS + 1):
            v0[rows] += change
            reached, sensitivity = arrive(field[rows], start[rows], v0[rows], steps)
            miss = reached - end[rows]
            residual[rows] = miss
            shots[rows] += 1
            arrived[rows] = torch.where(miss.abs() <= tolerance, arrived[rows] + 1, 0)
            running = (arrived[rows] < patience) & torch.isfinite(miss)
            rows, change = rows[running], (-miss / sensitivity)[running]
            if not len(rows):
                break
    return Solution(
        v0=v0,
        residual=residual,
        converged=converged(v0, residual, tolerance),
        iterations=shots - 1,
        evaluations=1 + len(GUESS) + (4 * steps + 2) * shots,
    )


def arrive(
    field: Field, start: Float[Tensor, "row"], velocity: Float[Tensor, "row"], steps: int
) -> tuple[Float[Tensor, "row"], Float[Tensor, "row"]]:
    """Positions at time 1, and their derivatives sqrt(g(x(0)) / g(x(1))) by the first velocities.

    Paths may leave the finite numbers, which the caller checks.

    Args:
        field: the geometry of the rows.
        start: chart positions at time 0.
        velocity: first velocities.
        steps: in time.
    """
    from torchdiffeq import odeint  # noqa: PLC0415

    def equation(time: Tensor, state: Tensor) -> Tensor:  # noqa: ARG001
        position, velocity = state
        symbol = field(position[:, None])[1][:, 0]
        return torch.stack([velocity, -symbol * velocity.square()])

    def edges(equation: object, state: object, times: Tensor) -> Tensor:  # noqa: ARG001
        # of the steps: a width of 1/49 would have torchdiffeq take 50 steps
        return torch.linspace(0, 1, steps + 1, dtype=times.dtype).to(times)

    times = torch.tensor([0.0, 1.0], dtype=start.dtype).to(start.device)
    options = {"grid_constructor": edges, "interp": "linear"}
    state = torch.stack([start, velocity])
    reached = odeint(equation, state, times, method="rk4", options=options)[1, 0]
    first, last = field(torch.stack([start, reached], dim=1))[0].unbind(1)
    return reached, torch.exp(first - last)


def _guess(field: Field, start: Tensor, end: Tensor) -> Tensor:
    """First velocities by a coarse rule."""
    distance = end - start
    log_sqrt = field(start[:, None])[0][:, 0]
    inside = torch.stack([start + fraction * distance for fraction, _ in GUESS], dim=1)
    roots = torch.exp(field(inside)[0] - log_sqrt[:, None]).unbind(1)
    # added one by one: the order in a matrix product may depend on the number of rows
    mean = sum(weight * root for (_, weight), root in zip(GUESS, roots, strict=True))
    return distance * mean
