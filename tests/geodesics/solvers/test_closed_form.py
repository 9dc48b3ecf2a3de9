from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad, solve_bvp, solve_ivp

from geonode.errors import GeometryError
from geonode.geodesics.features import FEATURES
from geonode.geodesics.problem import BoundaryValueProblem
from geonode.geodesics.solution import Status
from geonode.geodesics.solvers.closed_form import ClosedForm
from geonode.geometry.grid import Grid
from geonode.geometry.sources import DirectSource
from tests.geometry.closed_forms import (
    KNOWN,
    columns,
    constant,
    exponential,
    grid_of,
    nodes,
    order,
    random_metric,
    valley,
)
from tests.geometry.precision import NoFloat64

STATIONS = torch.tensor([-1.0, -0.61, -0.2, 0.35, 0.36, 1.0], dtype=torch.float64)
TIMES = torch.linspace(0, 1, 21, dtype=torch.float64)
INVERTIBLE = [metric for metric in KNOWN if metric.inverse]
TOLERANCE = 1e-6
SMOOTH, SHARP = random_metric(41, 2.0), random_metric(41, 4.0)
NETWORK_WAVELENGTHS = torch.tensor([-0.8, 0.1, 0.7], dtype=torch.float64)


def everything(closed_form, problem, wavelengths, tolerance=TOLERANCE):
    """Solution, speed and features."""
    solution = closed_form.solve(problem, tolerance)
    length = closed_form.arc_length.at(problem.stations)
    stations = closed_form.stations(problem.stations, wavelengths)
    return SimpleNamespace(
        v0=solution.v0,
        residual=solution.residual,
        status=solution.status,
        speed=length[problem.target] - length[problem.source],
        features=stations.every_path(solution.v0)[1],
    )


def solve(grid, stations=STATIONS, tolerance=TOLERANCE):
    """Closed form, problem of all pairs, and what is known of its geodesics."""
    closed_form = ClosedForm(grid)
    problem = BoundaryValueProblem.all_pairs(stations)
    wavelengths = torch.linspace(-1, 1, grid.log_sqrt.shape[1], dtype=stations.dtype)
    return closed_form, problem, everything(closed_form, problem, wavelengths, tolerance)


def direct_grid(metric, wavelengths, positions):
    return DirectSource(metric, wavelengths).grid(0, positions)


def expected_features(metrics, problem):
    """v0 and the four features of the path, by formula."""
    a, b = (problem.stations.double()[i] for i in (problem.source, problem.target))
    v0, features = [], []
    for metric in metrics:
        speed = metric.arc_length(b) - metric.arc_length(a)
        mean = (metric.moment(b) - metric.moment(a)) / speed
        lowest = torch.minimum(metric.log_sqrt(a), metric.log_sqrt(b))
        if metric.lowest is not None:
            at = torch.tensor(metric.lowest).double()
            inside = (torch.minimum(a, b) < at) & (at < torch.maximum(a, b))
            lowest = torch.where(inside, metric.log_sqrt(at), lowest)
        v0.append(speed / torch.exp(metric.log_sqrt(a)))
        features.append(torch.stack([b, mean, speed.abs(), speed.abs() / lowest.exp()], dim=-1))
    return torch.stack(v0, dim=1), torch.stack(features, dim=1)


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-10), (torch.float32, 1e-6)])
def test_velocity_and_features_against_closed_forms(dtype, bound):
    _, problem, solved = solve(grid_of(KNOWN, nodes(2000, dtype)), STATIONS.to(dtype))
    v0, features = expected_features(KNOWN, problem)
    # The longest path is 11 long and the fastest velocity 22: errors are relative to that size.
    assert ((solved.v0 - v0).abs() / (1 + v0.abs())).max() <= bound
    error = (solved.features[..., :4] - features).abs() / (1 + features.abs())
    for k, name in enumerate(FEATURES[:4]):
        # A short path in float32: a difference of two integrals, over its length of 0.01
        apart = (problem.stations[problem.target] - problem.stations[problem.source]).abs()
        short = (apart < 0.1) & (dtype == torch.float32)
        assert error[~short, :, k].max() <= bound, name
        assert error[..., k].max() <= (100 * bound if k == 1 and short.any() else bound), name
    assert (solved.status == Status.CONVERGED).all()
    assert solved.status.dtype == torch.uint8
    rounding = 8 * torch.finfo(dtype).eps
    torch.testing.assert_close(solved.features[..., 2], solved.speed.abs(), rtol=rounding, atol=0)
    wavelengths = torch.linspace(-1, 1, len(KNOWN), dtype=dtype)
    assert torch.equal(solved.features[..., 4], wavelengths.expand(30, -1))


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-10), (torch.float32, 1e-6)])
def test_trajectories_against_closed_forms(dtype, bound):
    closed_form, problem, solved = solve(
        grid_of(INVERTIBLE, nodes(2000, dtype)), STATIONS.to(dtype)
    )
    paths = closed_form.trajectories(problem, solved.v0, TIMES.to(dtype))
    a, b = (problem.stations.double()[i][:, None] for i in (problem.source, problem.target))
    times = TIMES.to(dtype).double()
    for i, metric in enumerate(INVERTIBLE):
        start, stop = metric.arc_length(a), metric.arc_length(b)
        expected = metric.inverse(start + times * (stop - start))
        # An error of the length moves the point by as much over sqrt(g).
        size = metric.arc_length(problem.stations.double()).diff().sum()
        condition = (size / metric.log_sqrt(expected).exp()).clamp(min=1)
        assert ((paths[:, i] - expected).abs() / condition).max() <= bound
    assert torch.equal(paths[..., 0], problem.stations[problem.source][:, None].expand(30, 4))
    steps = paths.diff(dim=-1) * (b > a).where(b > a, -1)[..., None]
    assert (steps > 0).all()


def test_error_falls_with_the_fourth_power_of_the_step():
    metrics = [exponential(-1.9), valley(0.1234)]
    resolutions = [21, 41, 81, 161]
    errors = []
    for resolution in resolutions:
        _, problem, solved = solve(grid_of(metrics, nodes(resolution)))
        errors.append(float((solved.v0 - expected_features(metrics, problem)[0]).abs().max()))
    assert order([1 / (n - 1) for n in resolutions], errors) == pytest.approx(4, abs=0.3)


@pytest.mark.parametrize("at", [-0.70007, 0.1234, 0.3551, 0.999999])
@pytest.mark.parametrize("resolution", [7, 100, 2000])
def test_minimum_between_nodes_is_found(at, resolution):
    """The symbol of the valley is linear, so the minimum is exact on any grid."""
    _, problem, solved = solve(grid_of([valley(at)], nodes(resolution)))
    slowest = solved.speed.abs() / solved.features[..., 3]
    a, b = (problem.stations[i] for i in (problem.source, problem.target))
    inside = (torch.minimum(a, b) < at) & (at < torch.maximum(a, b))
    ends = torch.exp(torch.minimum((a - at) ** 2, (b - at) ** 2))
    expected = torch.where(inside, 1.0, ends)[:, None]
    torch.testing.assert_close(slowest, expected, rtol=1e-13, atol=0)
    assert inside.any()


def test_minimum_of_a_curved_symbol_is_of_third_order():
    def log_sqrt(x):
        return torch.cosh(2 * (x - 0.123)) + (x - 0.123) ** 3

    def symbol(x):
        return 2 * torch.sinh(2 * (x - 0.123)) + 3 * (x - 0.123) ** 2

    metric = valley(0)._replace(log_sqrt=log_sqrt, symbol=symbol)
    resolutions = [n + 1 for n in range(20, 400, 20)]
    errors = []
    for resolution in resolutions:
        _, _, solved = solve(
            grid_of([metric], nodes(resolution)), torch.tensor([-1.0, 1.0]).double()
        )
        found = (solved.speed.abs() / solved.features[..., 3]).log()
        errors.append(float((found - 1).abs().max()))
        # min G lies 2 to 3 cells of error h^3 / 12 max G'' from the truth
        assert errors[-1] <= (2 / (resolution - 1)) ** 3 / 12 * 40
    assert max(errors) > 1e-7


@settings(deadline=None, max_examples=25)
@given(st.floats(-3, 3), st.floats(1e-3, 1e3))
def test_scaling_the_metric_changes_neither_path_nor_velocity(a, factor):
    grid = grid_of([exponential(a), valley(a / 4)] if a else [constant(1.0)], nodes(200))
    scaled = Grid(grid.positions, grid.log_sqrt + 0.5 * torch.tensor(factor).log(), grid.symbol)
    closed_form, problem, solved = solve(grid)
    other, _, again = solve(scaled)
    torch.testing.assert_close(again.v0, solved.v0, rtol=1e-12, atol=0)
    torch.testing.assert_close(
        other.trajectories(problem, again.v0, TIMES),
        closed_form.trajectories(problem, solved.v0, TIMES),
        rtol=0,
        atol=1e-12,
    )
    unchanged = [0, 1, 3, 4]
    torch.testing.assert_close(
        again.features[..., unchanged], solved.features[..., unchanged], rtol=1e-12, atol=1e-12
    )
    torch.testing.assert_close(again.speed, factor**0.5 * solved.speed, rtol=1e-6, atol=0)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.integers(-1000, 1000), min_size=2, max_size=6, unique=True))
def test_a_reversed_geodesic_is_the_reverse_path(positions):
    stations = torch.tensor(sorted(positions), dtype=torch.float64) / 1000
    closed_form, problem, solved = solve(grid_of(KNOWN, nodes(300)), stations)
    size = len(stations)
    back = [
        next(k for k in range(size * (size - 1)) if (problem.target[k], problem.source[k]) == pair)
        for pair in zip(problem.source, problem.target, strict=True)
    ]
    assert torch.equal(solved.speed[back], -solved.speed)
    same = [1, 2, 3, 4]
    there, here = (part[..., same] for part in (solved.features[back], solved.features))
    torch.testing.assert_close(there, here, rtol=1e-12, atol=1e-14)
    paths = closed_form.trajectories(problem, solved.v0, TIMES)
    torch.testing.assert_close(paths[back].flip(-1), paths, rtol=0, atol=1e-12)


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 10**6))
def test_invariants_of_untrained_networks(seed):
    metric = random_metric(seed, 2.0)
    w = NETWORK_WAVELENGTHS
    closed_form, problem, solved = solve(direct_grid(metric, w, nodes(150)))
    paths = closed_form.trajectories(problem, solved.v0, TIMES)
    forward = (problem.target > problem.source)[:, None, None]
    assert (torch.where(forward, paths.diff(dim=-1), -paths.diff(dim=-1)) > 0).all()
    # Lengths of the parts of a path add up to its length.
    length = torch.zeros(6, 6, len(w), dtype=torch.float64)
    length[problem.source, problem.target] = solved.features[..., 2]
    for i, j, k in ((0, 1, 5), (1, 3, 4), (0, 2, 3)):
        torch.testing.assert_close(length[i, j] + length[j, k], length[i, k], rtol=1e-13, atol=0)
    # The mean position is a mean over the path, and the maximum speed no less than any speed.
    a, b = (problem.stations[i][:, None] for i in (problem.source, problem.target))
    mean, fastest = solved.features[..., 1], solved.features[..., 3]
    assert ((torch.minimum(a, b) < mean) & (mean < torch.maximum(a, b))).all()
    assert (fastest >= (b - a).abs() * (1 - 1e-12)).all()
    assert (fastest >= solved.v0.abs() * (1 - 1e-12)).all()


def test_speed_is_constant_along_trajectories():
    """x' by central differences of fourth order, sqrt(g) by formula."""
    closed_form, problem, solved = solve(grid_of(KNOWN, nodes(2000)))
    h = 3e-4
    offsets = torch.tensor([-2, -1, 1, 2], dtype=torch.float64) * h
    weights = torch.tensor([1, -8, 8, -1], dtype=torch.float64) / (12 * h)
    for time in (0.1, 0.5, 0.9):
        around = closed_form.trajectories(problem, solved.v0, time + offsets)
        x = closed_form.trajectories(problem, solved.v0, torch.tensor([time], dtype=torch.float64))[
            ..., 0
        ]
        for i, metric in enumerate(KNOWN):
            speed = torch.exp(metric.log_sqrt(x[:, i])) * (around[:, i] @ weights)
            torch.testing.assert_close(speed, solved.speed[:, i], rtol=1e-8, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_bits_do_not_depend_on_what_else_is_solved(dtype):
    grid = direct_grid(SMOOTH, nodes(13), nodes(200, dtype))
    stations = STATIONS.to(dtype)
    closed_form, problem, solved = solve(grid, stations)
    wavelengths = torch.linspace(-1, 1, 13, dtype=dtype)
    paths = closed_form.trajectories(problem, solved.v0, TIMES.to(dtype))

    def assert_same(rows, chosen):
        part = BoundaryValueProblem(stations, problem.source[rows], problem.target[rows])
        one = ClosedForm(grid.at_wavelengths(chosen))
        again = one.solve(part, TOLERANCE)
        for name in ("v0", "residual", "status"):
            expected = getattr(solved, name)[rows][:, chosen]
            assert torch.equal(getattr(again, name), expected), name
        followed = one.trajectories(part, again.v0, TIMES.to(dtype))
        assert torch.equal(followed, paths[rows][:, chosen])
        stations_of_one = one.stations(stations, wavelengths[chosen])
        features = stations_of_one.every_path(solved.v0[:, chosen])[1]
        assert torch.equal(features, solved.features[:, chosen])

    shuffle = torch.Generator().manual_seed(0)
    for row in (0, 7, 29):
        assert_same(torch.tensor([row]), torch.arange(13))
    for column in (0, 5, 12):
        assert_same(torch.arange(30), torch.tensor([column]))
    assert_same(torch.randperm(30, generator=shuffle), torch.randperm(13, generator=shuffle))
    assert_same(torch.tensor([11]), torch.tensor([3]))


@pytest.mark.parametrize(("metric", "coarse"), [(SMOOTH, 4), (SMOOTH, 9), (SHARP, 24)])
def test_a_grid_that_is_too_coarse_is_reported(metric, coarse):
    """The residual is of the size of the true error of the endpoint, by integrating the network."""
    w = NETWORK_WAVELENGTHS
    _, problem, solved = solve(direct_grid(metric, w, nodes(coarse)))
    _, _, truth = solve(direct_grid(metric, w, nodes(1500)))
    roots = metric.log_sqrt(STATIONS[None], w)[0].exp()
    endpoint = solved.v0 * roots[problem.source] - truth.speed
    endpoint = (endpoint / roots[problem.target]).abs()
    assert endpoint.max() > 1e-5
    assert 0.1 * endpoint.max() < solved.residual.abs().max() < 10 * endpoint.max()
    assert (solved.status == Status.RESIDUAL_ABOVE_TOLERANCE).any()
    agrees = (solved.residual.abs() > TOLERANCE) == (solved.status != Status.CONVERGED)
    assert agrees.all()


@pytest.mark.parametrize("resolution", [2000, 1001])
def test_residual_of_a_fine_grid_is_small_and_falls_below_any_sane_tolerance(resolution):
    grid = direct_grid(SHARP, NETWORK_WAVELENGTHS, nodes(resolution))
    assert solve(grid, tolerance=1e-9)[2].residual.abs().max() <= 1e-9


def test_a_symbol_that_contradicts_the_metric_is_reported():
    grid = grid_of(KNOWN, nodes(200))
    wrong = Grid(grid.positions, grid.log_sqrt, -grid.symbol)
    _, _, solved = solve(wrong)
    curved = [i for i, metric in enumerate(KNOWN) if metric.symbol(STATIONS).abs().max() > 0]
    assert (solved.status[:, curved] != Status.CONVERGED).any(0).all()


@pytest.mark.parametrize("part", ["log_sqrt", "symbol"])
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_grid_that_is_not_finite_is_refused(part, value):
    grid = grid_of(KNOWN, nodes(200))
    getattr(grid, part)[5, 2] = value
    with pytest.raises(GeometryError, match=rf"{part}: found {value} at node 5, wavelength 2"):
        ClosedForm(grid)


@pytest.mark.parametrize("tolerance", [0.0, -1e-6, torch.nan])
def test_a_tolerance_that_is_not_positive_is_refused(tolerance):
    closed_form = ClosedForm(grid_of(KNOWN, nodes(20)))
    with pytest.raises(GeometryError, match=r"tolerance: found .*above 0"):
        closed_form.solve(BoundaryValueProblem.all_pairs(STATIONS), tolerance)


ROWS = [(0, 5, 0), (5, 0, 1), (1, 4, 2), (4, 3, 0)]


@pytest.fixture(scope="module")
def on_network():
    """A sharp untrained network, solved on the usual grid."""
    metric = SHARP
    return metric, *solve(direct_grid(metric, NETWORK_WAVELENGTHS, nodes(2000)))


def symbol(metric, x, w):
    """The Christoffel symbol of the network at scattered points."""
    return metric.at_points(x.reshape(1, -1), w.reshape(1, -1))[1].reshape(x.shape)


@pytest.mark.parametrize(("source", "target", "column"), ROWS)
def test_endpoint_by_integrating_the_geodesic_equation(on_network, source, target, column):
    metric, closed_form, problem, solved = on_network
    row = int(((problem.source == source) & (problem.target == target)).nonzero())
    w = NETWORK_WAVELENGTHS[column]

    def acceleration(_, state):
        x = torch.from_numpy(state[:1].copy())
        return [state[1], -float(symbol(metric, x, w[None])) * state[1] ** 2]

    start = [float(STATIONS[source]), float(solved.v0[row, column])]
    path = solve_ivp(
        acceleration, (0, 1), start, method="DOP853", rtol=1e-12, atol=1e-13, t_eval=TIMES.numpy()
    )
    assert abs(path.y[0, -1] - STATIONS[target]) <= 1e-9
    found = closed_form.trajectories(problem, solved.v0, TIMES)[row, column]
    torch.testing.assert_close(found, torch.from_numpy(path.y[0]), rtol=0, atol=1e-9)


def test_velocity_and_features_by_boundary_value_solver_and_quadrature():
    metric, w = SMOOTH, NETWORK_WAVELENGTHS[1:2]
    _, problem, solved = solve(direct_grid(metric, w, nodes(2000)))
    row = int(((problem.source == 0) & (problem.target == 5)).nonzero())
    v0, features = float(solved.v0[row, 0]), solved.features[row, 0].tolist()

    def geodesic(_, state):
        x = torch.from_numpy(state[0].copy())
        return [state[1], -symbol(metric, x, w.expand(len(x))).numpy() * state[1] ** 2]

    mesh = TIMES.numpy()
    line = [2 * mesh - 1, 0 * mesh + 2]
    path = solve_bvp(geodesic, lambda a, b: [a[0] + 1, b[0] - 1], mesh, line, tol=1e-8)
    assert path.success
    assert v0 == pytest.approx(path.y[1, 0], rel=1e-7)

    def root(x):
        return float(metric.log_sqrt(torch.tensor([[x]]).double(), w).exp())

    length, moment = (
        quad(f, -1, 1, epsabs=0, epsrel=1e-10)[0] for f in (root, lambda x: x * root(x))
    )
    slowest = min(root(x) for x in torch.linspace(-1, 1, 2001).tolist())
    assert features[1] == pytest.approx(moment / length, abs=1e-9)
    assert features[2] == pytest.approx(length, rel=1e-9)
    assert features[3] == pytest.approx(length / slowest, rel=1e-5)


def test_trajectories_and_features_follow_from_the_velocity():
    """A velocity that is too large by a share goes on beyond the target by that share of l."""
    grid = grid_of([exponential(0.7)], nodes(2000))
    closed_form, problem, solved = solve(grid, STATIONS[1:4])  # 1% off stays on the chart
    v0 = 1.01 * solved.v0
    known, a = exponential(0.7), problem.stations[problem.source]
    first, length = known.arc_length(a), solved.speed[:, 0]
    found = closed_form.trajectories(problem, v0, TIMES)[:, 0]
    expected = known.inverse(first[:, None] + 1.01 * length[:, None] * TIMES)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    stations = closed_form.stations(problem.stations, torch.zeros(1).double())
    features = stations.every_path(v0)[1] / solved.features
    wanted = torch.tensor([1, 1 / 1.01, 1.01, 1.01], dtype=torch.float64)
    torch.testing.assert_close(features[:, 0, :4], wanted.expand(6, -1), rtol=1e-12, atol=0)


def test_float32_needs_no_double_precision():
    grid = grid_of(KNOWN, nodes(100, torch.float32))
    stations, times = STATIONS.float(), TIMES.float()
    with NoFloat64():
        closed_form, problem, solved = solve(grid, stations)
        paths = closed_form.trajectories(problem, solved.v0, times)
        with pytest.raises(TypeError, match="on float64"):
            paths.double()
    assert solved.v0.dtype == solved.features.dtype == paths.dtype == torch.float32


def test_float32_speed_is_constant_to_rounding():
    """sqrt(g) x' from the inverse of the arc length: no digits may be lost to long sums."""
    positions = nodes(2000, torch.float32)
    closed_form, problem, solved = solve(grid_of(KNOWN, positions), STATIONS.float())
    start = closed_form.arc_length.at(problem.stations)[problem.source]
    for time in (0.25, 0.75):
        x, root = closed_form.arc_length.inverse(start + time * solved.speed)
        for i, metric in enumerate(KNOWN):
            truth = columns([metric.log_sqrt], x[:, i].double())[:, 0].exp()
            assert (root[:, i] / truth - 1).abs().max() <= 1e-6
