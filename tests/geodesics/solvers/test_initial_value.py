import inspect

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from geonode.errors import GeometryError
from geonode.geodesics.quadrature import initial_value_positions
from geonode.geodesics.solvers import initial_value
from geonode.geodesics.solvers.initial_value import INTEGRATORS, final_positions, integrate
from geonode.geometry.field import GridField, NetworkField
from geonode.geometry.metric import Metric
from tests.geodesics.fields import FormulaField
from tests.geometry.closed_forms import (
    RECIPROCAL,
    constant,
    exponential,
    grid_of,
    nodes,
    order,
    random_metric,
    with_gradients,
)
from tests.geometry.precision import NoFloat64

METRICS = (constant(2.5), exponential(0.7), exponential(-1.9), RECIPROCAL)
START = torch.tensor([-0.9, -0.5, -0.6, -0.3], dtype=torch.float64)
VELOCITY = torch.tensor([1.7, 1.2, 0.25, -0.6], dtype=torch.float64)
TIMES = torch.linspace(0, 1, 8).double()
GRID = grid_of(METRICS, nodes(2000))


def exact(start=START, velocity=VELOCITY, times=TIMES, metrics=METRICS):
    """Positions and velocities in closed form."""
    speed = torch.stack([m.log_sqrt(x) for m, x in zip(metrics, start, strict=True)]).exp()
    rows = zip(metrics, start, speed * velocity, strict=True)
    x = torch.stack([m.inverse(m.arc_length(x0) + times * s) for m, x0, s in rows])
    root = torch.stack([m.log_sqrt(row) for m, row in zip(metrics, x, strict=True)]).exp()
    return x, (speed * velocity)[:, None] / root


def network_rows(gain, rows=7):
    field = NetworkField(random_metric(31, gain), torch.linspace(-1, 1, rows).double())
    start = torch.linspace(-0.95, 0.9, rows).double()
    return field, start, 0.8 * (0.2 - start)


def largest(tensor):
    return float(tensor.abs().max())


@pytest.mark.parametrize(
    ("options", "tolerance"),
    [
        ({"rtol": 1e-9, "atol": 1e-11}, 1e-8),
        ({"method": "rk4", "steps": 100}, 2e-7),
    ],
    ids=["dopri5", "rk4"],
)
@pytest.mark.parametrize("times", [TIMES, TIMES[[0, -1]], TIMES[:3] * 2], ids=len)
def test_paths_are_those_of_the_closed_form(options, tolerance, times):
    path = integrate(FormulaField(METRICS), START, VELOCITY, times, **options)
    positions, velocities = exact(times=times)
    assert largest(path.positions - positions) <= tolerance
    assert largest(path.velocities / velocities - 1) <= 10 * tolerance


@pytest.mark.parametrize("gain", [1.0, 3.0])
def test_a_network_against_scipy(gain):
    field, start, velocity = network_rows(gain, 4)
    path = integrate(field, start, velocity, TIMES, rtol=1e-9, atol=1e-11)

    def equation(time, state, w):
        x = torch.tensor([[state[0]]], dtype=torch.float64, requires_grad=True)
        (symbol,) = torch.autograd.grad(field.metric.log_sqrt_at(x, w.reshape(1, 1)).sum(), x)
        return [state[1], -float(symbol) * state[1] ** 2]

    for row, w in enumerate(field.wavelengths):
        first = [float(start[row]), float(velocity[row])]
        judge = solve_ivp(
            equation, (0, 1), first, "DOP853", TIMES.numpy(), args=(w,), rtol=1e-12, atol=1e-12
        )
        found = torch.stack([path.positions[row], path.velocities[row]]).numpy()
        np.testing.assert_allclose(found, judge.y, rtol=0, atol=1e-8)


@pytest.mark.parametrize("row", [1, 2, 3])
@pytest.mark.parametrize("times", [[0.0, 1.0], [0.0, 0.37, 0.81, 1.0]], ids=len)
def test_rk4_is_of_order_four(row, times):
    steps, errors = (10, 20, 40, 80), []
    rows, times = slice(row, row + 1), torch.tensor(times).double()
    positions, _ = exact(START[rows], VELOCITY[rows], times, METRICS[rows])
    for count in steps:
        path = integrate(
            FormulaField(METRICS[rows]),
            START[rows],
            VELOCITY[rows],
            times,
            method="rk4",
            steps=count,
        )
        errors.append(largest(path.positions - positions))
    assert abs(order([1 / count for count in steps], errors) - 4) <= 0.3


@pytest.mark.parametrize("steps", [1, 49, 50, 93])
def test_rk4_takes_as_many_steps_as_it_is_told(steps):
    arguments = FormulaField(METRICS), START, VELOCITY
    path = integrate(*arguments, TIMES[[0, -1]], method="rk4", steps=steps)
    assert path.evaluations == 4 * steps
    assert torch.equal(final_positions(*arguments, steps), path.positions[:, 1])


@pytest.mark.parametrize("gain", [None, 1.0, 2.0, 4.0])
def test_dopri5_conserves_speed(gain):
    field, start, velocity = FormulaField(METRICS), START, VELOCITY
    if gain:
        field, start, velocity = network_rows(gain)
    times = torch.linspace(0, 1, 41).double()
    path = integrate(field, start, velocity, times, rtol=1e-6, atol=1e-8)
    speed = field(path.positions)[0].exp() * path.velocities
    assert largest(speed / speed[:, :1] - 1) <= 1e-5


def test_easy_rows_do_not_hide_a_hard_one(monkeypatch):
    rows, hard = 18_030, 7_777
    column = torch.zeros(rows, dtype=torch.int64)
    column[hard] = 2
    field = GridField(GRID, column)
    start, velocity = torch.full((rows,), -0.9).double(), torch.full((rows,), 0.1).double()
    velocity[hard] = 0.4
    times = TIMES[[0, -1]]
    truth, _ = exact(start[[hard]], velocity[[hard]], times, METRICS[2:3])

    def error():
        path = integrate(field, start, velocity, times, rtol=1e-5, atol=1e-7)
        return largest(path.positions[hard] - truth)

    worst = error()
    assert worst <= 1e-5
    monkeypatch.setattr(initial_value, "_largest", lambda errors: errors.square().mean().sqrt())
    assert error() >= 100 * worst


def test_rows_by_rk4_are_on_their_own_and_by_dopri5_within_the_tolerance():
    generator = torch.Generator().manual_seed(1)
    rows = 301
    field = GridField(GRID, torch.randint(4, (rows,), generator=generator))
    start = torch.rand(rows, generator=generator).double() - 0.5
    velocity = 0.5 * torch.rand(rows, generator=generator).double()
    whole = {m: integrate(field, start, velocity, TIMES, method=m) for m in INTEGRATORS}
    order_ = torch.randperm(rows, generator=generator)
    for some in (order_, order_[:16], order_[40:57], order_[:1]):
        part = {
            m: integrate(field[some], start[some], velocity[some], TIMES, method=m)
            for m in INTEGRATORS
        }
        for name in ("positions", "velocities"):
            parts = {m: (getattr(part[m], name), getattr(whole[m], name)[some]) for m in part}
            assert torch.equal(*parts["rk4"])
            torch.testing.assert_close(*parts["dopri5"], rtol=1e-4, atol=1e-6)


def leaves_of_network(gain):
    """Three rows of a network, and what gradients are taken with respect to."""
    network = with_gradients(random_metric(5, gain).network)
    field = NetworkField(Metric(network), torch.linspace(-1, 1, 3).double())
    _, start, velocity = network_rows(gain, 3)
    rows = field, start.requires_grad_(), velocity.requires_grad_()
    return rows, (*rows[1:], *field.parameters)


def gradients(gain, adjoint, weights):
    (field, start, velocity), leaves = leaves_of_network(gain)

    def loss():
        path = integrate(field, start, velocity, TIMES[::3], rtol=1e-9, atol=1e-11, adjoint=adjoint)
        return (weights[0] * path.positions + weights[1] * path.velocities).sum()

    return leaves, loss


@pytest.mark.parametrize("gain", [pytest.param(1.0, marks=pytest.mark.slow), 2.0])
def test_gradients_by_adjoint_by_backpropagation_and_by_differences_agree(gain):
    weights = torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(2)).double()
    (leaves, loss), (again, adjoint) = (gradients(gain, way, weights) for way in (False, True))
    plain = torch.autograd.grad(loss(), leaves)
    for found, expected in zip(torch.autograd.grad(adjoint(), again), plain, strict=True):
        assert largest(found - expected) <= 1e-6 * largest(expected)
    generator = torch.Generator().manual_seed(3)
    for leaf, gradient in zip(leaves, plain, strict=True):
        towards = torch.randn(leaf.shape, generator=generator).double()
        towards /= towards.norm()
        losses = []
        with torch.no_grad():
            for change in (1e-4, -2e-4, 1e-4):
                leaf.add_(change * towards)
                losses.append(loss())
        slope = float((losses[0] - losses[1]) / 2e-4)
        assert slope == pytest.approx(float((gradient * towards).sum()), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize(
    ("options", "adjoint"),
    [({"rtol": 1e-10, "atol": 1e-12}, False), ({"method": "rk4"}, True)],
)
def test_gradients_through_integrators_are_those_of_the_closed_form(options, adjoint):
    (field, start, velocity), leaves = leaves_of_network(1.5)
    weights = torch.randn(3, 2, generator=torch.Generator().manual_seed(4)).double()
    times = TIMES[::3]
    path = integrate(field, start, velocity, times, adjoint=adjoint, **options).positions
    closed_form = initial_value_positions(field, start, velocity, times)
    found, expected = (
        torch.autograd.grad((weights * positions[:, 1:]).sum(), leaves)
        for positions in (path, closed_form)
    )
    for one, other in zip(found, expected, strict=True):
        assert largest(one - other) <= 1e-6 * largest(other)


def test_gradients_by_adjoint_of_a_field_without_parameters():
    found = []
    for adjoint in (False, True):
        velocity = VELOCITY.clone().requires_grad_()
        path = integrate(FormulaField(METRICS), START, velocity, TIMES, rtol=1e-9, adjoint=adjoint)
        found.append(torch.autograd.grad(path.positions[:, -1].sum(), velocity)[0])
    positions, _ = exact(times=TIMES[-1:])
    log_sqrt = FormulaField(METRICS)(torch.stack([START, positions[:, 0]], dim=1))[0]
    for gradient in found:  # dx(1)/dv0 = sqrt(g(x(0)) / g(x(1)))
        torch.testing.assert_close(
            gradient, (log_sqrt[:, 0] - log_sqrt[:, 1]).exp(), rtol=1e-6, atol=0
        )


@pytest.mark.parametrize("method", INTEGRATORS)
def test_single_precision_alone(method):
    field = GridField(GRID.to(torch.empty(0)), torch.arange(4))
    arguments = [part.float() for part in (START, VELOCITY, TIMES)]
    with NoFloat64():
        path = integrate(field, *arguments, method=method)
    positions, velocities = exact()
    assert path.positions.dtype == path.velocities.dtype == torch.float32
    assert largest(path.positions - positions) <= 1e-4
    assert largest(path.velocities / velocities - 1) <= 1e-3


def test_a_path_that_does_not_stay_finite():
    field = GridField(GRID, torch.tensor([1, 2, 3]))
    start, velocity = START[1:], torch.tensor([1.2, 2e3, -0.6]).double()
    with pytest.raises(GeometryError, match=r"velocity: .* dopri5 .*expected paths that stay fin"):
        integrate(FormulaField(METRICS[2:3]), start[1:2], velocity[1:2], TIMES)
    path = integrate(field, start, velocity, TIMES, method="rk4")
    others = torch.tensor([0, 2])
    alone = integrate(field[others], start[others], velocity[others], TIMES, method="rk4")
    assert torch.equal(path.positions[others], alone.positions)
    assert not path.positions[1].isfinite().all()


NAN = torch.tensor([0.0, torch.nan, 0.0, 0.0]).double()
BAD = {
    "start off the chart": ({"start": START - 0.35}, r"start: found -1.25 in row 0, .*-1 to 1"),
    "start not a number": ({"start": START + NAN}, r"start: found nan in row 1"),
    "no rows": (
        {"field": FormulaField([]), "start": START[:0]},
        r"start: found no rows, expected at least one",
    ),
    "rows of velocity": (
        {"velocity": VELOCITY[:3]},
        r"velocity: found \(\(3,\).*expected \(\(4,\)",
    ),
    "format of velocity": ({"velocity": VELOCITY.float()}, r"velocity: found .*float32.*float64"),
    "format of times": ({"times": TIMES.float()}, r"times: found .*float32.*float64"),
    "velocity not a number": ({"velocity": VELOCITY + NAN}, r"velocity: found nan in row 1"),
    "one time": ({"times": TIMES[:1]}, r"times: found \[0.0\], expected two or more"),
    "descending times": ({"times": TIMES.flip(0)}, r"times: found \[1.0, .*ascending"),
    "repeated times": ({"times": TIMES[[0, 1, 1]]}, r"times: found .*ascending"),
    "rtol": ({"rtol": 0.0}, r"rtol: found 0.0, expected a number above 0"),
    "atol": ({"atol": float("nan")}, r"atol: found nan, expected a number above 0"),
    "steps": ({"steps": 0}, r"steps: found 0, expected a number above 0"),
    "more rows in the field": (
        {"field": FormulaField(METRICS * 2)},
        r"field: found 8 rows, expected the 4 of start",
    ),
}


@pytest.mark.parametrize("bad", BAD)
def test_bad_arguments_are_refused(bad):
    arguments, message = BAD[bad]
    good = {"field": FormulaField(METRICS), "start": START, "velocity": VELOCITY, "times": TIMES}
    with pytest.raises(GeometryError, match=message):
        inspect.unwrap(integrate)(**(good | arguments))


def test_an_unknown_method_is_refused():
    with pytest.raises(GeometryError, match=r"method: found 'euler', expected one of dopri5, rk4"):
        integrate(FormulaField(METRICS), START, VELOCITY, TIMES, method="euler")
