import pytest
import torch

from geonode.errors import TrainingError
from geonode.geometry.perceptron import Perceptron
from geonode.geometry.trainable import TrainablePerceptron
from geonode.training.loss_scale import FIRST, LARGEST, STEPS_TO_DOUBLE, LossScale
from geonode.training.trainer import train
from tests.geometry.closed_forms import CPU
from tests.training.test_trainer import parameters

SIZES, MODELS, ROWS = (2, 16, 8, 1), 3, 30


def test_an_overflow_halves_the_factor_of_its_model_alone():
    scale = LossScale(3, CPU)
    first, second = torch.full((3, 2, 2), FIRST), torch.full((3, 5), 2 * FIRST)
    first[1, 0, 1], second[2, 3] = torch.inf, torch.nan
    finite = scale.unscale([first, second])
    assert finite.tolist() == [True, False, False]
    assert scale.factors.tolist() == [FIRST, FIRST / 2, FIRST / 2]
    assert first[:, 0, 0].tolist() == [1, 0, 0]
    assert second[:, 0].tolist() == [2, 0, 0]


def test_factors_double_after_steps_without_an_overflow_and_are_bounded():
    scale = LossScale(2, CPU)
    steps = 0
    while scale.factors[0] < LARGEST:
        steps += 1
        scale.unscale([torch.ones(2, 1) if steps != 20 else torch.tensor([[1.0], [torch.inf]])])
    assert steps == 10 * STEPS_TO_DOUBLE  # from 2^10 to 2^20
    assert scale.factors[1] == LARGEST / 4
    for _ in range(STEPS_TO_DOUBLE):
        scale.unscale([torch.ones(2, 1)])
    assert scale.factors.tolist() == [LARGEST, LARGEST / 2]


def network():
    every = Perceptron.initial(SIZES, [(3, model) for model in range(MODELS)])
    return TrainablePerceptron.of(every, torch.float16)


def fit(gain, at=(0, 20)):
    """Regressions in float16; at some epochs the loss of the second makes its gradient overflow."""
    trained = network()
    inputs = torch.randn(MODELS, ROWS, 2, generator=torch.Generator().manual_seed(0))
    weights = torch.tensor([1.0, gain, 1.0])

    def loss(part, epoch):
        error = trained(inputs[:, part]) - inputs[:, part].prod(2, keepdim=True)
        gains = weights if epoch in at else torch.ones_like(weights)
        return (gains * error.square().mean((1, 2)))[None]

    history = train([(trained, 0.02)], loss, ROWS, parameters(epochs=60))
    return trained.joined.detach(), history[:, 0]


def test_a_model_that_overflows_recovers_and_leaves_its_neighbours_alone():
    together, history = fit(1e7)
    calm, undisturbed = fit(1.0)
    for model in (0, 2):
        assert torch.equal(together[model], calm[model])
        assert torch.equal(history[:, model], undisturbed[:, model])
    assert not torch.equal(together[1], calm[1])
    first = network().joined
    for epoch in (0, 20):  # after which the parameters are those before, although Adam has moments
        torch.testing.assert_close(history[epoch, 1], 1e7 * history[epoch + 1, 1])
        assert not torch.equal(history[epoch, 0], history[epoch + 1, 0])
    assert (together != first).any(1).all()
    assert (history[-1] < 0.7 * history[1]).all()


def test_a_model_that_never_stops_to_overflow_is_named():
    with pytest.raises(TrainingError, match="gradient of model 1 overflows float16 up to epoch 49"):
        fit(1e30, at=range(60))
