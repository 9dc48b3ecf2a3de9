"""Every method to solve for first velocities."""

import pytest
import torch

from geonode.geometry.field import Field
from geonode.geometry.grid import Grid
from geonode.geometry.problem import BoundaryValueProblem, Solution
from geonode.geometry.solvers.closed_form import ClosedForm
from geonode.geometry.solvers.initial_value import Arrival
from geonode.geometry.solvers.methods import SOLVERS, shoot
from research.peer_solvers import collocate
from tests.geometry.closed_forms import (
    RECIPROCAL,
    DirectSource,
    constant,
    exponential,
    field_of,
    grid_of,
    nodes,
    random_metric,
)
from tests.geometry.precision import NoFloat64
from tests.geometry.solvers.test_initial_value import START, rk4
from tests.geometry.test_solved import parameters

STATIONS = torch.tensor([-0.9, -0.5, 0.1, 0.6], dtype=torch.float64)
PROBLEM = BoundaryValueProblem.all_pairs(STATIONS)
METRICS = [constant(2.5), exponential(0.7), exponential(-1.0), RECIPROCAL]
GRID = grid_of(METRICS, nodes(1000))
ALONE = ["closed_form", "newton"]  # by dopri5 all rows share their steps
PARTS = Solution._fields


def solve(name, grid=GRID, problem=PROBLEM, tolerance=1e-6, **others):
    return SOLVERS[name](ClosedForm(grid), problem, parameters(tolerance, **others))


def endpoint_errors(solution, problem):
    """Where velocities lead minus the target, to first order, by formula."""
    start, end = (problem.stations.double()[i] for i in (problem.source, problem.target))
    errors = []
    for column, metric in enumerate(METRICS):
        v0 = (metric.arc_length(end) - metric.arc_length(start)) / metric.log_sqrt(start).exp()
        sensitivity = (metric.log_sqrt(start) - metric.log_sqrt(end)).exp()
        errors.append((solution.v0[:, column] - v0) * sensitivity)
    return torch.stack(errors, dim=1)


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize(
    ("dtype", "tolerance", "error"), [(torch.float64, 1e-6, 1e-5), (torch.float32, 3e-6, 1e-3)]
)
def test_velocities_are_those_of_the_closed_form(name, dtype, tolerance, error):
    """And single precision is kept to."""
    grid, alone = GRID.to(torch.empty(0, dtype=dtype)), dtype == torch.float32
    with NoFloat64() if alone else torch.no_grad():
        problem = BoundaryValueProblem.all_pairs(STATIONS.to(dtype))
        tolerance = 1e-4 if alone and name == "dopri5" else tolerance
        solution = solve(name, grid, problem, tolerance, steps=25)
    if (name, alone) == ("closed_form", False):
        error = 1e-10
    assert solution.v0.dtype == solution.residual.dtype == dtype
    assert endpoint_errors(solution, problem).abs().max() <= error
    assert solution.converged.all()
    assert solution.residual.abs().max() <= tolerance
    assert (solution.evaluations > (1 if name == "closed_form" else 40)).all()
    shape = (len(PROBLEM.source), len(METRICS))
    assert {getattr(solution, part).shape for part in PARTS} == {shape}


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_bits_do_not_depend_on_what_else_is_solved(name, dtype):
    grid = DirectSource(random_metric(71, 2.0), nodes(7)).grid(0, nodes(300, dtype))
    stations, w = STATIONS.to(dtype), nodes(7, dtype)

    def some(pairs, columns):
        problem = BoundaryValueProblem(stations, PROBLEM.source[pairs], PROBLEM.target[pairs])
        part = grid.at_wavelengths(columns)
        solution, closed_form = solve(name, part, problem, steps=4), ClosedForm(part)
        paths = closed_form.trajectories(problem, solution.v0, nodes(5, dtype).abs())
        features = closed_form.stations(stations, w[columns]).features(
            problem.source, problem.target
        )
        return [paths, features, *(getattr(solution, field) for field in PARTS)]

    whole, pairs, columns = some(torch.arange(12), torch.arange(7)), [3, 11, 3], [6, 0, 2]
    for part, all_rows in zip(some(pairs, torch.tensor(columns)), whole, strict=True):
        assert torch.equal(part, all_rows[pairs][:, columns])


@pytest.mark.parametrize("name", ALONE)
def test_rows_that_are_not_finite_do_not_disturb_the_others(name):
    bad = Grid(GRID.positions, GRID.log_sqrt.clone(), GRID.symbol.clone())
    bad.log_sqrt[:, 2], bad.symbol[:, 2] = torch.nan, torch.inf
    good, found, alone = torch.tensor([0, 1, 3]), solve(name, bad, steps=8), solve(name, steps=8)
    for part in PARTS:
        assert torch.equal(getattr(found, part)[:, good], getattr(alone, part)[:, good])
    assert not found.converged[:, 2].any()
    assert (found.evaluations[:, 2] <= 4 + 4 * 8 + 2).all()  # of one shot


def test_the_closed_form_is_what_scipy_finds_by_collocation():
    known = [exponential(0.7), RECIPROCAL, exponential(-1.5)]
    start, end = torch.tensor([[-0.8, 0.7, -0.9], [0.9, -0.6, 0.4]]).double()
    found, asked = collocate(field_of(known), start, end, 1e-9)
    closed_form = ClosedForm(grid_of(known, nodes(2000)))
    for column, ends in enumerate(zip(start, end, strict=True)):
        stations = torch.stack(sorted(ends))
        solved = closed_form.solve(BoundaryValueProblem.all_pairs(stations), 1e-6)
        v0 = solved.v0[0 if ends[0] < ends[1] else 1, column]
        assert abs(found[column] - v0) <= 1e-7
    assert asked > 100
    steep = field_of([exponential(30.0)])
    assert collocate(steep, start[:1], end[:1], 1e-6)[0].isnan().all()


# how first velocities are corrected


@pytest.mark.parametrize("steps", [25, 49])
def test_rows_stop_after_arriving_twice_and_cost_no_more(steps):
    known, counts = field_of((*METRICS[:2], exponential(-1.0), RECIPROCAL)), torch.zeros(4).long()

    def counted(positions, which):
        counts.index_add_(0, which, torch.full_like(which, positions.shape[1]))
        return known.geometry(positions, which)

    start, end = torch.tensor([[-0.9, -0.9, 0.6, 0.1], [0.6, 0.1, -0.9, -0.5]]).double()
    found = shoot(Field(counted, known.which), start, end, rk4(steps), 1e-6)
    assert torch.equal(found.evaluations, counts)
    assert found.evaluations[0] == 4 + 2 * (4 * steps + 2)  # constant: the guess is exact
    assert found.evaluations.max() >= 4 + 3 * (4 * steps + 2)


def test_only_successive_arrivals_count():
    """Of a path that leaves the target after the first shot, and comes back."""
    misses = iter([0.0, 0.1, 0.0, 0.0])

    def integrator(field, start, velocity):
        return Arrival(start + next(misses), torch.ones_like(start), torch.ones(1).long())

    at = START[:1]
    found = shoot(field_of(METRICS[:1]), at, at, integrator, 1e-6)
    assert found.evaluations.tolist() == [4 + 4]


def test_rows_that_do_not_arrive_in_nine_shots_are_told():
    start, end = torch.tensor([[-0.8], [0.8]]).double()
    field = field_of([exponential(-1.9)])
    found = shoot(field, start, end, rk4(9), -1.0)
    assert (found.converged.tolist(), found.evaluations.tolist()) == ([False], [4 + 9 * 38])
    assert torch.equal(found.residual, rk4(9)(field, start, found.v0).position - end)
