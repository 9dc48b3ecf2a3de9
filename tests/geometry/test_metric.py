import pytest
import torch
from torch.nn.functional import softplus

from geonode.geometry.metric import FLOOR, Metric
from geonode.geometry.perceptron import Perceptron
from tests.geometry.closed_forms import CPU, order, random_metric

GAINS = [1.0, 3.0]  # as drawn, and sharpened
MODELS = 4


@pytest.fixture
def points():
    """Scattered positions of every model, and wavelengths."""
    generator = torch.Generator().manual_seed(3)
    x, w = (
        2 * torch.rand(size, 40, generator=generator, dtype=torch.float64) - 1 for size in (4, 1)
    )
    return x, w[0]


def differentiated(metric, x, w):
    """Ln sqrt(g) and d/dx of it, by automatic differentiation."""
    return torch.func.jvp(lambda x: metric.log_sqrt(x, w), (x,), (torch.ones_like(x),))


def test_values_are_softplus_of_the_network_plus_the_floor(points):
    x, w = points
    metric = random_metric(0, 2.0, MODELS)
    pairs = torch.stack([x[:, 5], w[7].expand(4)], dim=-1)[:, None]
    expected = softplus(metric.network(pairs))[:, 0, 0] + FLOOR
    torch.testing.assert_close(metric(x, w)[:, 5, 7], expected, rtol=1e-14, atol=0)


@pytest.mark.parametrize("gain", [1.0, 3.0, 100.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_metric_is_finite_and_at_least_the_floor(points, gain, dtype):
    x, w = (part.to(dtype) for part in points)
    g = Metric(random_metric(1, gain, MODELS).network.to(CPU, dtype))(x, w)
    assert torch.isfinite(g).all()
    assert (g >= 0.1).all()
    assert gain < 100 or (g.amin() < 0.101 and g.amax() > 100)  # it was put to the test


@pytest.mark.parametrize("gain", GAINS)
def test_symbol_against_automatic_differentiation(points, gain):
    metric = random_metric(2, gain, MODELS)
    expected = differentiated(metric, *points)
    for found, truth in zip(metric.with_symbol(*points), expected, strict=True):
        assert (found - truth).abs().max() <= 1e-12 * truth.abs().max()


@pytest.mark.parametrize("gain", GAINS)
def test_symbol_in_float32_against_float64(points, gain):
    single = Metric(random_metric(2, gain, MODELS).network.to(CPU, torch.float32))
    x, w = (part.float() for part in points)
    double = Metric(single.network.to(CPU, torch.float64))
    expected = differentiated(double, x.double(), w.double())
    for found, truth in zip(single.with_symbol(x, w), expected, strict=True):
        assert (found - truth).abs().max() <= 1e-6 * truth.abs().max()


@pytest.mark.parametrize("gain", GAINS)
def test_symbol_against_central_differences(points, gain):
    metric = random_metric(2, gain, MODELS)
    x, w = points
    symbol = metric.with_symbol(x, w)[1]
    steps = [0.02 / 2**k for k in range(5)]
    errors = [
        float(
            ((metric.log_sqrt(x + h, w) - metric.log_sqrt(x - h, w)) / (2 * h) - symbol).abs().max()
        )
        for h in steps
    ]
    assert order(steps, errors) == pytest.approx(2, abs=0.1)
    assert errors[-1] < 1e-3 * symbol.abs().max()


def test_scattered_points_are_those_of_the_product(points):
    x, w = points
    metric = random_metric(4, 2.0, MODELS)
    at = w[torch.arange(40).roll(3)].expand(MODELS, -1)
    for found, product in zip(metric.at_points(x, at), metric.with_symbol(x, w), strict=True):
        row = torch.arange(40)
        torch.testing.assert_close(found, product[:, row, row.roll(3)], rtol=1e-13, atol=1e-14)


def test_shared_positions_and_a_single_model(points):
    x, w = points
    metric = random_metric(5, 1.0, MODELS)
    shared = metric(x[:1], w)
    torch.testing.assert_close(metric[2](x[:1], w)[0], shared[2], rtol=1e-14, atol=0)
    torch.testing.assert_close(metric.log_sqrt(x[:1], w), shared.sqrt().log(), rtol=0, atol=1e-15)
    assert not torch.allclose(shared[1], shared[2])


def test_models_do_not_influence_each_other(points):
    metric = random_metric(6, 1.0, MODELS)
    other = random_metric(7, 5.0, MODELS)
    mixed = Metric(
        Perceptron(
            *(
                tuple(torch.cat([a[:1], b[1:]]) for a, b in zip(one, two, strict=True))
                for one, two in (
                    (metric.network.weights, other.network.weights),
                    (metric.network.biases, other.network.biases),
                )
            )
        )
    )
    for found, truth in zip(mixed.with_symbol(*points), metric.with_symbol(*points), strict=True):
        assert torch.equal(found[0], truth[0])
        assert not torch.allclose(found[1], truth[1])
