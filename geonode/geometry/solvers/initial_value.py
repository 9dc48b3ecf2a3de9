"""The initial value problem of many geodesics at once: x'' = -G(x) x'^2 from time 0 to 1.

Two integrators of torchdiffeq (R. T. Q. Chen et al., Neural Ordinary Differential Equations,
NeurIPS 2018) find where paths arrive, and how that depends on their first velocity. They are
imported on use: SciPy comes with them, half a second that few runs need.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geonode.geometry.field import Field


class Arrival(NamedTuple):
    """Positions of paths at time 1."""

    position: Float[Tensor, "row"]  # x(1), chart units; NaN where the integrator gave up
    sensitivity: Float[Tensor, "row"]  # d x(1) / d v0
    evaluations: Int[Tensor, "row"]  # positions at which the row asked for the geometry


Integrator = Callable[[Field, Tensor, Tensor], Arrival]
"""Follows paths from positions and velocities of every row at time 0; they may overflow."""


def runge_kutta(
    field: Field, start: Float[Tensor, "row"], velocity: Float[Tensor, "row"], steps: int
) -> Arrival:
    """Equal steps of order 4, and the exact sensitivity sqrt(g(x(0)) / g(x(1))).

    Rows are independent: the bits of one do not depend on which others are integrated with it, as
    long as those of the field do not.
    """
    from torchdiffeq import odeint  # noqa: PLC0415

    equation, times = _Equation(field), torch.tensor([0.0, 1.0]).to(start)
    edges = torch.linspace(0, 1, steps + 1, dtype=start.dtype).to(start.device)
    # A width of 1/49 would have torchdiffeq take 50 steps.
    options = {"grid_constructor": lambda *_: edges, "interp": "linear"}
    state = torch.stack([start, velocity])
    reached = odeint(equation, state, times, method="rk4", options=options)[1, 0]
    first, last = field(torch.stack([start, reached], dim=1))[0].unbind(1)
    asked = torch.full_like(start, equation.calls + 2, dtype=torch.int64)
    return Arrival(reached, torch.exp(first - last), asked)


def dormand_prince(
    field: Field, start: Float[Tensor, "row"], velocity: Float[Tensor, "row"], tolerance: float
) -> Arrival:
    """Steps chosen by an error estimate, and the sensitivity by the adjoint method.

    All rows share the steps. The worst row decides on their size, as in a mean a thousand easy rows
    would hide a hard one; digits of a row beyond the tolerance (of a step, absolute and relative)
    depend on the others. Rows that make the steps vanish are found by halving the batch, and given
    up.

    Sources: E. Hairer, S. P. Norsett and G. Wanner, Solving Ordinary Differential Equations I, 2nd
    ed., section II.4; for the adjoint, Chen et al., appendix B.
    """
    try:
        return _adaptive(field, start, velocity, tolerance)
    except AssertionError:  # by which torchdiffeq reports that steps vanish
        nothing = torch.full_like(start, torch.nan)
        if len(start) == 1:
            return Arrival(nothing, nothing, torch.zeros_like(start, dtype=torch.int64))
    halves = torch.arange(len(start), device=start.device).tensor_split(2)
    parts = [dormand_prince(field[at], start[at], velocity[at], tolerance) for at in halves]
    return Arrival(*(torch.cat(part) for part in zip(*parts, strict=True)))


def _adaptive(field: Field, start: Tensor, velocity: Tensor, tolerance: float) -> Arrival:
    from torchdiffeq import odeint_adjoint  # noqa: PLC0415

    equation, times = _Equation(field), torch.tensor([0.0, 1.0]).to(start)
    # Time is kept in the format of the state: some devices have no float64.
    steps = {"norm": _largest, "dtype": times.dtype}
    with torch.enable_grad():
        free = velocity.detach().requires_grad_()
        reached = odeint_adjoint(
            equation,
            torch.stack([start, free]),
            times,
            rtol=tolerance,
            atol=tolerance,
            method="dopri5",
            options=steps | {"step_t": times[-1:]},
            adjoint_options=steps | {"norm": _largest_of_all},
            adjoint_params=(),
        )[1, 0]
        (sensitivity,) = torch.autograd.grad(reached.sum(), free)
    asked = torch.full_like(start, equation.calls, dtype=torch.int64)
    return Arrival(reached.detach(), sensitivity, asked)


class _Equation:
    """(x, x')' = (x', -G(x) x'^2) for all rows; counts its calls."""

    def __init__(self, field: Field) -> None:
        self.field = field
        self.calls = 0

    def __call__(self, time: Tensor, state: Tensor) -> Tensor:  # noqa: ARG002
        self.calls += 1
        position, velocity = state
        symbol = self.field(position[:, None])[1][:, 0]
        return torch.stack([velocity, -symbol * velocity.square()])


def _largest(errors: Tensor) -> Tensor:
    return errors.abs().max()


def _largest_of_all(errors: tuple[Tensor, ...]) -> Tensor:
    """Largest error of state and gradients; the default norm takes the root mean square of each."""
    return torch.stack([_largest(part) for part in errors if part.numel()]).max()
