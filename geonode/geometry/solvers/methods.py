"""Every way to solve the boundary value problems of a grid, by name.

All take the same problem and return the same kind of solution. Its rows (pair, wavelength) do not
influence each other, except for digits beyond the tolerance by `dopri5`.
"""

from collections.abc import Callable
from dataclasses import fields
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from geonode.config import GeodesicsParameters
from geonode.geometry.field import GridField
from geonode.geometry.problem import BoundaryValueProblem, Solution
from geonode.geometry.solvers.closed_form import ClosedForm
from geonode.geometry.solvers.initial_value import DormandPrince, Integrator, RungeKutta
from geonode.geometry.solvers.shooting import shoot

BoundaryValueSolver = Callable[[ClosedForm, BoundaryValueProblem, GeodesicsParameters], Solution]


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


def _shoot(
    integrator: Callable[[GeodesicsParameters], Integrator],
    closed_form: ClosedForm,
    problem: BoundaryValueProblem,
    parameters: GeodesicsParameters,
) -> Solution:
    rows = rows_of(closed_form, problem)
    found = shoot(*rows, integrator(parameters), parameters.tolerance)
    pairs = len(problem.source)
    return Solution(*(getattr(found, part.name).reshape(pairs, -1) for part in fields(found)))


SOLVERS: dict[str, BoundaryValueSolver] = {
    "closed_form": lambda closed_form, problem, block: closed_form.solve(problem, block.tolerance),
    "newton": partial(_shoot, lambda block: RungeKutta(block.steps)),
    # A tenth of the tolerance is left to a step: the residual does not see what it misses.
    "dopri5": partial(_shoot, lambda block: DormandPrince(block.tolerance / 10)),
}
