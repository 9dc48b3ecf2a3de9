"""The initial value problem of many geodesics at once: x'' = -G(x) x'^2, step by step.

Two integrators of torchdiffeq (R. T. Q. Chen et al., Neural Ordinary Differential Equations,
NeurIPS 2018). `dopri5` chooses its steps by an error estimate (E. Hairer, S. P. Norsett and
G. Wanner, Solving Ordinary Differential Equations I, 2nd ed., section II.4). All rows share them,
so the digits of a row beyond the tolerance depend on its company; the estimate of the worst row
decides, for a mean over rows lets a thousand easy ones hide a hard one. `rk4` takes equal steps and
every row is on its own: its bits are the same in any company, if those of the field are.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torchdiffeq import odeint, odeint_adjoint

from geonode.arguments import choose, require_above
from geonode.errors import GeometryError
from geonode.geodesics.solvers.rows import require_alike, require_start
from geonode.geometry.field import Field


@dataclass(frozen=True)
class Trajectory:
    """Paths of all rows at the times asked for.

    Attributes:
        positions: x(t), chart units.
        velocities: x'(t).
        evaluations: calls of the field on the way, the same for all rows.
    """

    positions: Float[Tensor, "row time"]
    velocities: Float[Tensor, "row time"]
    evaluations: int


def dopri5(times: Float[Tensor, "time"], steps: int) -> dict[str, Any]:  # noqa: ARG001
    """Options of torchdiffeq for adaptive steps: the worst row decides, the last step ends in time.

    Time is kept in the format of the state: some devices have no float64.
    """
    return {"norm": _largest, "dtype": times.dtype, "step_t": times[-1:]}


def rk4(times: Float[Tensor, "time"], steps: int) -> dict[str, Any]:
    """Options of torchdiffeq for equal steps.

    The edges of the steps are given, as a width of 1/49 has torchdiffeq take 50 steps. Times
    between edges are read off the cubic through values and slopes, which keeps the order and costs
    a call for each.
    """

    def edges(equation: object, state: Tensor, times: Tensor) -> Tensor:  # noqa: ARG001
        return torch.linspace(times[0], times[-1], steps + 1, dtype=times.dtype).to(times)

    return {"grid_constructor": edges, "interp": "linear" if len(times) == 2 else "cubic"}


INTEGRATORS: dict[str, Callable[[Float[Tensor, "time"], int], dict[str, Any]]] = {
    "dopri5": dopri5,
    "rk4": rk4,
}


def integrate(
    field: Field,
    start: Float[Tensor, "row"],
    velocity: Float[Tensor, "row"],
    times: Float[Tensor, "time"],
    *,
    method: str = "dopri5",
    steps: int = 100,
    rtol: float = 1e-5,
    atol: float = 1e-7,
    adjoint: bool = False,
) -> Trajectory:
    """Follow geodesics from a position and a velocity at the first of the times.

    Args:
        field: the geometry of the rows.
        start: position at the first time, chart units.
        velocity: x' at the first time.
        times: ascending.
        method: name of an integrator.
        steps: of `rk4`, from the first time to the last.
        rtol: of `dopri5`: error of a step relative to positions and velocities.
        atol: what is allowed beside it.
        adjoint: find gradients with respect to start, velocity and the parameters of the field by
            integrating backwards, in memory that does not grow with the steps. Steps backwards are
            chosen for the gradients too, so it is meant for smooth fields: for a grid, whose cells
            have edges, backpropagation is quicker.

    Raises:
        GeometryError: an argument is not what it must be, or the steps of `dopri5` vanish. Paths
            by `rk4` may leave the finite numbers; judging them is left to the caller.
        ParameterError: there is no such method.
    """
    choose(INTEGRATORS, method, "method")
    _require_values(field, start, velocity, times)
    require_above("rtol", rtol, 0)
    require_above("atol", atol, 0)
    require_above("steps", steps, 0)
    try:
        return _solve(field, start, velocity, times, method, steps, rtol, atol, adjoint)
    except AssertionError as error:
        raise GeometryError(
            f"velocity: found paths that {method} cannot follow at rtol {rtol:g} ({error}), "
            "expected paths that stay finite; raise rtol, or use rk4 and judge every row"
        ) from error


def final_positions(
    field: Field, start: Float[Tensor, "row"], velocity: Float[Tensor, "row"], steps: int
) -> Float[Tensor, "row"]:
    """Positions at time 1 by `rk4`, for a loop that has checked its arguments beforehand.

    Costs 4 calls of the field a step.
    """
    times = torch.tensor([0.0, 1.0], dtype=start.dtype).to(start.device)
    path = _solve(field, start, velocity, times, "rk4", steps, 1.0, 1.0, False)
    return path.positions[:, 1]


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


def _solve(
    field: Field,
    start: Tensor,
    velocity: Tensor,
    times: Tensor,
    method: str,
    steps: int,
    rtol: float,
    atol: float,
    adjoint: bool,
) -> Trajectory:
    equation = _Equation(field)
    state = torch.stack([start, velocity])
    options = INTEGRATORS[method](times, steps)
    how = {"rtol": rtol, "atol": atol, "method": method, "options": options}
    if adjoint:
        # a norm of its own: the default takes the root mean square over each parameter
        backwards = {name: value for name, value in options.items() if name != "step_t"}
        how["adjoint_options"] = backwards | {"norm": _largest_of_all}
        how["adjoint_params"] = tuple(p for p in field.parameters if p.requires_grad)
    path = (odeint_adjoint if adjoint else odeint)(equation, state, times, **how)
    return Trajectory(path[:, 0].T, path[:, 1].T, equation.calls)


def _largest(errors: Tensor) -> Tensor:
    return errors.abs().max()


def _largest_of_all(errors: tuple[Tensor, ...]) -> Tensor:
    return torch.stack([_largest(part) for part in errors]).max()


def _require_values(field: Field, start: Tensor, velocity: Tensor, times: Tensor) -> None:
    require_start(field, start)
    if not len(start):
        raise GeometryError("start: found no rows, expected at least one")
    require_alike("velocity", velocity, "start", start)
    if not torch.isfinite(velocity).all():
        row = int((~torch.isfinite(velocity)).nonzero()[0])
        raise GeometryError(
            f"velocity: found {float(velocity[row])} in row {row}, expected finite numbers"
        )
    require_alike("times", times[:1], "start", start[:1])
    if len(times) < 2 or not (times.diff() > 0).all():
        raise GeometryError(
            f"times: found {times.tolist()}, expected two or more in ascending order"
        )
