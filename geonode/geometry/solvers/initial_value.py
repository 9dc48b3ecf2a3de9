"""The initial value problem of many geodesics at once: x'' = -G(x) x'^2 from time 0 to 1.

Two integrators of torchdiffeq (R. T. Q. Chen et al., Neural Ordinary Differential Equations,
NeurIPS 2018) find where paths arrive, and how that depends on their first velocity. They are
imported on use: SciPy comes with them, half a second that few runs need.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geonode.geometry.field import Field


@dataclass(frozen=True)
class Arrival:
    """Positions of paths at time 1."""

    position: Float[Tensor, "row"]  # x(1), chart units; NaN where the integrator gave up
    sensitivity: Float[Tensor, "row"]  # d x(1) / d v0
    evaluations: Int[Tensor, "row"]  # positions at which the row asked for the geometry


@runtime_checkable
class Integrator(Protocol):
    """Follows geodesics from a position and a velocity at time 0."""

    def __call__(
        self, field: Field, start: Float[Tensor, "row"], velocity: Float[Tensor, "row"]
    ) -> Arrival:
        """Integrate paths to time 1. Positions may overflow; the caller checks that."""


@dataclass(frozen=True)
class RungeKutta:
    """Equal steps of order 4, and the exact sensitivity sqrt(g(x(0)) / g(x(1))).

    Rows are independent: the bits of one do not depend on which others are integrated with it, as
    long as those of the field do not.
    """

    steps: int  # number of steps in time

    def __call__(
        self, field: Field, start: Float[Tensor, "row"], velocity: Float[Tensor, "row"]
    ) -> Arrival:
        """Integrate paths to time 1."""
        from torchdiffeq import odeint  # noqa: PLC0415

        equation, times = _Equation(field), _start_and_end(start)
        options = {"grid_constructor": self._edges, "interp": "linear"}
        state = torch.stack([start, velocity])
        reached = odeint(equation, state, times, method="rk4", options=options)[1, 0]
        first, last = field(torch.stack([start, reached], dim=1))[0].unbind(1)
        asked = torch.full_like(start, equation.calls + 2, dtype=torch.int64)
        return Arrival(reached, torch.exp(first - last), asked)

    def _edges(self, equation: object, state: object, times: Tensor) -> Tensor:  # noqa: ARG002
        """Edges of the steps: a width of 1/49 would have torchdiffeq take 50 steps."""
        return torch.linspace(0, 1, self.steps + 1, dtype=times.dtype).to(times)


@dataclass(frozen=True)
class DormandPrince:
    """Steps chosen by an error estimate, and the sensitivity by the adjoint method.

    All rows share the steps. The worst row decides on their size, as in a mean a thousand easy rows
    would hide a hard one; digits of a row beyond the tolerance depend on the others. Rows that make
    the steps vanish are found by halving the batch, and given up.

    Sources: E. Hairer, S. P. Norsett and G. Wanner, Solving Ordinary Differential Equations I, 2nd
    ed., section II.4; for the adjoint, Chen et al., appendix B.
    """

    tolerance: float  # of a step, absolute and relative

    def __call__(
        self, field: Field, start: Float[Tensor, "row"], velocity: Float[Tensor, "row"]
    ) -> Arrival:
        """Integrate paths to time 1."""
        try:
            return self._follow(field, start, velocity)
        except AssertionError:  # by which torchdiffeq reports that steps vanish
            nothing = torch.full_like(start, torch.nan)
            if len(start) == 1:
                return Arrival(nothing, nothing, torch.zeros_like(start, dtype=torch.int64))
        rows = torch.arange(len(start), device=start.device).tensor_split(2)
        parts = [self(field[some], start[some], velocity[some]) for some in rows]
        return Arrival(
            torch.cat([part.position for part in parts]),
            torch.cat([part.sensitivity for part in parts]),
            torch.cat([part.evaluations for part in parts]),
        )

    def _follow(self, field: Field, start: Tensor, velocity: Tensor) -> Arrival:
        from torchdiffeq import odeint_adjoint  # noqa: PLC0415

        equation, times = _Equation(field), _start_and_end(start)
        # Time is kept in the format of the state: some devices have no float64.
        steps = {"norm": _largest, "dtype": times.dtype}
        with torch.enable_grad():
            free = velocity.detach().requires_grad_()
            reached = odeint_adjoint(
                equation,
                torch.stack([start, free]),
                times,
                rtol=self.tolerance,
                atol=self.tolerance,
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


def _start_and_end(like: Tensor) -> Tensor:
    return torch.tensor([0.0, 1.0], dtype=like.dtype).to(like.device)


def _largest(errors: Tensor) -> Tensor:
    return errors.abs().max()


def _largest_of_all(errors: tuple[Tensor, ...]) -> Tensor:
    """Largest error of state and gradients; the default norm takes the root mean square of each."""
    return torch.stack([_largest(part) for part in errors if part.numel()]).max()
