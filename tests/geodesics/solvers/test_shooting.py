"""Where paths arrive, and how their first velocities are corrected."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from geonode.geodesics.problem import BoundaryValueProblem
from geonode.geodesics.solvers import shooting
from geonode.geodesics.solvers.closed_form import ClosedForm
from geonode.geodesics.solvers.methods import rows_of
from geonode.geodesics.solvers.shooting import arrive, shoot
from geonode.geometry.field import GridField, NetworkField
from tests.geodesics.fields import FormulaField
from tests.geometry.closed_forms import (
    RECIPROCAL,
    constant,
    exponential,
    grid_of,
    nodes,
    order,
    random_metric,
)

METRICS = (constant(2.5), exponential(0.7), exponential(-1.9), RECIPROCAL)
START = torch.tensor([-0.9, -0.5, -0.6, -0.3], dtype=torch.float64)
VELOCITY = torch.tensor([1.7, 1.2, 0.25, -0.6], dtype=torch.float64)


def exact(start=START, velocity=VELOCITY, metrics=METRICS):
    """x(1) and d x(1) / d v0 in closed form."""
    found = []
    for metric, x, v in zip(metrics, start, velocity, strict=True):
        root = metric.log_sqrt(x).exp()
        reached = metric.inverse(metric.arc_length(x) + v * root)
        found.append(torch.stack([reached, root / metric.log_sqrt(reached).exp()]))
    return torch.stack(found, dim=1)


def test_paths_arrive_where_the_closed_form_does_with_order_four():
    """The sensitivity too: it tells where neighbouring paths arrive."""
    steps, truth = [8, 16, 32], exact()
    found = [arrive(FormulaField(METRICS), START, VELOCITY, n) for n in steps]
    for row in (1, 2, 3):
        for one in (0, 1):
            errors = [float((arrival[one] - truth[one])[row].abs()) for arrival in found]
            assert abs(order([1 / n for n in steps], errors) - 4) <= 0.3


def test_a_network_against_scipy():
    field = NetworkField(random_metric(31, 3.0), torch.linspace(-1, 1, 7).double())
    start = torch.linspace(-0.95, 0.9, 7).double()
    velocity = 0.8 * (0.2 - start)

    def equation(t, state):
        x, v = state.reshape(2, -1)
        return np.concatenate([v, -field(torch.from_numpy(x)[:, None])[1][:, 0].numpy() * v**2])

    state = torch.cat([start, velocity]).numpy()
    path = solve_ivp(equation, (0, 1), state, method="DOP853", rtol=1e-11, atol=1e-11)
    found, _ = arrive(field, start, velocity, 50)
    np.testing.assert_allclose(found, path.y[:7, -1], rtol=0, atol=3e-6)


def test_a_path_that_does_not_stay_finite_leaves_the_others_alone():
    field, velocity = FormulaField(METRICS[1:]), torch.tensor([1.2, 2e3, -0.6]).double()
    reached, _ = arrive(field, START[1:], velocity, 50)
    others = torch.tensor([0, 2])
    truth = exact(START[1:][others], velocity[others], [METRICS[1], METRICS[3]])[0]
    torch.testing.assert_close(reached[others], truth, rtol=0, atol=1e-3)
    assert not reached[1].isfinite()


def test_every_row_of_a_network_arrives_in_few_iterations():
    grid_metric = random_metric(6, 2.0)
    field = NetworkField(grid_metric, torch.linspace(-1, 1, 12).double())
    ends = torch.tensor([-1.0, -0.3, 0.5, 1.0]).double()
    start, end = torch.cartesian_prod(ends, ends)[[1, 2, 3, 4, 6, 7, 8, 9, 11, 12, 13, 14]].T
    found = shoot(field, start, end, tolerance=1e-6, patience=2, steps=8)
    assert found.converged.all()
    assert found.iterations.max() <= 3


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


@pytest.mark.parametrize("patience", [1, 3])
@pytest.mark.parametrize("steps", [25, 49])
def test_rows_stop_after_arriving_patiently_and_cost_no_more(patience, steps):
    closed_form = ClosedForm(grid_of((*METRICS[:2], exponential(-1.0), RECIPROCAL), nodes(1000)))
    stations = torch.tensor([-0.9, -0.5, 0.1, 0.6]).double()
    whole, start, end = rows_of(closed_form, BoundaryValueProblem.all_pairs(stations))
    counts = torch.zeros(len(start), dtype=torch.int64)
    field = Counting(whole, torch.arange(len(start)), counts)
    found = shoot(field, start, end, tolerance=1e-6, patience=patience, steps=steps)
    assert torch.equal(found.evaluations, counts)
    flat = whole.columns == 0  # constant: the guess is exact
    assert (found.iterations[flat] == patience - 1).all()
    assert (found.evaluations[flat] == 4 + patience * (4 * steps + 2)).all()
    assert found.iterations.max() >= patience


def test_only_successive_arrivals_count(monkeypatch):
    """Of a path that leaves the target after the first shot, and comes back."""
    misses = iter([0.0, 0.1, 0.0, 0.0])
    monkeypatch.setattr(
        shooting, "arrive", lambda field, start, v0, steps: (start + next(misses), 1 + 0 * start)
    )
    at = START[:1]
    found = shoot(FormulaField(METRICS[:1]), at, at, tolerance=1e-6, patience=2, steps=2)
    assert found.iterations.tolist() == [3]


def test_a_budget_that_is_too_small_is_told(monkeypatch):
    start, end = torch.tensor([[-0.8, -0.8], [0.8, 0.8]]).double()
    field = FormulaField([exponential(-1.9), exponential(0.1)])
    monkeypatch.setattr(shooting, "CORRECTIONS", 1)
    found = shoot(field, start, end, tolerance=1e-7, patience=2, steps=100)
    assert found.converged.tolist() == [False, True]
    assert found.iterations.tolist() == [1, 1]
    assert torch.equal(found.residual, arrive(field, start, found.v0, 100)[0] - end)
