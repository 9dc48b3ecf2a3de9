"""How first velocities are corrected."""

import pytest
import torch

from geonode.geometry.field import Field
from geonode.geometry.solvers import shooting
from geonode.geometry.solvers.initial_value import Arrival
from geonode.geometry.solvers.shooting import shoot
from tests.geometry.closed_forms import RECIPROCAL, exponential, field_of
from tests.geometry.solvers.test_initial_value import METRICS, START, rk4


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


def test_a_budget_that_is_too_small_is_told(monkeypatch):
    start, end = torch.tensor([[-0.8, -0.8], [0.8, 0.8]]).double()
    field = field_of([exponential(-1.9), exponential(0.1)])
    monkeypatch.setattr(shooting, "CORRECTIONS", 1)
    found = shoot(field, start, end, rk4(100), 1e-7)
    assert found.converged.tolist() == [False, True]
    assert found.evaluations.tolist() == [4 + 2 * 402] * 2
    assert torch.equal(found.residual, rk4(100)(field, start, found.v0).position - end)
