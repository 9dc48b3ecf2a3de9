from functools import partial

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from geonode.geometry.field import Field
from geonode.geometry.solvers.initial_value import dormand_prince, runge_kutta
from tests.geometry.closed_forms import (
    RECIPROCAL,
    constant,
    exponential,
    field_of,
    grid_of,
    nodes,
    order,
    random_metric,
)

METRICS = (constant(2.5), exponential(0.7), exponential(-1.9), RECIPROCAL)
START = torch.tensor([-0.9, -0.5, -0.6, -0.3], dtype=torch.float64)
VELOCITY = torch.tensor([1.7, 1.2, 0.25, -0.6], dtype=torch.float64)
GRID = grid_of(METRICS, nodes(2000))


def rk4(steps):
    return partial(runge_kutta, steps=steps)


def dopri5(tolerance):
    return partial(dormand_prince, tolerance=tolerance)


BOTH = pytest.mark.parametrize("integrator", [rk4(50), dopri5(1e-7)])


def exact(start=START, velocity=VELOCITY, metrics=METRICS):
    """x(1) and d x(1) / d v0 in closed form."""
    found = []
    for metric, x, v in zip(metrics, start, velocity, strict=True):
        root = metric.log_sqrt(x).exp()
        reached = metric.inverse(metric.arc_length(x) + v * root)
        found.append(torch.stack([reached, root / metric.log_sqrt(reached).exp()]))
    return torch.stack(found, dim=1)


def largest(tensor):
    return float(tensor.abs().max())


@BOTH
@pytest.mark.parametrize("field", [field_of(METRICS), Field(GRID.lookup, torch.arange(4))])
def test_paths_arrive_where_the_closed_form_does_and_so_do_their_neighbours(integrator, field):
    arrival = integrator(field, START, VELOCITY)
    position, sensitivity = exact()
    assert largest(arrival.position - position) <= 1e-6
    assert largest(arrival.sensitivity / sensitivity - 1) <= 1e-5


@BOTH
def test_a_network_against_scipy(integrator):
    field = Field(random_metric(31, 3.0).at_rows, torch.linspace(-1, 1, 7).double())
    start = torch.linspace(-0.95, 0.9, 7).double()
    velocity = 0.8 * (0.2 - start)

    def equation(t, state):
        x, v = state.reshape(2, -1)
        return np.concatenate([v, -field(torch.from_numpy(x)[:, None])[1][:, 0].numpy() * v**2])

    state = torch.cat([start, velocity]).numpy()
    path = solve_ivp(equation, (0, 1), state, method="DOP853", rtol=1e-11, atol=1e-11)
    found = integrator(field, start, velocity).position
    np.testing.assert_allclose(found, path.y[:7, -1], rtol=0, atol=3e-6)


def test_rk4_is_of_order_four_in_as_many_steps_as_it_is_told():
    steps, truth = [8, 16, 32], exact()[0]
    arrivals = [rk4(n)(field_of(METRICS), START, VELOCITY) for n in steps]
    for row in (1, 2, 3):
        errors = [float((arrival.position - truth)[row].abs()) for arrival in arrivals]
        assert abs(order([1 / n for n in steps], errors) - 4) <= 0.3
    for count in (1, 49, 50, 93):
        arrival = rk4(count)(field_of(METRICS), START, VELOCITY)
        assert (arrival.evaluations == 4 * count + 2).all()


def test_easy_rows_do_not_hide_a_hard_one():
    """Steps that are chosen by the mean of all errors end 2e-5 away."""
    rows, hard = 2_000, 777
    column = torch.zeros(rows, dtype=torch.int64)
    column[hard] = 2
    field = Field(GRID.lookup, column)
    start, velocity = torch.full((rows,), -0.9).double(), torch.full((rows,), 0.1).double()
    velocity[hard] = 0.4
    truth = exact(start[[hard]], velocity[[hard]], METRICS[2:3])[0]
    found = dopri5(1e-6)(field, start, velocity).position[hard]
    assert largest(found - truth) <= 2e-6


@pytest.mark.parametrize("integrator", [rk4(50), dopri5(1e-4)])
def test_a_path_that_does_not_stay_finite_leaves_the_others_alone(integrator):
    field = field_of([METRICS[1], METRICS[2], METRICS[3]])
    start, velocity = START[1:], torch.tensor([1.2, 2e3, -0.6]).double()
    arrival = integrator(field, start, velocity)
    others = torch.tensor([0, 2])
    truth = exact(start[others], velocity[others], [METRICS[1], METRICS[3]])[0]
    assert largest(arrival.position[others] - truth) <= 1e-3
    assert not arrival.position[1].isfinite()
