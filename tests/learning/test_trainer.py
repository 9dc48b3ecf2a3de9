import math
from itertools import count

import pytest
import torch

from geonode.errors import TrainingError
from geonode.learning.trainer import history_csv, train

EPOCHS, CLIP = 40, 1.0
RATES = (0.05, 0.2)
SCALES = (1e3, 1.0, 1e-3)  # of the loss: always, sometimes and never clipped


def problem(models=3):
    """First values of two groups of parameters, and data for a nonlinear regression."""
    random = torch.Generator().manual_seed(0)
    normal = [torch.randn(models, *shape, generator=random).double() for shape in ((4, 3), (1, 3))]
    return normal, torch.randn(models, 20, 4, generator=random).double()


def terms_of(weight, bias, data, scale):
    """Two loss terms of one model."""
    hidden = torch.tanh(data @ weight + bias)
    return scale * (hidden.sum(-1) - data[:, 0]).square().mean(), scale * 0.1 * bias.square().sum()


def train_together(first, data, scales, **options):
    """Trained weights, biases and history, all with the model first."""
    weight, bias = (tensor.clone().requires_grad_() for tensor in first)

    def loss():
        each = [terms_of(weight[m], bias[m], data[m], scale) for m, scale in enumerate(scales)]
        return torch.stack([torch.stack(terms) for terms in each], dim=1)

    groups = [([weight], RATES[0]), ([bias], RATES[1])]
    history = train(groups, loss, **({"epochs": EPOCHS, "gradient_clip": CLIP} | options))
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


def test_side_by_side_is_one_at_a_time_with_torch():
    first, data = problem()
    weight, bias, history = train_together(first, data, SCALES)
    shares = []
    for model, scale in enumerate(SCALES):
        alone = train_alone(first[0][model], first[1][model], data[model], scale)
        shares.append(sum(alone[3]) / EPOCHS)
        # clip_grad_norm_ divides by norm + 1e-6, and here norms are about one or above.
        torch.testing.assert_close(weight[model], alone[0], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(bias[model], alone[1], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(history[model], alone[2], rtol=1e-5, atol=0)
    assert shares[0] > 0.9
    assert 0 < shares[1] < 1
    assert shares[2] == 0


def test_without_clipping_agreement_is_to_rounding():
    first, data = problem()
    weight, bias, history = train_together(first, data, (1e-3,) * 3)
    for model in range(3):
        alone = train_alone(first[0][model], first[1][model], data[model], 1e-3)
        torch.testing.assert_close(weight[model], alone[0], rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(bias[model], alone[1], rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(history[model], alone[2], rtol=1e-10, atol=1e-15)


def test_a_huge_gradient_does_not_change_a_neighbour():
    first, data = problem()
    calm = train_together(first, data, (1.0, 1.0, 1.0))
    wild = train_together(first, data, (1.0, 1e12, 1.0))
    for result, other in zip(calm, wild, strict=True):
        assert torch.equal(result[[0, 2]], other[[0, 2]])
        assert not torch.equal(result[1], other[1])


def test_a_clipped_gradient_keeps_its_direction_and_has_the_largest_norm():
    # One step of Adam moves by the learning rate whatever the gradient, so two losses whose
    # gradients differ by a factor 1e6 above the limit take the same second step too.
    first, data = problem(2)
    data[1], first[0][1], first[1][1] = data[0], first[0][0], first[1][0]
    weight, bias, _ = train_together(first, data, (1e6, 1e12))
    torch.testing.assert_close(weight[0], weight[1], rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(bias[0], bias[1], rtol=1e-8, atol=1e-10)


def test_history_holds_the_terms_before_every_step():
    first, data = problem()
    *_, history = train_together(first, data, SCALES)
    assert history.shape == (3, EPOCHS, 2)
    for model, scale in enumerate(SCALES):
        expected = terms_of(first[0][model], first[1][model], data[model], scale)
        torch.testing.assert_close(history[model, 0], torch.stack(expected))
    assert not history.requires_grad


@pytest.mark.parametrize(("epochs", "bad"), [(7, 3), (120, 3), (60, 57), (60, 59)])
def test_a_loss_that_is_not_finite_names_epoch_and_model(epochs, bad):
    value = torch.zeros(4, 1, requires_grad=True)
    epoch = count()
    steps = []

    def loss():
        terms = (value - 1).square().sum(1)
        if next(epoch) >= bad:
            terms = torch.where(torch.arange(4) == 2, terms * torch.nan, terms)
        return torch.stack([torch.zeros(4), terms])

    with pytest.raises(TrainingError, match=f"loss of model 2 is not finite at epoch {bad}; "):
        train([([value], 0.1)], loss, epochs=epochs, gradient_clip=1.0, report=steps.append)
    # It stops at the next look, within 50 epochs, and says nothing of the rest.
    assert bad < len(steps) + 1 <= bad + 50


def test_the_error_calls_the_model_what_the_caller_calls_it():
    value = torch.zeros(2, 1, requires_grad=True)
    with pytest.raises(TrainingError, match="the loss of number 1 is not"):
        train(
            [([value], 0.1)],
            lambda: (value / torch.tensor([[1.0], [0.0]])).sum(1)[None],
            epochs=1,
            gradient_clip=1.0,
            name="number {}".format,
        )


def test_reports_add_up():
    done = []
    train_together(*problem(), SCALES, report=done.append)
    assert sum(done) == EPOCHS * len(SCALES)


def test_history_table():
    # Two members of three folds, two epochs, two terms.
    values = torch.arange(24.0).reshape(2, 2, 6)
    # By hand: model member * 3 + fold, so fold 0 of epoch 0, term 0 is the mean of 0 and 3.
    assert history_csv(values, ("reconstruction", "length"), 3) == (
        "epoch,fold,reconstruction,length\n"
        "0,0,1.5,7.5\n0,1,2.5,8.5\n0,2,3.5,9.5\n"
        "1,0,13.5,19.5\n1,1,14.5,20.5\n1,2,15.5,21.5\n"
    )
