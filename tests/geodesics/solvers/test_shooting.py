import inspect
from dataclasses import dataclass, replace

import pytest
import torch
from scipy.optimize import root_scalar

from geonode.errors import GeometryError
from geonode.geodesics.solution import Solution, Status
from geonode.geodesics.solvers.adam import Adam
from geonode.geodesics.solvers.initial_value import DormandPrince, RungeKutta
from geonode.geodesics.solvers.lbfgs import LBFGS
from geonode.geodesics.solvers.newton import Newton
from geonode.geodesics.solvers.scipy_bvp import solve_bvp_rows
from geonode.geodesics.solvers.shooting import ShootingMethod, shoot
from geonode.geometry.field import GridField, NetworkField
from geonode.geometry.grid import Grid
from tests.geodesics.fields import FormulaField
from tests.geometry.closed_forms import KNOWN, exponential, grid_of, nodes, random_metric
from tests.geometry.precision import NoFloat64

METHODS = (Newton(), LBFGS(), Adam())
STATIONS = torch.tensor([-0.5, 0.1, 0.6], dtype=torch.float64)
GRID = grid_of(KNOWN, nodes(2000))
PARTS = ("v0", "residual", "status", "iterations", "evaluations")

each_method = pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)


def all_rows():
    """Column, start and end of every pair of stations on every metric."""
    pair = [(i, j) for i in range(3) for j in range(3) if i != j]
    index = torch.tensor([(k, *ends) for k in range(len(KNOWN)) for ends in pair])
    return index[:, 0], STATIONS[index[:, 1]], STATIONS[index[:, 2]]


def exact(known, start, end):
    """Velocities in closed form."""
    rows = zip(known, start[:, None], end[:, None], strict=True)
    v0 = [(m.arc_length(b) - m.arc_length(a)) / m.log_sqrt(a).exp() for m, a, b in rows]
    return torch.cat(v0)


def network_grid(seed, gain, wavelengths, resolution=600):
    x, w = nodes(resolution), torch.linspace(-1, 1, wavelengths).double()
    log_sqrt, symbol = random_metric(seed, gain).with_symbol(x[None], w)
    return Grid(x, log_sqrt[0], symbol[0])


def rows_of(solution, some):
    return Solution(*(getattr(solution, name)[some] for name in PARTS))


def assert_same_bits(found, expected):
    for name in PARTS:
        a, b = getattr(found, name), getattr(expected, name)
        assert torch.equal(a.nan_to_num(7e7), b.nan_to_num(7e7)), name


@each_method
@pytest.mark.parametrize("of", ["grid", "formula"])
def test_velocities_are_those_of_the_closed_form(method, of):
    assert isinstance(method, ShootingMethod)
    column, start, end = all_rows()
    if of == "formula":  # slower: one pair of each
        column, start, end = column[2::6], start[2::6], end[2::6]
    known = [KNOWN[k] for k in column]
    field = FormulaField(known) if of == "formula" else GridField(GRID, column)
    found = shoot(field, start, end, method, RungeKutta(70), tolerance=1e-6)
    assert found.converged.all()
    assert (found.v0 - exact(known, start, end)).abs().max() <= 1e-5
    reached = DormandPrince(1e-8)(field, start, found.v0).position
    assert (reached - end).abs().max() <= 1e-5
    assert found.residual.abs().max() <= 1e-6


def test_all_methods_and_scipy_agree_on_a_network():
    field = NetworkField(random_metric(8, 2.0), torch.linspace(-0.9, 0.9, 3).double())
    start, end = STATIONS[[0, 2, 1]], STATIONS[[2, 0, 0]]
    judge = solve_bvp_rows(field, start, end, tolerance=1e-8)
    assert judge.converged.all()
    for method in METHODS:
        found = shoot(field, start, end, method, RungeKutta(12), tolerance=1e-6)
        assert found.converged.all()
        assert (found.v0 - judge.v0).abs().max() <= 1e-5


@each_method
@pytest.mark.parametrize("gain", [1.0, 2.0])
def test_every_row_of_a_network_arrives_in_few_iterations(method, gain):
    few = {Newton: 3, LBFGS: 4, Adam: 25}[type(method)]
    pairs = [(a, b) for a in (-1.0, -0.3, 0.5, 1.0) for b in (-1.0, -0.3, 0.5, 1.0) if a != b]
    start, end = torch.tensor(pairs).double().repeat_interleave(40, dim=0).T
    field = GridField(network_grid(6, gain, 40), torch.arange(40).repeat(len(pairs)))
    found = shoot(field, start, end, method, RungeKutta(10), tolerance=1e-6)
    assert found.converged.all()
    assert found.iterations.max() <= few


def test_the_sensitivity_of_the_adjoint_leads_to_the_same_velocities():
    column, start, end = all_rows()
    found = shoot(
        GridField(GRID, column), start, end, Newton(), DormandPrince(1e-7), tolerance=1e-6
    )
    assert found.converged.all()
    assert (found.v0 - exact([KNOWN[k] for k in column], start, end)).abs().max() <= 1e-5
    assert (found.iterations <= 3).all()


@dataclass(frozen=True)
class Nudge:
    """Adds the same to every velocity, and writes down what it is shown."""

    seen: list
    iterations: int = 1
    by: float = 1e-5

    def begin(self, distance):
        return ()

    def change(self, state, miss, sensitivity, iteration):
        self.seen.append((miss, sensitivity))
        return torch.full_like(miss, self.by), state


def test_the_sensitivity_is_the_slope_of_the_miss():
    column, start, end = all_rows()
    seen = []
    integrator = RungeKutta(200)
    after = shoot(
        GridField(GRID, column), start, end, Nudge(seen), integrator, tolerance=1e-12
    ).residual
    ((miss, sensitivity),) = seen
    torch.testing.assert_close((after - miss) / Nudge.by, sensitivity, rtol=1e-3, atol=0)


# methods against others, on a miss that is no path: r(v) = v + v^3 - 1.2


def followed(method, v=0.9, distance=1.0, slope=1.0):
    """Velocities that a method tries, the first given."""
    v, tried = torch.tensor([v], dtype=torch.float64), []
    state = method.begin(torch.tensor([distance], dtype=torch.float64))
    for iteration in range(method.iterations):
        tried.append(float(v))
        miss, sensitivity = slope * (v + v**3 - 1.2), slope * (1 + 3 * v**2)
        change, state = method.change(state, miss, sensitivity, iteration)
        v = v + change
    return tried


def test_newton_is_that_of_scipy():
    tried = []

    def miss(v):
        tried.append(v)
        return v + v**3 - 1.2

    root_scalar(miss, x0=0.9, fprime=lambda v: 1 + 3 * v**2, method="newton", maxiter=5, xtol=1e-15)
    assert followed(Newton())[:5] == pytest.approx(tried[:5], rel=1e-14)


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
    state = method.begin(0.2 * one)
    step, state = method.change(state, 3 * one, one, 0)
    assert float(step) == -0.1
    assert float(method.change(state, 4 * one, one, 1)[0]) == -0.1
    state = method.begin(100 * one)
    step, state = method.change(state, 3 * one, one, 0)
    assert float(step) == -3.0
    assert float(method.change(state, one, one, 1)[0]) == -1.5
    # uphill by a step that led downhill: the curvature before is kept
    assert float(method.change(state, 4 * one, one, 1)[0]) == -4.0


@pytest.mark.parametrize("slope", [0.2, 1.0])
def test_adam_is_that_of_torch(slope):
    method = Adam(iterations=30, largest=100.0)
    distance, tried = 1.5, []
    unit = distance / max(1.0, slope * (1 + 3 * 0.9**2))
    parameter = torch.tensor([0.9 / unit], dtype=torch.float64).requires_grad_()
    adam = torch.optim.Adam(
        [parameter], 0.05, (method.first_decay, method.second_decay), eps=1e-300
    )
    decay = (method.last_rate / method.first_rate) ** (1 / 29)
    schedule = torch.optim.lr_scheduler.ExponentialLR(adam, decay)
    for _ in range(30):
        tried.append(float(parameter.detach()) * unit)
        adam.zero_grad()
        v = parameter * unit
        (((slope * (v + v**3 - 1.2)) / distance) ** 2 / 2).sum().backward()
        adam.step()
        schedule.step()
    assert followed(method, distance=-distance, slope=slope) == pytest.approx(tried, rel=1e-9)


# rows on their own


@each_method
def test_no_row_knows_of_another(method):
    column, start, end = all_rows()
    arguments = {"method": method, "integrator": RungeKutta(4), "tolerance": 1e-4}
    whole = shoot(GridField(GRID, column), start, end, **arguments)
    assert len(whole.iterations.unique()) > 1
    order = torch.randperm(len(start), generator=torch.Generator().manual_seed(4))
    for some in (order, order[:17], order[5:6]):
        part = shoot(GridField(GRID, column[some]), start[some], end[some], **arguments)
        assert_same_bits(part, rows_of(whole, some))


@each_method
def test_rows_that_are_not_finite_do_not_disturb_the_others(method):
    column, start, end = all_rows()
    arguments = {"integrator": RungeKutta(8), "tolerance": 1e-6}
    method = replace(method, iterations=min(method.iterations, 8))
    alone = shoot(GridField(GRID, column), start, end, method, **arguments)
    bad = GRID.log_sqrt.clone(), GRID.symbol.clone()
    bad[0][:, 3], bad[1][:, 3] = torch.nan, torch.inf
    found = shoot(GridField(Grid(GRID.positions, *bad), column), start, end, method, **arguments)
    good = column != 3
    assert_same_bits(*(rows_of(solution, good) for solution in (found, alone)))
    assert (found.status[~good] == Status.NOT_FINITE).all()
    assert (found.iterations[~good] == 0).all()


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

    @property
    def rows(self):
        return len(self.index)


@pytest.mark.parametrize("patience", [1, 2, 3])
def test_rows_stop_after_arriving_patiently_and_cost_no_more(patience):
    column, start, end = all_rows()
    counts = torch.zeros(len(column), dtype=torch.int64)
    field = Counting(GridField(GRID, column), torch.arange(len(column)), counts)
    found = shoot(field, start, end, Newton(), RungeKutta(25), tolerance=1e-6, patience=patience)
    assert torch.equal(found.evaluations, counts)
    assert (found.iterations[column == 3] == patience - 1).all()  # constant: the guess is exact
    assert (found.evaluations[column == 3] == 4 + patience * 102).all()
    assert found.iterations.max() >= patience


@dataclass(frozen=True)
class Jumping(Nudge):
    """Leaves the target after the first shot, and comes back."""

    iterations: int = 6

    def change(self, state, miss, sensitivity, iteration):
        return torch.full_like(miss, {0: 0.1, 1: -0.1}.get(iteration, 0.0)), state


def test_only_successive_arrivals_count():
    start, end = STATIONS[:1], STATIONS[2:]
    found = shoot(FormulaField(KNOWN[3:4]), start, end, Jumping([]), RungeKutta(2), tolerance=1e-6)
    assert found.iterations.tolist() == [3]


def test_a_budget_that_is_too_small_is_told_by_the_status():
    start, end = torch.tensor([[-0.8, -0.8], [0.8, 0.8]]).double()
    field = FormulaField([exponential(-1.9), exponential(0.1)])
    integrator = RungeKutta(100)
    found = shoot(field, start, end, Adam(iterations=1), integrator, tolerance=1e-9)
    assert found.status.tolist() == [
        Status.RESIDUAL_ABOVE_TOLERANCE,
        Status.RESIDUAL_ABOVE_TOLERANCE,
    ]
    found = shoot(field, start, end, Newton(iterations=1), integrator, tolerance=1e-7)
    assert found.status.tolist() == [Status.RESIDUAL_ABOVE_TOLERANCE, Status.CONVERGED]
    assert found.iterations.tolist() == [1, 1]
    assert torch.equal(found.residual, integrator(field, start, found.v0).position - end)


@each_method
def test_single_precision_alone(method):
    grid = network_grid(3, 1.0, 4).to(torch.empty(0))
    start, end = STATIONS.float()[[0, 2, 1, 1]], STATIONS.float()[[2, 0, 0, 2]]
    with NoFloat64():
        found = shoot(
            GridField(grid, torch.arange(4)), start, end, method, RungeKutta(10), tolerance=1e-6
        )
    assert found.converged.all()
    wide = network_grid(3, 1.0, 4)
    judge = solve_bvp_rows(
        GridField(wide, torch.arange(4)), start.double(), end.double(), tolerance=1e-7
    )
    assert found.v0.dtype == torch.float32
    assert (found.v0 - judge.v0).abs().max() <= 1e-5


BAD = {
    "rows of end": ({"end": STATIONS[:2]}, r"end: found \(\(2,\).*expected \(\(3,\).* like start"),
    "rows of field": (
        {"field": FormulaField(KNOWN[:2])},
        r"field: found 2 rows, expected the 3 of start",
    ),
    "start": ({"start": STATIONS - 1}, r"start: found -1.5 in row 0, expected .*from -1 to 1"),
    "end": ({"end": STATIONS + 0.75}, r"end: found 1.35 in row 2, expected .*from -1 to 1"),
    "format": ({"end": -STATIONS.float()}, r"end: found .*float32.*expected .*float64"),
    "equal": ({"end": STATIONS.flip(0)}, r"end: found 0.1 in row 1, where the path starts"),
    "tolerance": ({"tolerance": 0.0}, r"tolerance: found 0.0, expected a number above 0"),
    "patience": ({"patience": 0}, r"patience: found 0, expected a number above 0"),
}


@pytest.mark.parametrize("bad", BAD)
def test_bad_arguments_are_refused(bad):
    arguments, message = BAD[bad]
    good = {"field": FormulaField(KNOWN[:3]), "start": STATIONS, "end": -STATIONS}
    good |= {"method": Newton(), "integrator": RungeKutta(9), "tolerance": 1e-6}
    with pytest.raises(GeometryError, match=message):
        inspect.unwrap(shoot)(**(good | arguments))
