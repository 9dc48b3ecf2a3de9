import math

import numpy as np
import pytest
import torch

from geonode.devices.device import one_thread
from geonode.geometry.metric import SIZES, Metric
from geonode.geometry.perceptron import Perceptron
from geonode.reference import sequential
from geonode.reference.sequential import MetricModule, SequentialSolver, published_calls

STEP = 1 / 50


class Known:
    """g at points (x, w) by a formula."""

    def __call__(self, points):
        x, w = points.T
        return torch.exp(2 * self.log_sqrt(x, w))


class Exponential(Known):
    """g = exp(2 a x) with a = 0.3 + w / 10: S = exp(a x) / a.

    It can be followed from 1 downwards with a first velocity above -1 / a alone, and the first
    guess of the shooting is -2. A network's g is nowhere near zero and has no such limit.
    """

    def log_sqrt(self, x, w):
        return x * self.rate(w)

    def rate(self, w):
        return 0.3 + w / 10

    def arc_length(self, x, w):
        return math.exp(self.rate(w) * x) / self.rate(w)

    def inverse(self, s, w):
        return math.log(self.rate(w) * s) / self.rate(w)

    def root(self, x, w):
        return math.exp(self.rate(w) * x)


class Rational(Known):
    """g = 1 / (1 + x / 2)^2: S = 2 ln(1 + x / 2)."""

    def log_sqrt(self, x, w):
        return -torch.log1p(x / 2)

    def arc_length(self, x, w):
        return 2 * math.log1p(x / 2)

    def inverse(self, s, w):
        return 2 * math.expm1(s / 2)

    def root(self, x, w):
        return 1 / (1 + x / 2)


@pytest.fixture(autouse=True)
def _one_thread():
    """Networks of one row gain nothing from threads that wait for each other."""
    with one_thread():
        yield


METRICS = [Exponential(), Rational()]
ENDS = [(-1.0, 1.0), (1.0, -1.0), (-0.6, 0.1), (0.9, 0.3)]


def close_within(found, expected, tolerance):
    return np.max(np.abs(np.asarray(found) - expected)) < tolerance


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: type(metric).__name__)
@pytest.mark.parametrize(("source", "target"), ENDS)
def test_against_the_closed_form(metric, source, target):
    w = 0.4
    geodesic = SequentialSolver(metric).solve(source, target, w)
    start, end = (metric.arc_length(x, w) for x in (source, target))
    times = np.linspace(0, 1, 51)
    path = np.array([metric.inverse(start + t * (end - start), w) for t in times])
    speed = np.array([(end - start) / metric.root(x, w) for x in path])

    # The central difference of ln sqrt(g) errs by h^2/6 of its third derivative: nothing for the
    # exponential, 1e-6/6 x 2 at x = -1 for the rational; the step of order five by about 1e-9.
    assert close_within(geodesic.v0, speed[0], 2e-6)
    assert close_within(geodesic.trajectory, path, 2e-6)
    assert close_within(geodesic.velocity, speed, 4e-6)

    final, mean, length, fastest, wavelength = geodesic.features.tolist()
    fine = np.linspace(0, 1, 20_001)
    exact_mean = np.mean([metric.inverse(start + t * (end - start), w) for t in fine])
    curvature = np.max(np.abs(np.gradient(speed, times)))
    assert abs(final - target) < 1e-9  # shooting has converged
    assert abs(mean - exact_mean) < STEP**2 / 12 * curvature + 1e-4  # trapezoids
    assert abs(length - abs(end - start)) < 1e-5  # constant speed: trapezoids are exact
    assert abs(fastest - np.max(np.abs(speed))) < 4e-6  # at one of the ends
    assert wavelength == w


def test_the_central_difference():
    solver = SequentialSolver(Rational())
    # d/dx of -ln(1 + x/2).
    for x in (-0.9, 0.0, 0.8):
        symbol = -1 / (2 + x)
        assert abs(solver.christoffel(x, 0.0) - symbol) < 1e-6
    exponential = SequentialSolver(Exponential())
    assert exponential.christoffel(0.3, 0.4) == pytest.approx(0.34, abs=1e-12)
    assert exponential.calls == 1


def test_the_integrator_is_of_order_five(monkeypatch):
    # g = exp(2 x), with its exact Christoffel symbol: x(t) = ln(1 + v0 t), v(t) = v0 / (1 + v0 t).
    monkeypatch.setattr(SequentialSolver, "christoffel", lambda solver, x, w: 1.0)
    steps = np.array([4, 8, 16, 32])
    errors = []
    for count in steps:
        monkeypatch.setattr(sequential, "STEPS", int(count))
        trajectory, velocity = SequentialSolver(Exponential()).integrate(0.0, 0.5, 0.0)
        grown = 1 + 0.5 * np.linspace(0, 1, count + 1)
        errors.append(np.max(np.abs(trajectory.numpy() - np.log(grown))))
        np.testing.assert_allclose(velocity, 0.5 / grown, atol=1e-7)
    order = -np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert 4.7 < order < 5.3
    assert errors[-1] < 1e-12


def test_calls_of_one_geodesic():
    solver = SequentialSolver(Exponential())
    solver.solve(-0.5, 0.5, 0.0)
    # Ten iterations, fifty steps, six stages; and one for the speed along the path.
    assert solver.calls == 10 * 50 * 6 + 1


def test_a_geodesic_costs_the_same_even_when_it_converges_at_once():
    class Flat(Known):
        def log_sqrt(self, x, w):
            return torch.zeros_like(x)

    solver = SequentialSolver(Flat())
    geodesic = solver.solve(-1.0, 0.5, 0.0)
    assert solver.calls == 3001
    assert geodesic.v0 == pytest.approx(1.5, abs=1e-12)
    np.testing.assert_allclose(geodesic.features, [0.5, -0.25, 1.5, 1.5, 0.0], atol=1e-12)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: type(metric).__name__)
def test_reversing_a_geodesic_reverses_its_path(metric):
    there, back = (
        SequentialSolver(metric).solve(*ends, 0.0) for ends in ((-1.0, 0.8), (0.8, -1.0))
    )
    np.testing.assert_allclose(there.trajectory, back.trajectory.flip(0), atol=1e-7)
    assert float(there.features[2]) == pytest.approx(float(back.features[2]), abs=1e-7)


def test_a_network_in_float32_agrees_with_itself_in_float64():
    # The published network. Rounding of ln sqrt(g) over a difference of 2e-3 is 1e-7 / 2e-3.
    single = Metric(Perceptron.initial(SIZES, [(3,)]))
    double = Metric(single.network.to(torch.device("cpu"), torch.float64))
    found, expected = (
        SequentialSolver(MetricModule(metric, 0)).solve(-0.8, 0.7, 0.2).features
        for metric in (single, double)
    )
    np.testing.assert_allclose(found, expected, atol=2e-4)
    assert found.dtype == torch.float64


def test_the_module_is_the_metric_of_one_model():
    metric = Metric(Perceptron.initial(SIZES, [(3,), (4,)]).to(torch.device("cpu"), torch.float64))
    points = torch.rand(20, 2, dtype=torch.float64)
    both = points[None].expand(2, -1, -1).unbind(-1)
    for model in (0, 1):
        found = MetricModule(metric, model)(points).detach()
        torch.testing.assert_close(found, metric.at_points(*both)[0][model].mul(2).exp())


def test_published_calls():
    assert published_calls() == 162_270_000_000
    # 18,030 geodesics of 3,000 calls in one epoch of one model.
    assert published_calls(epochs=1, models=1) == 18_030 * 3_000
