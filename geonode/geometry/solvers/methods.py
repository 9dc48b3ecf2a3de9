"""Every way to solve the boundary value problems of a grid, by name.

All take the same problem and return the same kind of solution. Its rows (pair, wavelength) do not
influence each other, except for digits beyond the tolerance by `dopri5`.
"""

from collections.abc import Callable
from dataclasses import fields
from functools import partial

import torch

from geonode.config import GeodesicsParameters
from geonode.geometry.field import Field
from geonode.geometry.problem import BoundaryValueProblem, Solution
from geonode.geometry.solvers.closed_form import ClosedForm
from geonode.geometry.solvers.initial_value import Integrator, dormand_prince, runge_kutta
from geonode.geometry.solvers.shooting import shoot

BoundaryValueSolver = Callable[[ClosedForm, BoundaryValueProblem, GeodesicsParameters], Solution]


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
    return Solution(*(getattr(found, part.name).reshape(pairs, width) for part in fields(found)))


SOLVERS: dict[str, BoundaryValueSolver] = {
    "closed_form": lambda closed_form, problem, block: closed_form.solve(problem, block.tolerance),
    "newton": partial(_by_shooting, lambda block: partial(runge_kutta, steps=block.steps)),
    # A tenth of the tolerance is left to a step: the residual does not see what it misses.
    "dopri5": partial(
        _by_shooting, lambda block: partial(dormand_prince, tolerance=block.tolerance / 10)
    ),
}
