"""Every way to solve the boundary value problems of a grid, by name.

All of them take the same problem and give back the same kind of solution, with rows (pair,
wavelength) that do not influence each other.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from geonode.geodesics.problem import BoundaryValueProblem
from geonode.geodesics.solution import Solution
from geonode.geodesics.solvers.adam import Adam
from geonode.geodesics.solvers.closed_form import ClosedForm
from geonode.geodesics.solvers.lbfgs import LBFGS
from geonode.geodesics.solvers.newton import Newton
from geonode.geodesics.solvers.scipy_bvp import solve_bvp_rows
from geonode.geodesics.solvers.shooting import ShootingMethod, shoot
from geonode.geometry.field import Field, GridField
from geonode.geometry.lookup import Lookup


@dataclass(frozen=True)
class Settings:
    """What the methods must be told.

    Attributes:
        tolerance: largest residual of a converged row, chart units.
        lookup: how those that follow the path in time read the grid.
        patience: successive shots that must arrive within the tolerance.
        steps: in time, of every shot.
    """

    tolerance: float
    lookup: Lookup
    patience: int = 2
    steps: int = 100


Method = Callable[[ClosedForm, BoundaryValueProblem, Settings], Solution]


def rows_of(
    closed_form: ClosedForm, problem: BoundaryValueProblem, lookup: Lookup
) -> tuple[GridField, Float[Tensor, "row"], Float[Tensor, "row"]]:
    """Field, start and end of every row of a problem, wavelengths fastest."""
    grid = closed_form.grid
    pairs, width = len(problem.source), grid.log_sqrt.shape[1]
    columns = torch.arange(width, device=grid.positions.device).repeat(pairs)
    start, end = (
        problem.stations[index].repeat_interleave(width)
        for index in (problem.source, problem.target)
    )
    return GridField(grid, columns, lookup), start, end


def _closed_form(
    closed_form: ClosedForm, problem: BoundaryValueProblem, settings: Settings
) -> Solution:
    return closed_form.solve(problem, settings.tolerance)


def _by_rows(solve: Callable[[Field, Tensor, Tensor, Settings], Solution]) -> Method:
    """A method that is given rows."""

    def method(
        closed_form: ClosedForm, problem: BoundaryValueProblem, settings: Settings
    ) -> Solution:
        rows = rows_of(closed_form, problem, settings.lookup)
        return solve(*rows, settings).unflatten(len(problem.source))

    return method


def _shooting(method: ShootingMethod) -> Method:
    def solve(field: Field, start: Tensor, end: Tensor, settings: Settings) -> Solution:
        return shoot(
            field,
            start,
            end,
            method,
            tolerance=settings.tolerance,
            patience=settings.patience,
            steps=settings.steps,
        )

    return _by_rows(solve)


def _scipy(field: Field, start: Tensor, end: Tensor, settings: Settings) -> Solution:
    return solve_bvp_rows(field, start, end, tolerance=settings.tolerance)


METHODS: dict[str, Method] = {
    "closed_form": _closed_form,
    "newton": _shooting(Newton()),
    "lbfgs": _shooting(LBFGS()),
    "adam": _shooting(Adam()),
    "scipy": _by_rows(_scipy),
}
