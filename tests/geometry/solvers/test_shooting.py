"""How first velocities are corrected."""

from dataclasses import dataclass

import pytest
import torch

from geonode.geometry.field import GridField
from geonode.geometry.problem import BoundaryValueProblem
from geonode.geometry.solvers import shooting
from geonode.geometry.solvers.closed_form import ClosedForm
from geonode.geometry.solvers.initial_value import Arrival, RungeKutta
from geonode.geometry.solvers.methods import rows_of
from geonode.geometry.solvers.shooting import shoot
from tests.geometry.closed_forms import RECIPROCAL, FormulaField, exponential, grid_of, nodes
from tests.geometry.solvers.test_initial_value import METRICS, START


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


@pytest.mark.parametrize("steps", [25, 49])
def test_rows_stop_after_arriving_twice_and_cost_no_more(steps):
    closed_form = ClosedForm(grid_of((*METRICS[:2], exponential(-1.0), RECIPROCAL), nodes(1000)))
    stations = torch.tensor([-0.9, -0.5, 0.1, 0.6]).double()
    whole, start, end = rows_of(closed_form, BoundaryValueProblem.all_pairs(stations))
    counts = torch.zeros(len(start), dtype=torch.int64)
    field = Counting(whole, torch.arange(len(start)), counts)
    found = shoot(field, start, end, RungeKutta(steps), 1e-6)
    assert torch.equal(found.evaluations, counts)
    flat = whole.columns == 0  # constant: the guess is exact
    assert (found.iterations[flat] == 1).all()
    assert (found.evaluations[flat] == 4 + 2 * (4 * steps + 2)).all()
    assert found.iterations.max() >= 2


def test_only_successive_arrivals_count():
    """Of a path that leaves the target after the first shot, and comes back."""
    misses = iter([0.0, 0.1, 0.0, 0.0])

    def integrator(field, start, velocity):
        return Arrival(start + next(misses), torch.ones_like(start), torch.ones(1).long())

    at = START[:1]
    found = shoot(FormulaField(METRICS[:1]), at, at, integrator, 1e-6)
    assert found.iterations.tolist() == [3]


def test_a_budget_that_is_too_small_is_told(monkeypatch):
    start, end = torch.tensor([[-0.8, -0.8], [0.8, 0.8]]).double()
    field = FormulaField([exponential(-1.9), exponential(0.1)])
    monkeypatch.setattr(shooting, "CORRECTIONS", 1)
    found = shoot(field, start, end, RungeKutta(100), 1e-7)
    assert found.converged.tolist() == [False, True]
    assert found.iterations.tolist() == [1, 1]
    assert torch.equal(found.residual, RungeKutta(100)(field, start, found.v0).position - end)
