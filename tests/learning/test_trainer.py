import math

import pytest
import torch

from geonode.config import TrainingParameters
from geonode.errors import TrainingError
from geonode.geometry.perceptron import Perceptron
from geonode.learning.trainer import Training, history_csv
from tests.learning.series import decoder_parameters

EPOCHS, CLIP, ROWS = 40, 1.0, 20
RATES = (0.05, 0.2)
SCALES = (1e3, 1.0, 1e-3)  # of the loss: always, sometimes and never clipped


def parameters(**changes):
    return TrainingParameters(**({"epochs": EPOCHS, "gradient_clip": CLIP} | changes))


def problem():
    """First values of two groups of parameters, and data for a nonlinear regression."""
    random = torch.Generator().manual_seed(0)
    normal = [torch.randn(3, *shape, generator=random).double() for shape in ((4, 3), (1, 3))]
    return normal, torch.randn(3, ROWS, 4, generator=random).double()


def terms_of(weight, bias, data, scale):
    """Two loss terms of one model."""
    hidden = torch.tanh(data @ weight + bias)
    return scale * (hidden.sum(-1) - data[:, 0]).square().mean(), scale * 0.1 * bias.square().sum()


def train_together(first, data, scales, **changes):
    """Trained weights, biases and history, all with the model first."""
    weight, bias = (tensor.clone().requires_grad_() for tensor in first)

    def loss():
        each = [terms_of(weight[m], bias[m], data[m], scale) for m, scale in enumerate(scales)]
        return torch.stack([torch.stack(terms) for terms in each], dim=1)

    groups = [(Perceptron((weight,), ()), RATES[0]), (Perceptron((), (bias,)), RATES[1])]
    history = Training(groups, loss, parameters(**changes)).run()
    return weight.detach(), bias.detach(), history.movedim(2, 0)


def train_alone(weight, bias, data, scale):
    """The same model by itself, on torch's plain Adam and the cosine written out."""
    weight, bias = (tensor.clone().requires_grad_() for tensor in (weight, bias))
    optimiser = torch.optim.Adam(
        [{"params": [weight]}, {"params": [bias]}], lr=1.0, foreach=False, fused=False
    )
    history, clipped = [], []
    for epoch in range(EPOCHS):
        for group, rate in zip(optimiser.param_groups, RATES, strict=True):
            group["lr"] = rate * (1 + math.cos(math.pi * epoch / EPOCHS)) / 2
        optimiser.zero_grad()
        terms = terms_of(weight, bias, data, scale)
        sum(terms).backward()
        norm = torch.nn.utils.clip_grad_norm_([weight, bias], CLIP)
        clipped.append(bool(norm > CLIP))
        optimiser.step()
        history.append(torch.stack(terms).detach())
    return weight.detach(), bias.detach(), torch.stack(history), clipped


# clip_grad_norm_ divides by norm + 1e-6, and here norms are about one or above.
@pytest.mark.parametrize(("scales", "rounding"), [(SCALES, 1e-5), ((1e-3,) * 3, 1e-10)])
def test_side_by_side_is_one_at_a_time_with_torch(scales, rounding):
    """Clipped or not."""
    first, data = problem()
    weight, bias, history = train_together(first, data, scales)
    shares = []
    for model, scale in enumerate(scales):
        alone = train_alone(first[0][model], first[1][model], data[model], scale)
        shares.append(sum(alone[3]) / EPOCHS)
        torch.testing.assert_close(weight[model], alone[0], rtol=rounding, atol=rounding / 10)
        torch.testing.assert_close(bias[model], alone[1], rtol=rounding, atol=rounding / 10)
        torch.testing.assert_close(history[model], alone[2], rtol=rounding, atol=1e-15)
    if scales == SCALES:
        assert shares[0] > 0.9 > shares[1] > shares[2] == 0
    assert not history.requires_grad


@pytest.mark.parametrize(("epochs", "bad"), [(7, 3), (120, 3), (60, 59)])
def test_a_loss_that_is_not_finite_names_epoch_and_model(epochs, bad):
    value = torch.zeros(4, 1, 1, requires_grad=True)
    steps = []

    def loss():
        terms = (value - 1).square().sum((1, 2))
        if len(steps) >= bad:
            terms = torch.where(torch.arange(4) == 2, terms * torch.nan, terms)
        return torch.stack([torch.zeros(4), terms])

    with pytest.raises(TrainingError, match=f"loss of number 2 is not finite at epoch {bad}; "):
        group, block = (Perceptron((value,), ()), 0.1), parameters(epochs=epochs)
        Training([group], loss, block, "number {}".format, steps.append).run()
    # It stops at the next look, within 50 epochs, and says nothing of the rest.
    assert bad < len(steps) + 1 <= bad + 50


def test_a_parameter_that_is_not_finite_after_the_last_step_is_named():
    # The root of zero has no slope: a finite loss, and a gradient that is infinite.
    value = torch.tensor([4.0, 0.0, 4.0]).reshape(3, 1, 1).requires_grad_()
    with pytest.raises(TrainingError, match="a parameter of model 1 is not finite after epoch 0; "):
        group, block = (Perceptron((value,), ()), 0.1), parameters(epochs=1)
        Training([group], lambda: value.sqrt().sum((1, 2))[None], block).run()


def test_every_model_has_its_history_in_the_table():
    # Two members of three folds: model member * 3 + fold. Two terms, of which the first counts up.
    values = torch.arange(12 * 2 * 6.0).reshape(12, 2, 6)
    block = decoder_parameters(epochs=12, learning_rate=0.5)
    header, *lines = history_csv(values, ("reconstruction", "length"), 3, block).splitlines()
    assert header == "epoch,fold,member,reconstruction,length,learning_rate"
    rows = [tuple(map(float, line.split(","))) for line in lines]
    assert len(rows) == 6 * 4
    found = [row for row in rows if row[1:3] == (1, 1)]
    for epoch, row in zip((0, 5, 10, 11), found, strict=True):
        rate = 0.25 * (1 + math.cos(math.pi * epoch / 12))
        expected = (epoch, 1, 1, 12 * epoch + 4, 12 * epoch + 10, rate)
        assert row == pytest.approx(expected, rel=1e-5)  # six digits are written
    empty = history_csv(torch.zeros(0, 1, 6), ("loss",), 3, block)
    assert empty == "epoch,fold,member,loss,learning_rate\n"
