import pytest
import torch

from geonode.geometry.perceptron import Perceptron

SIZES = (3, 8, 5, 2)
SEEDS = [(7, 1, 0), (7, 1, 1), (8,)]


@pytest.mark.parametrize("model", range(3))
def test_first_weights_depend_on_the_models_own_seed_alone(model):
    torch.manual_seed(99)
    together = Perceptron.initial(SIZES, SEEDS)
    elsewhere = Perceptron.initial(SIZES, [(3, 3), SEEDS[model]])
    pairs = zip(together[[model]].parameters, elsewhere[[1]].parameters, strict=True)
    assert all(torch.equal(*pair) for pair in pairs)
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
