"""Every way to solve the boundary value problems of a grid, by name.

All of them take the same problem and give back the same kind of solution, with rows (pair,
wavelength) that do not influence each other, but for digits beyond the tolerance by `dopri5`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from geonode.config import GeodesicsParameters
from geonode.geodesics.problem import BoundaryValueProblem, Solution
from geonode.geodesics.solvers.closed_form import ClosedForm
from geonode.geodesics.solvers.corrections import LBFGS, Adam, Newton, ShootingMethod
from geonode.geodesics.solvers.initial_value import DormandPrince, Integrator, RungeKutta
from geonode.geodesics.solvers.shooting import shoot
from geonode.geometry.field import GridField

Method = Callable[[ClosedForm, BoundaryValueProblem, GeodesicsParameters], Solution]


def rows_of(
    closed_form: ClosedForm, problem: BoundaryValueProblem
) -> tuple[GridField, Float[Tensor, "row"], Float[Tensor, "row"]]:
    """Field, start and end of every row of a problem, wavelengths fastest."""
    grid = closed_form.grid
    pairs, width = len(problem.source), grid.log_sqrt.shape[1]
    columns = torch.arange(width, device=grid.positions.device).repeat(pairs)
    start, end = (
        problem.stations[index].repeat_interleave(width)
        for index in (problem.source, problem.target)
    )
    return GridField(grid, columns), start, end


def _closed_form(
    closed_form: ClosedForm, problem: BoundaryValueProblem, parameters: GeodesicsParameters
) -> Solution:
    return closed_form.solve(problem, parameters.tolerance)


def _scipy(
    closed_form: ClosedForm, problem: BoundaryValueProblem, parameters: GeodesicsParameters
) -> Solution:
    from geonode.geodesics.solvers.scipy_bvp import solve_bvp_rows  # noqa: PLC0415

    rows = rows_of(closed_form, problem)
    return solve_bvp_rows(*rows, tolerance=parameters.tolerance).unflatten(len(problem.source))


def _rk4(parameters: GeodesicsParameters) -> Integrator:
    return RungeKutta(parameters.steps)


def _dopri5(parameters: GeodesicsParameters) -> Integrator:
    """A tenth of the tolerance is left to a step: the residual does not see what it misses."""
    return DormandPrince(parameters.tolerance / 10)


@dataclass(frozen=True)
class _Shooting:
    """A way to correct velocities, and what follows the paths."""

    corrections: ShootingMethod
    integrator: Callable[[GeodesicsParameters], Integrator] = _rk4

    def __call__(
        self,
        closed_form: ClosedForm,
        problem: BoundaryValueProblem,
        parameters: GeodesicsParameters,
    ) -> Solution:
        solution = shoot(
            *rows_of(closed_form, problem),
            self.corrections,
            self.integrator(parameters),
            tolerance=parameters.tolerance,
            patience=parameters.patience,
        )
        return solution.unflatten(len(problem.source))


METHODS: dict[str, Method] = {
    "closed_form": _closed_form,
    "newton": _Shooting(Newton()),
    "lbfgs": _Shooting(LBFGS()),
    "adam": _Shooting(Adam()),
    "dopri5": _Shooting(Newton(), _dopri5),
    "scipy": _scipy,
}
