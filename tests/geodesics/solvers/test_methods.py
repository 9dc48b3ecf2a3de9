"""Every method to solve for first velocities, and how they correct them when shooting."""

import inspect
from dataclasses import dataclass, fields, replace

import pytest
import torch

from geonode.errors import GeometryError
from geonode.geodesics.problem import BoundaryValueProblem, Solution, Status
from geonode.geodesics.solvers import scipy_bvp
from geonode.geodesics.solvers.closed_form import ClosedForm
from geonode.geodesics.solvers.corrections import LBFGS, Adam, Newton
from geonode.geodesics.solvers.initial_value import RungeKutta
from geonode.geodesics.solvers.methods import METHODS, rows_of
from geonode.geodesics.solvers.scipy_bvp import solve_bvp_rows
from geonode.geodesics.solvers.shooting import shoot
from geonode.geometry.field import GridField
from geonode.geometry.grid import Grid
from geonode.geometry.sources import DirectSource
from tests.geodesics.fields import FormulaField
from tests.geodesics.test_solved import parameters
from tests.geometry.closed_forms import (
    KNOWN,
    RECIPROCAL,
    constant,
    exponential,
    grid_of,
    nodes,
    random_metric,
)
from tests.geometry.precision import NoFloat64

STATIONS = torch.tensor([-0.9, -0.5, 0.1, 0.6], dtype=torch.float64)
PROBLEM = BoundaryValueProblem.all_pairs(STATIONS)
METRICS = [constant(2.5), exponential(0.7), exponential(-1.0), RECIPROCAL]
GRID = grid_of(METRICS, nodes(1000))
ALONE = ["closed_form", "newton", "lbfgs", "adam"]  # by dopri5 all rows share their steps
TORCH = [*ALONE, "dopri5"]
SHOOTING = (Newton(), LBFGS(), Adam())
PARTS = [part.name for part in fields(Solution)]

each_shooting = pytest.mark.parametrize("method", SHOOTING, ids=lambda way: type(way).__name__)


def solve(name, grid=GRID, problem=PROBLEM, tolerance=1e-6, **others):
    return METHODS[name](ClosedForm(grid), problem, parameters(tolerance, **others))


def endpoint_errors(solution, problem=PROBLEM, metrics=METRICS):
    """Where velocities lead minus the target, to first order, by formula."""
    start, end = (problem.stations.double()[i] for i in (problem.source, problem.target))
    errors = []
    for column, metric in enumerate(metrics):
        v0 = (metric.arc_length(end) - metric.arc_length(start)) / metric.log_sqrt(start).exp()
        sensitivity = (metric.log_sqrt(start) - metric.log_sqrt(end)).exp()
        errors.append((solution.v0[:, column] - v0) * sensitivity)
    return torch.stack(errors, dim=1)


@pytest.mark.parametrize("name", METHODS)
def test_velocities_are_those_of_the_closed_form(name):
    problem = PROBLEM
    if name == "scipy":  # which goes one row at a time
        problem = replace(PROBLEM, source=PROBLEM.source[4:6], target=PROBLEM.target[4:6])
    solution = solve(name, problem=problem, steps=25)
    assert endpoint_errors(solution, problem).abs().max() <= (
        1e-10 if name == "closed_form" else 1e-5
    )
    assert (solution.status == Status.CONVERGED).all()
    assert solution.residual.abs().max() <= 1e-6
    assert (solution.evaluations > (1 if name == "closed_form" else 40)).all()
    assert (solution.iterations > 0).any() == (name != "closed_form")
    shape = (len(problem.source), len(METRICS))
    assert {getattr(solution, part).shape for part in PARTS} == {shape}


@pytest.mark.parametrize("name", TORCH)
def test_single_precision_alone(name):
    grid, stations = GRID.to(torch.empty(0)), STATIONS.float()
    with NoFloat64():
        problem = BoundaryValueProblem.all_pairs(stations)
        solution = solve(name, grid, problem, 1e-4 if name == "dopri5" else 3e-6, steps=12)
    assert solution.v0.dtype == solution.residual.dtype == torch.float32
    assert solution.converged.all()
    assert endpoint_errors(solution, problem).abs().max() <= 1e-3


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_bits_do_not_depend_on_what_else_is_solved(name, dtype):
    grid = DirectSource(random_metric(71, 2.0), nodes(7)).grid(0, nodes(300, dtype))
    stations, generator = STATIONS.to(dtype), torch.Generator().manual_seed(0)

    def some(pairs, columns):
        problem = BoundaryValueProblem(stations, PROBLEM.source[pairs], PROBLEM.target[pairs])
        return solve(name, grid.at_wavelengths(columns), problem, steps=4)

    whole = some(torch.arange(12), torch.arange(7))
    assert name == "closed_form" or len(whole.iterations.unique()) > 1
    for pairs, columns in (
        (torch.randperm(12, generator=generator), torch.randperm(7, generator=generator)),
        (torch.tensor([7]), torch.tensor([4])),
        (torch.tensor([3, 11, 3]), torch.arange(7)),
    ):
        part = some(pairs, columns)
        for field in PARTS:
            assert torch.equal(getattr(part, field), getattr(whole, field)[pairs][:, columns])


@pytest.mark.parametrize("name", ALONE)
def test_rows_that_are_not_finite_do_not_disturb_the_others(name):
    bad = Grid(GRID.positions, GRID.log_sqrt.clone(), GRID.symbol.clone())
    bad.log_sqrt[:, 2], bad.symbol[:, 2] = torch.nan, torch.inf
    good, found, alone = torch.tensor([0, 1, 3]), solve(name, bad, steps=8), solve(name, steps=8)
    for part in PARTS:
        assert torch.equal(getattr(found, part)[:, good], getattr(alone, part)[:, good])
    assert (found.status[:, 2] == Status.NOT_FINITE).all()
    assert (found.iterations[:, 2] == 0).all()


# corrections against others, on a miss that is no path: r(v) = v + v^3 - 1.2


def followed(method, v=0.9, distance=1.0, slope=1.0):
    """Velocities that a method tries, the first given."""
    v, tried = torch.tensor([v], dtype=torch.float64), []
    state = (torch.tensor([distance], dtype=torch.float64), *[torch.zeros_like(v)] * 3)
    for iteration in range(method.iterations):
        tried.append(float(v))
        miss, sensitivity = slope * (v + v**3 - 1.2), slope * (1 + 3 * v**2)
        change, state = method(state, miss, sensitivity, iteration)
        v = v + change
    return tried


def test_lbfgs_is_that_of_torch_with_a_long_memory():
    slope = 1 / (1 + 3 * 0.9**2)  # sensitivity 1 at first, so that the first steps are the same
    found, tried = followed(LBFGS(iterations=6), slope=slope), []
    v = torch.tensor([0.9], dtype=torch.float64).requires_grad_()
    lbfgs = torch.optim.LBFGS([v], max_iter=1, tolerance_grad=0.0, tolerance_change=0.0)

    def loss():
        lbfgs.zero_grad()
        value = ((slope * (v + v**3 - 1.2)) ** 2 / 2).sum()
        value.backward()
        return value

    for _ in range(6):
        tried.append(float(v.detach()))
        lbfgs.step(loss)
    assert found == pytest.approx(tried, rel=1e-12)
    assert abs(found[-1] + found[-1] ** 3 - 1.2) <= 1e-3


def test_lbfgs_limits_its_steps_and_leaves_out_negative_curvature():
    method, one = LBFGS(), torch.ones(1).double()
    step, state = method((0.2 * one, 0 * one, 0 * one, 0 * one), 3 * one, one, 0)
    assert float(step) == -0.1
    assert float(method(state, 4 * one, one, 1)[0]) == -0.1
    step, state = method((100 * one, 0 * one, 0 * one, 0 * one), 3 * one, one, 0)
    assert float(step) == -3.0
    assert float(method(state, one, one, 1)[0]) == -1.5
    # uphill by a step that led downhill: the curvature before is kept
    assert float(method(state, 4 * one, one, 1)[0]) == -4.0


@pytest.mark.parametrize("slope", [0.2, 1.0])
def test_adam_is_that_of_torch(slope):
    method, distance, tried = Adam(iterations=30, largest=100.0), 1.5, []
    unit = distance / max(1.0, slope * (1 + 3 * 0.9**2))
    parameter = torch.tensor([0.9 / unit], dtype=torch.float64).requires_grad_()
    decays = (method.first_decay, method.second_decay)
    adam = torch.optim.Adam([parameter], 0.05, decays, eps=1e-300)
    decay = (method.last_rate / method.first_rate) ** (1 / 29)
    schedule = torch.optim.lr_scheduler.ExponentialLR(adam, decay)
    for _ in range(30):
        tried.append(float(parameter.detach()) * unit)
        adam.zero_grad()
        v = parameter * unit
        (((slope * (v + v**3 - 1.2)) / distance) ** 2 / 2).sum().backward()
        adam.step()
        schedule.step()
    assert followed(method, distance=distance, slope=slope) == pytest.approx(tried, rel=1e-9)


@each_shooting
def test_every_row_of_a_network_arrives_in_few_iterations(method):
    few = {Newton: 3, LBFGS: 4, Adam: 25}[type(method)]
    grid = DirectSource(random_metric(6, 2.0), nodes(20)).grid(0, nodes(600))
    problem = BoundaryValueProblem.all_pairs(torch.tensor([-1.0, -0.3, 0.5, 1.0]).double())
    rows = rows_of(ClosedForm(grid), problem)
    found = shoot(*rows, method, RungeKutta(8), tolerance=1e-6, patience=2)
    assert found.converged.all()
    assert found.iterations.max() <= few


# stopping and counting


@dataclass(frozen=True)
class Counting:
    """A field that counts the positions asked of every row."""

    field: GridField
    index: torch.Tensor
    counts: torch.Tensor

    def __call__(self, positions):
        self.counts.index_add_(0, self.index, torch.full_like(self.index, positions.shape[1]))
        return self.field(positions)

    def __getitem__(self, rows):
        return Counting(self.field[rows], self.index[rows], self.counts)


@pytest.mark.parametrize("patience", [1, 2, 3])
def test_rows_stop_after_arriving_patiently_and_cost_no_more(patience):
    whole, start, end = rows_of(ClosedForm(GRID), PROBLEM)
    counts = torch.zeros(len(start), dtype=torch.int64)
    field = Counting(whole, torch.arange(len(start)), counts)
    how = {"tolerance": 1e-6, "patience": patience}
    found = shoot(field, start, end, Newton(), RungeKutta(25), **how)
    assert torch.equal(found.evaluations, counts)
    flat = whole.columns == 0  # constant: the guess is exact
    assert (found.iterations[flat] == patience - 1).all()
    assert (found.evaluations[flat] == 4 + patience * 102).all()
    assert found.iterations.max() >= patience


@dataclass(frozen=True)
class Jumping:
    """Leaves the target after the first shot, and comes back."""

    iterations: int = 6

    def __call__(self, state, miss, sensitivity, iteration):
        return torch.full_like(miss, {0: 0.1, 1: -0.1}.get(iteration, 0.0)), state


def test_only_successive_arrivals_count():
    field, how = FormulaField([constant(2.5)]), {"tolerance": 1e-6, "patience": 2}
    found = shoot(field, STATIONS[:1], STATIONS[2:3], Jumping(), RungeKutta(2), **how)
    assert found.iterations.tolist() == [3]


def test_a_budget_that_is_too_small_is_told_by_the_status():
    start, end = torch.tensor([[-0.8, -0.8], [0.8, 0.8]]).double()
    field = FormulaField([exponential(-1.9), exponential(0.1)])
    integrator, missed = RungeKutta(100), Status.RESIDUAL_ABOVE_TOLERANCE
    how = {"tolerance": 1e-7, "patience": 2}
    found = shoot(field, start, end, Adam(iterations=1), integrator, **how)
    assert found.status.tolist() == [missed, missed]
    found = shoot(field, start, end, Newton(iterations=1), integrator, **how)
    assert found.status.tolist() == [missed, Status.CONVERGED]
    assert found.iterations.tolist() == [1, 1]
    assert torch.equal(found.residual, integrator(field, start, found.v0).position - end)


# scipy, one row after the other


def test_the_residual_of_scipy_is_where_the_velocity_leads():
    known = [exponential(0.7), RECIPROCAL, exponential(-1.5)]
    start, end = torch.tensor([[-0.8, 0.7, -0.9], [0.9, -0.6, 0.4]]).double()
    found = solve_bvp_rows(FormulaField(known), start, end, tolerance=1e-3)
    reached = [
        metric.inverse(metric.arc_length(a) + v * metric.log_sqrt(a).exp()) - b
        for metric, a, b, v in zip(known, start, end, found.v0, strict=True)
    ]
    expected = torch.stack(reached)
    torch.testing.assert_close(found.residual, expected, rtol=0, atol=1e-10)
    assert expected.abs().max() >= 1e-9


def test_rows_that_scipy_does_not_solve_say_so(monkeypatch):
    monkeypatch.setattr(scipy_bvp, "LARGEST_MESH", 500)
    steep = FormulaField([exponential(30.0), exponential(0.7), KNOWN[4]])
    start, end = torch.tensor([[-0.8, 0.7, -0.9], [0.9, -0.6, 0.4]]).double()
    found = solve_bvp_rows(steep, start, end, tolerance=1e-6)
    assert found.status[0] != Status.CONVERGED
    assert (found.status[1:] == Status.CONVERGED).all()
    # a velocity that happens to do, of a collocation that was given up
    monkeypatch.setattr(scipy_bvp, "LARGEST_MESH", 11)
    found = solve_bvp_rows(steep[torch.tensor([1])], start[:1], end[:1], tolerance=1e-4)
    assert found.residual.abs() <= 1e-4
    assert found.status.tolist() == [Status.RESIDUAL_ABOVE_TOLERANCE]


def test_scipy_refuses_single_precision():
    message = r"geodesics\.method: found scipy for torch.float32 on cpu, .*set precision\.geometry"
    field = FormulaField(METRICS)
    with pytest.raises(GeometryError, match=message):
        inspect.unwrap(solve_bvp_rows)(
            field, STATIONS.float(), STATIONS.float().flip(0), tolerance=1e-4
        )
