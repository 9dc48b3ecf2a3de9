import numpy as np
import pytest
import torch

from geonode.compute.threads import one_thread
from research import published_method
from research.published_method import MetricModule, SequentialSolver, published_calls
from tests.geometry.closed_forms import RECIPROCAL, constant, exponential, random_metric

STEP = 1 / 50
# Followed from 1 downwards with a first velocity above -1 / a alone, and the first guess is -2: a
# network's g is nowhere near zero and has no such limit.
GENTLE = exponential(0.34)


@pytest.fixture(autouse=True)
def _one_thread():
    """Networks of one row gain nothing from threads that wait for each other."""
    with one_thread():
        yield


def solver(known):
    """Of a metric of position alone."""
    return SequentialSolver(lambda points: torch.exp(2 * known.log_sqrt(points[:, 0])))


def distance(found, expected):
    return np.max(np.abs(np.asarray(found) - np.asarray(expected)))


@pytest.mark.parametrize("known", [GENTLE, RECIPROCAL], ids=["exponential", "reciprocal"])
@pytest.mark.parametrize("ends", [(-1.0, 1.0), (1.0, -1.0), (0.9, 0.3)])
def test_against_the_closed_form(known, ends):
    geodesic = solver(known).solve(*ends, 0.4)
    start, end = known.arc_length(torch.tensor(ends).double())
    times = torch.linspace(0, 1, 51).double()
    path = known.inverse(start + times * (end - start))
    speed = (end - start) / known.log_sqrt(path).exp()

    # The central difference of ln sqrt(g) errs by h^2/6 of its third derivative: nothing for the
    # exponential, 1e-6/6 x 2 at x = -1 for the reciprocal; the step of order five by about 1e-9.
    assert distance(geodesic.velocity[0], speed[0]) < 2e-6
    assert distance(geodesic.trajectory, path) < 2e-6
    assert distance(geodesic.velocity, speed) < 4e-6

    final, mean, length, fastest, wavelength = geodesic.features.tolist()
    exact_mean = (known.moment(torch.tensor(ends[1])) - known.moment(torch.tensor(ends[0]))) / (
        end - start
    )
    curvature = np.max(np.abs(np.gradient(speed, times)))
    assert abs(final - ends[1]) < 1e-9  # shooting has converged
    assert abs(mean - exact_mean) < STEP**2 / 12 * curvature + 1e-6  # trapezoids
    assert abs(length - abs(end - start)) < 1e-5  # constant speed: trapezoids are exact
    assert abs(fastest - speed.abs().max()) < 4e-6  # at one of the ends
    assert wavelength == 0.4


def test_the_central_difference_is_one_call():
    for x in (-0.9, 0.0, 0.8):
        assert abs(solver(RECIPROCAL).christoffel(x, 0.0) + 1 / (2 + x)) < 1e-6
    counted = solver(GENTLE)
    assert counted.christoffel(0.3, 0.4) == pytest.approx(0.34, abs=1e-12)
    assert counted.calls == 1


def test_the_integrator_is_of_order_five(monkeypatch):
    # g = exp(2 x), with its exact Christoffel symbol: x(t) = ln(1 + v0 t), v(t) = v0 / (1 + v0 t).
    monkeypatch.setattr(SequentialSolver, "christoffel", lambda solver, x, w: 1.0)
    steps, errors = np.array([4, 8, 16, 32]), []
    for count in steps:
        monkeypatch.setattr(published_method, "STEPS", int(count))
        trajectory, velocity = solver(GENTLE).integrate(0.0, 0.5, 0.0)
        grown = 1 + 0.5 * np.linspace(0, 1, count + 1)
        errors.append(distance(trajectory, np.log(grown)))
        np.testing.assert_allclose(velocity, 0.5 / grown, atol=1e-7)
    order = -np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert 4.7 < order < 5.3
    assert errors[-1] < 1e-12


def test_a_geodesic_costs_the_same_even_when_it_converges_at_once():
    counted = solver(constant(1.0))
    geodesic = counted.solve(-1.0, 0.5, 0.0)
    # Ten iterations, fifty steps, six stages; and one for the speed along the path.
    assert counted.calls == 10 * 50 * 6 + 1
    np.testing.assert_allclose(geodesic.features, [0.5, -0.25, 1.5, 1.5, 0.0], atol=1e-12)


@pytest.mark.parametrize("model", [0, 1])
def test_the_module_is_the_metric_of_one_model(model):
    metric = random_metric(3, models=2)
    points = torch.rand(20, 2, dtype=torch.float64)
    found = MetricModule(metric, model)(points).detach()
    log_sqrt, _ = metric[model].at_rows(points[:, :1], points[:, 1])
    torch.testing.assert_close(found, log_sqrt[:, 0].mul(2).exp())


def test_published_calls():
    assert published_calls() == 162_270_000_000
    # 18,030 geodesics of 3,000 calls in 500 epochs of one model.
    assert published_calls(models=1) == 18_030 * 3_000 * 500
