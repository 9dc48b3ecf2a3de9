from itertools import pairwise, product

import jaxtyping
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial.chebyshev import Chebyshev
from scipy.integrate import quad, quad_vec, solve_ivp
from torch.autograd import gradcheck, gradgradcheck
from torch.autograd.functional import hessian, jacobian

from geonode.errors import GeometryError
from geonode.geodesics.features import PATH_FEATURES
from geonode.geodesics.quadrature import (
    arc_length,
    initial_value_positions,
    initial_velocity,
    path_features,
    trajectories,
)
from geonode.geometry.field import GridField, NetworkField
from geonode.geometry.grid import Grid
from geonode.geometry.lookup import hermite, linear
from geonode.geometry.metric import Metric
from geonode.geometry.perceptron import Perceptron
from tests.geodesics.fields import FormulaField
from tests.geometry.closed_forms import (
    KNOWN,
    RECIPROCAL,
    Known,
    constant,
    exponential,
    nodes,
    random_metric,
)
from tests.geometry.precision import NoFloat64


def numbers(*entries):
    return torch.tensor(entries, dtype=torch.float64)


FINAL, MEAN, LENGTH, FASTEST, CURVATURE, TORSION, ENERGY = range(7)
INTEGRATED = [MEAN, CURVATURE, TORSION, ENERGY]
TIMES = numbers(0.0, 0.1, 0.37, 0.5, 0.9, 1.0)
STARTS = numbers(-1.0, 1.0, -0.4, 0.9, 0.2)
ENDS = numbers(1.0, -1.0, 0.9, -0.4, 0.201)
NETWORK = NetworkField(random_metric(3, 2.0), numbers(-1.0, -0.3, 0.2, 0.6, 1.0))


def everywhere(known):
    return FormulaField([known] * len(STARTS))


def close(found, expected, tolerance):
    torch.testing.assert_close(found, expected, rtol=0, atol=tolerance)


# known metrics


@pytest.mark.parametrize("known", KNOWN)
def test_lengths_velocities_and_positions_of_known_metrics(known):
    field = everywhere(known)
    first, last = known.arc_length(STARTS), known.arc_length(ENDS)
    close(arc_length(field, STARTS, ENDS), last - first, 1e-14)
    velocity = initial_velocity(field, STARTS, ENDS)
    close(velocity, (last - first) / known.log_sqrt(STARTS).exp(), 1e-14)
    found = trajectories(field, STARTS, ENDS, TIMES)
    passed = torch.lerp(first[:, None], last[:, None], TIMES)
    close(known.arc_length(found), passed, 1e-14)
    if known.inverse:
        close(found, known.inverse(passed), 1e-14)
    assert (found[:, 0] == STARTS).all()
    assert (found[:, -1] == ENDS).all()
    reached = initial_value_positions(field, STARTS, velocity, TIMES)
    close(reached, found, 1e-14)
    assert reached.abs().max() == 1


def in_time(known, start, end):
    """x(t) and its first four derivatives: S(x(t)) is linear in t."""
    first, last = (float(known.arc_length(numbers(x))) for x in (start, end))
    speed, a = last - first, float(known.symbol(numbers(0.0)))

    def derivatives(t):
        passed = first + speed * t
        if known is RECIPROCAL:  # x = 2 (exp(S / 2) - 1)
            growth = 2 * np.exp(passed / 2)
            return [growth - 2, *(growth * (speed / 2) ** n for n in range(1, 5))]
        if a == 0:
            return [start + t * (end - start), end - start, 0.0, 0.0, 0.0]
        rate = speed / passed  # x = ln(a S) / a
        return [np.log(a * passed) / a, *(c * rate**n / a for n, c in enumerate((1, -1, 2, -6), 1))]

    return derivatives


def definitions(x, v, a, j, s):
    """Integrands over time of the features `INTEGRATED`, from the curves themselves."""
    curvature = np.abs(a) / np.hypot(1, v) ** 3
    r = np.array([[1, v, a], [0, a, j], [0, j, s]])
    normal = np.cross(r[0], r[1])
    torsion = 0 if a == j == 0 else np.linalg.det(r) / (normal @ normal)
    return np.array([x, curvature, torsion, curvature**2 * np.hypot(1, v)])


@pytest.mark.parametrize("known", [exponential(0.7), exponential(-1.9), RECIPROCAL, constant(2.5)])
def test_features_of_known_trajectories(known):
    found = path_features(everywhere(known), STARTS, ENDS)
    assert found.shape == (len(STARTS), len(PATH_FEATURES))
    for row, start, end in zip(found, STARTS.tolist(), ENDS.tolist(), strict=True):
        derivatives = in_time(known, start, end)
        expected = quad_vec(
            lambda t, d=derivatives: definitions(*d(t)), 0, 1, epsabs=1e-13, epsrel=1e-13
        )[0]
        close(row[INTEGRATED], torch.from_numpy(expected), 1e-12)
        fastest = max(abs(derivatives(t)[1]) for t in (0, 1))  # sqrt(g) is monotonic
        assert float(row[FASTEST]) == pytest.approx(fastest, rel=1e-13)
    assert (found[:, FINAL] == ENDS).all()
    lengths = known.arc_length(ENDS) - known.arc_length(STARTS)
    close(found[:, LENGTH], lengths.abs(), 1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("lift", [-0.3, 1e-5, 0.0])
def test_features_where_the_path_bends_back_and_is_nearly_straight(lift):
    """u = x^4 + e x. At one point the speed has an extreme; there, for small e, the third
    derivative of x(t) nearly vanishes too and the osculating plane swings around.
    """
    bowl = Known(lambda x: x**4 + lift * x, lambda x: 4 * x**3 + lift, None, None)
    u, symbol = bowl.log_sqrt, bowl.symbol
    length = quad(lambda x: np.exp(u(x)), -1, 1, epsabs=1e-13, epsrel=1e-13)[0]

    def integrand(x):
        """By the chain rule d/dt = v d/dx, and dt = dx / v."""
        g, slope, bend = symbol(x), 12 * x**2, 24 * x
        v = length * np.exp(-u(x))
        v1, v2, v3 = -g * v, (g**2 - slope) * v, (-(g**3) + 3 * g * slope - bend) * v
        a, j = v * v1, v * (v1**2 + v * v2)
        return definitions(x, v, a, j, v * (v1**3 + 4 * v * v1 * v2 + v**2 * v3)) / v

    turning = -np.cbrt(lift / 4)
    near = [side * 10.0**-n for n in range(9) for side in (1, -1)]
    cuts = np.unique([0, turning, *near])
    points, weights = np.polynomial.legendre.leggauss(60)
    expected = sum(
        (b - a) / 2 * weight * integrand((a + b + (b - a) * point) / 2)
        for a, b in pairwise(cuts)
        for point, weight in zip(points, weights, strict=True)
    )
    for row in path_features(FormulaField([bowl] * 2), STARTS[:2], ENDS[:2]):
        close(row[INTEGRATED], torch.from_numpy(expected), 1e-9)
        assert float(row[FASTEST]) == pytest.approx(length / np.exp(u(turning)), rel=1e-13)


# networks


def test_quadrature_is_exact_over_the_whole_chart_for_sharp_networks():
    for seed in range(4):
        field = NetworkField(random_metric(seed, 2.0), NETWORK.wavelengths)
        found = arc_length(field, -torch.ones(5).double(), torch.ones(5).double())
        points, weights = np.polynomial.legendre.leggauss(200)
        root = field(torch.from_numpy(points).expand(5, -1))[0].exp()
        close(found, root @ torch.from_numpy(weights), 1e-13)


def test_networks_against_an_integrator_of_the_geodesic_equation():
    """DOP853, and derivatives in time from a Chebyshev series through its solution."""

    def equation(t, state):
        x, v = state.reshape(2, -1)
        return np.concatenate([v, -NETWORK(torch.from_numpy(x)[:, None])[1][:, 0].numpy() * v**2])

    velocity = initial_velocity(NETWORK, STARTS, ENDS)
    solved = solve_ivp(
        equation,
        (0, 1),
        torch.cat([STARTS, velocity]).numpy(),
        method="DOP853",
        rtol=1e-13,
        atol=1e-14,
        dense_output=True,
        max_step=0.02,
    )
    expected = torch.from_numpy(solved.sol(TIMES.numpy())[:5])
    close(expected[:, -1], ENDS, 1e-11)
    close(trajectories(NETWORK, STARTS, ENDS, TIMES), expected, 1e-11)
    close(initial_value_positions(NETWORK, STARTS, velocity, TIMES), expected, 1e-11)
    found = path_features(NETWORK, STARTS, ENDS)
    for row, features in enumerate(found[:4]):  # the last path is too short to differentiate
        x, v = (
            Chebyshev.interpolate(lambda t, i=i: solved.sol(t)[i], 40, domain=[0, 1])
            for i in (row, row + 5)
        )
        derivatives = [x, v, *(v.deriv(n) for n in range(1, 4))]
        expected = quad_vec(
            lambda t, d=derivatives: definitions(*(f(t) for f in d)), 0, 1, epsabs=1e-10
        )[0]
        error = (features[INTEGRATED] - torch.from_numpy(expected)).abs()
        assert error[[0, 1, 3]].max() <= 1e-9
        assert error[2] <= 1e-5  # three numerical derivatives
        fastest = np.abs(v(np.linspace(0, 1, 20001))).max()
        assert float(features[FASTEST]) == pytest.approx(fastest, rel=1e-8)


def test_a_row_is_the_same_alone():
    together = path_features(NETWORK, STARTS, ENDS)
    positions = trajectories(NETWORK, STARTS, ENDS, TIMES)
    for row in (0, 4):
        one = torch.tensor([row])
        alone = NETWORK[one], STARTS[one], ENDS[one]
        close(path_features(*alone)[0], together[row], 1e-11)
        close(trajectories(*alone, TIMES)[0], positions[row], 1e-14)


def test_looked_up_grids_approach_the_network():
    """The error of a lookup of ln sqrt(g) is of order h^4, or h^2 if it is linear."""
    tables = NETWORK.metric.with_symbol(nodes(2000)[None], NETWORK.wavelengths)
    grid = Grid(nodes(2000), *(table[0] for table in tables))
    for lookup, bound in ((hermite, 1e-10), (linear, 1e-6)):
        field = GridField(grid, torch.arange(5), lookup)
        for quantity in (arc_length, initial_velocity):
            close(quantity(field, STARTS, ENDS), quantity(NETWORK, STARTS, ENDS), bound)


def test_features_of_a_grid_are_refused():
    tables = NETWORK.metric.with_symbol(nodes(20)[None], NETWORK.wavelengths)
    grid = Grid(nodes(20), *(table[0] for table in tables))
    with pytest.raises(GeometryError, match=r"field: found a grid.*expected a smooth field"):
        path_features(GridField(grid, torch.arange(5)), STARTS, ENDS)


def test_single_precision():
    metric = NETWORK.metric.network.to(torch.device("cpu"), torch.float32)
    field = NetworkField(Metric(metric), NETWORK.wavelengths.float())
    start, end, times = STARTS.float(), ENDS.float(), TIMES.float()
    with NoFloat64():
        length, positions = arc_length(field, start, end), trajectories(field, start, end, times)
    close(length.double(), arc_length(NETWORK, STARTS, ENDS), 1e-6)
    close(positions.double(), trajectories(NETWORK, STARTS, ENDS, TIMES), 1e-6)
    found = path_features(field, start, end)
    assert found.dtype == torch.float32
    error = (found.double() - path_features(NETWORK, STARTS, ENDS)).abs()
    assert error.max() <= 1e-5


# derivatives

SHAPES = ((1, 2, 3), (1, 3, 4), (1, 4, 1), (1, 1, 3), (1, 1, 4), (1, 1, 1))
WEIGHTS = 1.5 * torch.randn(30, generator=torch.Generator().manual_seed(127)).double()


def small_network(weights):
    sizes = [int(np.prod(shape)) for shape in SHAPES]
    parts = [part.reshape(shape) for part, shape in zip(weights.split(sizes), SHAPES, strict=True)]
    metric = Metric(Perceptron(tuple(parts[:3]), tuple(parts[3:])))
    return NetworkField(metric, numbers(-0.7, 0.4))


FROM, TO = numbers([-0.9, 0.7], [0.8, -0.6])
INSIDE = numbers(0.0, 0.3, 0.8, 1.0)
DIFFERENTIABLE = {
    "arc_length": arc_length,
    "initial_velocity": initial_velocity,
    "trajectories": lambda *args: trajectories(*args, INSIDE),
    "initial_value": lambda field, start, end: initial_value_positions(
        field, start, 0.2 * (end - start), INSIDE
    ),
    "path_features": path_features,
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name == "path_features" else [])
        for name in DIFFERENTIABLE
    ],
)
def test_first_and_second_derivatives_with_respect_to_ends_and_parameters(name):
    """Both paths have a fastest point inside."""
    inputs = [FROM, TO, WEIGHTS]

    def function(start, end, weights):
        return DIFFERENTIABLE[name](small_network(weights), start, end)

    arguments = [tensor.clone().requires_grad_() for tensor in inputs]
    assert gradcheck(function, arguments, rtol=1e-6, atol=1e-7, fast_mode=True)
    assert gradgradcheck(function, arguments, rtol=1e-5, atol=1e-6, fast_mode=True)


def test_the_paths_of_the_derivatives_have_a_fastest_point_inside():
    x = torch.lerp(FROM[:, None], TO[:, None], torch.linspace(0, 1, 50).double())
    lowest = small_network(WEIGHTS)(x)[0].argmin(1)
    assert ((lowest > 0) & (lowest < 49)).all()


def test_derivatives_of_positions_are_those_of_their_formula():
    def formula(start, end, a):  # g = exp(2 a x)
        first, last = torch.exp(a * start), torch.exp(a * end)
        return torch.log(first + INSIDE * (last - first)) / a

    def found(start, end, a):
        field = FormulaField([Known(lambda x: a * x, lambda x: a + 0 * x, None, None)])
        return trajectories(field, start[None], end[None], INSIDE)[0]

    at = tuple(numbers(-0.8, 0.9, 1.3))
    for time, order in product(range(len(INSIDE)), (jacobian, hessian)):
        rows, expected = (
            order(lambda *x, f=f, time=time: f(*x)[time], at) for f in (found, formula)
        )
        for row, right in zip(rows, expected, strict=True):
            torch.testing.assert_close(row, right, rtol=0, atol=1e-12)


def test_derivatives_of_the_maximum_speed_are_those_of_its_formula():
    """In a valley it is the length, whatever the position of the bottom."""
    at = numbers(0.1234)[0]

    def fastest(bottom):
        field = FormulaField(
            [Known(lambda x: (x - bottom) ** 2, lambda x: 2 * (x - bottom), None, None)]
        )
        return path_features(field, STARTS[2:3], ENDS[2:3])[0, FASTEST]

    start, end = float(STARTS[2] - at), float(ENDS[2] - at)
    tops = np.exp([start**2, end**2])
    assert float(jacobian(fastest, at)) == pytest.approx(tops[0] - tops[1], rel=1e-12)
    second = 2 * (end * tops[1] - start * tops[0])
    assert float(hessian(fastest, at)) == pytest.approx(second, rel=1e-12)


# invariants

chart = st.floats(-1, 1).map(lambda x: round(x, 6))


@pytest.mark.slow
@settings(deadline=None, max_examples=15)
@given(chart, chart, st.floats(-3, 3), st.floats(0, 1))
def test_a_reversed_path_runs_backward_and_a_scaled_metric_has_the_same_paths(
    start, end, scale, time
):
    if start == end:
        end = -start or 1.0
    a, b, t = numbers([start], [end], [time])
    one = NETWORK[torch.tensor([1])]
    expected, position = path_features(one, a, b), trajectories(one, a, b, t)
    close(trajectories(one, b, a, 1 - t), position, 1e-14)
    close(path_features(one, b, a)[:, 1:], expected[:, 1:], 1e-9)
    close(arc_length(one, b, a), -arc_length(one, a, b), 1e-15)

    class Scaled(NetworkField):
        def __call__(self, positions):
            log_sqrt, symbol = super().__call__(positions)
            return log_sqrt + scale, symbol

        def __getitem__(self, rows):
            return Scaled(self.metric, self.wavelengths[rows])

    scaled = Scaled(one.metric, one.wavelengths)
    close(trajectories(scaled, a, b, t), position, 1e-14)
    close(initial_velocity(scaled, a, b), initial_velocity(one, a, b), 1e-14)
    expected[:, LENGTH] *= np.exp(scale)
    torch.testing.assert_close(path_features(scaled, a, b), expected, rtol=1e-13, atol=1e-9)


# faults


def test_no_rows_and_no_speed():
    none = torch.zeros(0).double()
    assert path_features(NETWORK[torch.zeros(0).long()], none, none).shape == (0, 7)
    still = initial_value_positions(NETWORK, STARTS, torch.zeros(5).double(), TIMES)
    close(still, STARTS[:, None].expand_as(still), 1e-15)


@pytest.mark.parametrize("function", [arc_length, initial_velocity, path_features])
@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        ([0.1, -1.1], [0.2, 0.3], r"start: found -1.1 in row 1, expected chart position"),
        ([0.1, 0.2], [float("nan"), 0.3], r"end: found nan in row 0, expected chart position"),
        ([0.1, 0.2], [0.3, 0.2], r"end: found 0.2 in row 1, where the path starts"),
    ],
)
def test_paths_that_are_none_are_refused(function, start, end, message):
    field = FormulaField([constant(1.0)] * 2)
    ends = numbers(start, end)
    with pytest.raises(GeometryError, match=message):
        function(field, *ends)


@pytest.mark.parametrize("time", [-0.1, 1.1, float("nan")])
def test_times_beyond_the_path_are_refused(time):
    times = numbers(0.0, time)
    for function, other in ((trajectories, ENDS), (initial_value_positions, 0 * ENDS)):
        with pytest.raises(GeometryError, match=f"times: found {time}, expected 0 to 1"):
            function(NETWORK, STARTS, other, times)


@pytest.mark.parametrize(
    ("velocity", "found"),
    [
        (0.75, "1.5 from the start at time 1, expected at most 1.4;"),
        (-1.5, "3 from the start at time 1, expected at most 2.6;"),
        (np.nan, "nan"),
    ],
)
def test_a_row_that_leaves_the_chart_is_named(velocity, found):
    field = FormulaField([constant(4.0)] * 2)
    start, velocities = numbers([0.0, 0.3], [0.5, velocity])
    with pytest.raises(GeometryError, match=f"row 1 leaves the chart: found arc length {found}"):
        initial_value_positions(field, start, velocities, TIMES[[0, 3, 5]])


@pytest.fixture
def unchecked_shapes():
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.usefixtures("unchecked_shapes")
def test_shapes_that_differ_are_refused():
    with pytest.raises(GeometryError, match=r"end: found \(\(1,\).*expected \(\(5,\)"):
        arc_length(NETWORK, STARTS, ENDS[:1])
    with pytest.raises(GeometryError, match=r"velocity: found \(\(1,\).*expected \(\(5,\)"):
        initial_value_positions(NETWORK, STARTS, ENDS[:1], TIMES)
