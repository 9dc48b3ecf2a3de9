import pytest
import torch

from benchmarks import symbols
from benchmarks.symbols import SYMBOLS, autodiff, finite_difference
from geonode.geometry.metric import Metric
from geonode.geometry.perceptron import Perceptron
from geonode.metrics.end_to_end import fit_metric
from tests.geometry.closed_forms import CPU, random_metric
from tests.geometry.precision import NoFloat64
from tests.training.series import metric_parameters, positions, run, series

ROWS = 60
BOUNDS = {torch.float32: 1e-6, torch.float64: 1e-12}


@pytest.fixture(scope="module")
def trained():
    """Metrics of five folds after 30 epochs."""
    return fit_metric(series(4, 9), positions(4), metric_parameters(epochs=30), run(4))[0]


@pytest.fixture(params=["as drawn", "sharper", "many", "trained"])
def network(request, trained):
    return {
        "as drawn": random_metric(2, 1.0, 3).network,
        "sharper": random_metric(3, 2.0, 3).network,
        "many": random_metric(4, 2.0, 40).network,
        "trained": trained,
    }[request.param]


def points(models, dtype=torch.float64, rows=ROWS):
    generator = torch.Generator().manual_seed(5)
    x = 2 * torch.rand(2, models, rows, generator=generator, dtype=torch.float64) - 1
    return x.to(dtype)


@pytest.fixture
def known(monkeypatch):
    """Sets ln sqrt(g) to a formula, computed in float64 whatever it is asked for."""

    def metric_of(formula):
        by_formula = lambda metric, x, w: formula(x.double(), w.double())  # noqa: E731
        monkeypatch.setattr(symbols, "log_sqrt_at", by_formula)
        return random_metric(0)

    return metric_of


@pytest.mark.parametrize("dtype", BOUNDS)
def test_the_derivative_of_the_network_is_that_of_automatic_differentiation(network, dtype):
    metric = Metric(network.to(CPU, dtype))
    x, w = points(network.models, dtype)
    found, expected = metric.at_points(x, w), autodiff(metric, x, w)
    assert {part.dtype for part in (*found, *expected)} == {dtype}
    assert (found[1] - expected[1]).abs().max() <= BOUNDS[dtype] * expected[1].abs().max()
    assert (found[0] - expected[0]).abs().max() <= BOUNDS[dtype]


def test_automatic_differentiation_knows_a_formula(known):
    metric = known(lambda x, w: torch.sin(3 * x) * (1 + w / 2))
    x, w = points(4)
    log_sqrt, symbol = autodiff(metric, x, w)
    torch.testing.assert_close(log_sqrt, torch.sin(3 * x) * (1 + w / 2), rtol=1e-15, atol=0)
    torch.testing.assert_close(symbol, 3 * torch.cos(3 * x) * (1 + w / 2), rtol=1e-14, atol=1e-15)


def third_derivative(metric, x, w):
    """Of ln sqrt(g), by differentiating three times."""

    def derivative(function):
        return lambda x: torch.func.jvp(function, (x,), (torch.ones_like(x),))[1]

    return derivative(derivative(derivative(lambda x: symbols.log_sqrt_at(metric, x, w))))(x)


@pytest.mark.parametrize("dtype", BOUNDS)
def test_finite_differences_are_right_to_two_thirds_of_the_digits(network, dtype):
    metric, exact = Metric(network.to(CPU, dtype)), Metric(network.to(CPU, torch.float64))
    x, w = points(network.models, dtype)
    log_sqrt, symbol = finite_difference(metric, x, w)
    assert torch.equal(log_sqrt, symbols.log_sqrt_at(metric, x, w))
    truth = autodiff(exact, x.double(), w.double())[1]
    sharpness = third_derivative(exact, x.double(), w.double()).abs().amax(1, keepdim=True)
    # With h = eps^(1/3): h^2 / 6 u''' and, as values are off by up to 4 eps, 4 eps / h.
    bound = torch.finfo(dtype).eps ** (2 / 3) * (sharpness / 6 + 4)
    assert ((symbol - truth).abs() <= bound).all()


def test_finite_differences_err_by_the_third_derivative(known):
    # Values in float64 at steps for float32, so that only the error of the formula is left.
    metric = known(lambda x, w: torch.exp(2 * x) * w)
    x, w = points(3, torch.float32)
    slope = 2 * torch.exp(2 * x.double()) * w
    step = torch.finfo(torch.float32).eps ** (1 / 3)
    error = finite_difference(metric, x, w)[1] - slope
    torch.testing.assert_close(error, 4 * slope * step**2 / 6, rtol=0.02, atol=0)


def test_finite_differences_of_a_line_know_how_far_apart_they_are(known):
    # x - h and x + h are rounded: their distance is 2 h only to 1e-5 in float32.
    x, w = points(3, torch.float32)
    symbol = finite_difference(known(lambda x, w: 0.7 * x), x, w)[1]
    torch.testing.assert_close(symbol, torch.full_like(symbol, 0.7), rtol=2e-7, atol=0)


@pytest.mark.parametrize("method", SYMBOLS.values(), ids=SYMBOLS)
def test_rows_and_models_do_not_mix(method):
    metric = random_metric(6, 2.0, 3)
    x, w = points(3)
    whole = method(metric, x, w)
    moved_x, moved_w = x.clone(), w.clone()
    moved_x[:, 7], moved_w[:, 7] = 0.1, -0.2
    others = torch.arange(ROWS) != 7
    for before, after in zip(whole, method(metric, moved_x, moved_w), strict=True):
        assert torch.equal(before[:, others], after[:, others])
        assert (before[:, 7] != after[:, 7]).all()
    weights = metric.network.weights[0].clone()
    weights[1] *= 1.5
    changed = Metric(Perceptron((weights, *metric.network.weights[1:]), metric.network.biases))
    for before, after in zip(whole, method(changed, x, w), strict=True):
        assert torch.equal(before[[0, 2]], after[[0, 2]])
        assert (before[1] != after[1]).all()


@pytest.mark.parametrize("method", [Metric.at_points, finite_difference])
def test_float32_needs_no_float64(method):
    metric = Metric(random_metric(6, 2.0, 3).network.to(CPU, torch.float32))
    x, w = points(3, torch.float32)
    with NoFloat64():
        log_sqrt, symbol = method(metric, x, w)
    assert log_sqrt.dtype == symbol.dtype == torch.float32
    assert log_sqrt.shape == symbol.shape == x.shape
