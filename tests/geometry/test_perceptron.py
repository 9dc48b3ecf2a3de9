import numpy as np
import pytest
import torch

from geonode.geometry.perceptron import Perceptron
from tests.geometry.closed_forms import CPU

SIZES = (3, 8, 5, 2)
SEEDS = [(7, 1, 0), (7, 1, 1), (8,)]
DIRECTION = torch.tensor([0.3, -1.0, 2.0], dtype=torch.float64)


@pytest.fixture
def perceptron():
    """Three models in float64 with biases that are not zero."""
    network = Perceptron.initial(SIZES, SEEDS).to(CPU, torch.float64)
    generator = torch.Generator().manual_seed(0)
    return Perceptron(
        network.weights,
        tuple(torch.randn(b.shape, generator=generator, dtype=b.dtype) for b in network.biases),
    )


ROWS = torch.randn(3, 11, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def assert_same(a, b):
    for one, other in zip(a, b, strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)


@pytest.mark.parametrize("model", range(3))
def test_first_weights_depend_on_the_models_own_seed_alone(model):
    torch.manual_seed(99)
    together = Perceptron.initial(SIZES, SEEDS)
    elsewhere = Perceptron.initial(SIZES, [(3, 3), SEEDS[model]])
    assert_same(together[model : model + 1].parameters, elsewhere[1:].parameters)
    assert len({float(weights.sum()) for weights in together.weights[0]}) == len(SEEDS)


def test_first_weights_are_xavier_uniform_and_biases_zero():
    inputs, outputs = 100, 200
    network = Perceptron.initial((inputs, outputs), [(0,), (1,)])
    weights = network.weights[0].double()
    bound = (6 / (inputs + outputs)) ** 0.5
    deviation = bound / 3**0.5
    assert 0.999 * bound < weights.abs().max() <= bound
    assert abs(weights.mean()) < 5 * deviation / weights.numel() ** 0.5
    # The variance of n squares of a uniform variable is 4/5 of its squared variance, over n.
    assert abs(weights.var() / deviation**2 - 1) < 5 * (0.8 / weights.numel()) ** 0.5
    assert not network.biases[0].any()


def test_values_against_plain_numpy(perceptron):
    values = perceptron(ROWS).numpy()
    for model in range(3):
        hidden = ROWS[model].numpy()
        for layer in range(3):
            weight, bias = perceptron.weights[layer][model], perceptron.biases[layer][model]
            hidden = hidden @ weight.numpy() + bias.numpy()
            hidden = np.tanh(hidden) if layer < 2 else hidden
        np.testing.assert_allclose(values[model], hidden, rtol=1e-13, atol=1e-14)


def test_derivatives_against_automatic_differentiation(perceptron):
    expected = torch.func.jvp(perceptron, (ROWS,), (DIRECTION.expand_as(ROWS),))
    found = perceptron.with_derivative(ROWS, DIRECTION)
    for part, truth in zip(found, expected, strict=True):
        assert (part - truth).abs().max() <= 1e-12 * truth.abs().max()


def test_named_tensors_come_back_and_absent_ones_are_named(perceptron):
    network = perceptron[[0, 1, 2, 0, 1, 2]]
    tensors = network.tensors("metric", 2, 3)
    assert tensors["metric.weight1"].shape == (2, 3, 8, 5)
    both = {**Perceptron.initial((1, 1), [(0,)]).tensors("other", 1, 1), **tensors}
    assert_same(Perceptron.from_tensors("metric", both).parameters, network.parameters)
    with pytest.raises(KeyError, match="decoder"):
        Perceptron.from_tensors("decoder", tensors)
    del tensors["metric.bias1"]
    with pytest.raises(KeyError, match=r"metric\.bias1"):
        Perceptron.from_tensors("metric", tensors)
