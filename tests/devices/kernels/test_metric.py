import importlib

import numpy as np
import pytest
import torch

from geonode.errors import GeometryError
from geonode.geometry.metric import SIZES, Metric
from geonode.geometry.perceptron import Perceptron

pytest.importorskip("triton")
kernel = importlib.import_module("geonode.devices.kernels.metric")


def network(gain, last_bias=0.0):
    """A perceptron whose weights are Xavier's times a gain, with biases of every size."""
    drawn = Perceptron.initial(SIZES, [(7,)])
    generator = torch.Generator().manual_seed(1)
    biases = [0.5 * gain * torch.randn(b.shape, generator=generator) for b in drawn.biases[:2]]
    weights = tuple(gain * weight for weight in drawn.weights)
    return Perceptron(weights, (*biases, torch.full((1, 1, 1), last_bias)))


def computed(found, positions, wavelengths, device):
    """What the kernel makes of one network."""
    first = found.to(device, torch.float32)
    return kernel.log_sqrt_and_symbol(
        tuple(weight[0] for weight in first.weights),
        tuple(bias[0] for bias in first.biases),
        positions.to(device, torch.float32),
        wavelengths.to(device, torch.float32),
    )


def by_torch(found, positions, wavelengths, device, dtype):
    metric = Metric(found.to(device, dtype))
    both = metric.with_symbol(positions.to(device, dtype)[None], wavelengths.to(device, dtype))
    return [part[0].double() for part in both]


@pytest.mark.parametrize(
    ("gain", "last_bias"), [(0.5, 0.0), (1.0, -5.0), (1.0, -200.0), (1.0, 200.0), (3.0, 1.0)]
)
@pytest.mark.parametrize(("nodes", "count"), [(41, 37), (301, 1), (1, 67)])
def test_errors_are_those_of_float32(gain, last_bias, nodes, count, device):
    found = network(gain, last_bias)
    x, w = torch.linspace(-1, 1, nodes), torch.linspace(-0.9, 1, count)
    exact = by_torch(found, x, w, device, torch.float64)
    rounded = by_torch(found, x, w, device, torch.float32)
    for part, truth, peer in zip(computed(found, x, w, device), exact, rounded, strict=True):
        assert part.shape == (nodes, count)
        assert part.dtype == torch.float32
        # where torch is exact by luck, one number has still to be rounded
        rounding = truth.abs().max() * torch.finfo(torch.float32).eps / 2
        assert (part - truth).abs().max() <= 2 * max((peer - truth).abs().max(), rounding)


@pytest.mark.filterwarnings("ignore:overflow")  # of the branch not taken
def test_saturated_units_are_constant(device):
    # every unit of the first layer is at -1 or 1 to the last bit, whatever x and w are
    found = network(1.0)
    first = 1e5 * torch.where(torch.arange(64) % 3 == 0, -1.0, 1.0)
    weights = (1e4 * found.weights[0], *found.weights[1:])
    saturated = Perceptron(weights, (first.reshape(1, 1, 64), *found.biases[1:]))
    x, w = torch.linspace(-1, 1, 11), torch.linspace(-1, 1, 7)
    log_sqrt, symbol = computed(saturated, x, w, device)
    w1, w2 = (weight[0].double().numpy() for weight in weights[1:])
    b1, b2 = (bias[0].double().numpy() for bias in found.biases[1:])
    value = np.tanh(np.sign(first.numpy()) @ w1 + b1) @ w2 + b2
    expected = float(0.5 * np.log(np.log1p(np.exp(value)) + 0.1).item())
    assert (log_sqrt - expected).abs().max() < 3e-7
    assert (symbol == 0).all()


@pytest.mark.filterwarnings("ignore:overflow")  # of the branch not taken
def test_huge_weights_give_finite_numbers(device):
    found = computed(network(1e4), torch.linspace(-1, 1, 13), torch.linspace(-1, 1, 11), device)
    assert all(part.isfinite().all() for part in found)


def test_a_weight_that_is_no_number_is_not_hidden(device):
    found = network(1.0)
    found.weights[1][0, 63, 127] = torch.nan
    for part in computed(found, torch.zeros(3), torch.zeros(2), device):
        assert part.isnan().all()


@pytest.mark.parametrize(("nodes", "count"), [(0, 3), (3, 0)])
def test_an_empty_product_is_refused(nodes, count, device):
    name = "wavelengths" if nodes else "positions"
    with pytest.raises(GeometryError, match=rf"{name}: .*expected .*\[1 or more\]"):
        computed(network(1.0), torch.zeros(nodes), torch.zeros(count), device)


def test_float64_is_refused(device):
    found = network(1.0).to(device, torch.float32)
    weights, biases = (tuple(t[0] for t in part) for part in (found.weights, found.biases))
    x = torch.zeros(3, device=device)
    with pytest.raises(GeometryError, match=r"wavelengths: found torch\.float64"):
        kernel.log_sqrt_and_symbol(weights, biases, x, x.double())
