import math
import subprocess
import sys

import pytest
import torch

from geonode.config import TrainingParameters
from geonode.errors import TrainingError
from geonode.geometry.perceptron import Perceptron
from geonode.training.trainer import history_csv, last_losses, train
from tests.training.series import TRAINING, decoder_parameters

EPOCHS, CLIP, ROWS = 40, 1.0, 20
RATES = (0.05, 0.2)
SCALES = (1e3, 1.0, 1e-3)  # of the loss: always, sometimes and never clipped


def parameters(**changes):
    return TrainingParameters(**(TRAINING | {"epochs": EPOCHS, "gradient_clip": CLIP} | changes))


def problem(models=3):
    """First values of two groups of parameters, and data for a nonlinear regression."""
    random = torch.Generator().manual_seed(0)
    normal = [torch.randn(models, *shape, generator=random).double() for shape in ((4, 3), (1, 3))]
    return normal, torch.randn(models, ROWS, 4, generator=random).double()


def terms_of(weight, bias, data, scale):
    """Two loss terms of one model."""
    hidden = torch.tanh(data @ weight + bias)
    return scale * (hidden.sum(-1) - data[:, 0]).square().mean(), scale * 0.1 * bias.square().sum()


def train_together(first, data, scales, report=lambda _: None, **changes):
    """Trained weights, biases and history, all with the model first."""
    weight, bias = (tensor.clone().requires_grad_() for tensor in first)

    def loss(part, epoch):
        each = [
            terms_of(weight[m], bias[m], data[m, part], scale) for m, scale in enumerate(scales)
        ]
        return torch.stack([torch.stack(terms) for terms in each], dim=1)

    groups = [(Perceptron((weight,), ()), RATES[0]), (Perceptron((), (bias,)), RATES[1])]
    history = train(groups, loss, ROWS, parameters(**changes), report=report)
    return weight.detach(), bias.detach(), history.movedim(2, 0)


def train_alone(weight, bias, data, scale, decay=0.0):
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
        (sum(terms) + decay * sum(number**2 for number in weight.flatten())).backward()
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


def test_decay_is_the_squared_norm_of_the_weights_in_the_loss_of_every_model():
    # Clipped or not, and in the moments of Adam: decoupled decay would differ, and so would a bias.
    first, data = problem()
    weight, bias, history = train_together(first, data, SCALES, weight_decay=0.3)
    free, *_ = train_together(first, data, SCALES)
    assert not torch.allclose(weight, free, rtol=0.01)
    for model, scale in enumerate(SCALES):
        alone = train_alone(first[0][model], first[1][model], data[model], scale, decay=0.3)
        torch.testing.assert_close(weight[model], alone[0], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(bias[model], alone[1], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(history[model], alone[2], rtol=1e-5, atol=0)


@pytest.mark.parametrize("parts", [2, 3, ROWS])
def test_accumulated_gradients_are_those_of_all_rows(parts):
    first, data = problem()
    options = {"weight_decay": 0.1}
    whole = train_together(first, data, SCALES, **options)
    added = train_together(first, data, SCALES, accumulation=parts, **options)
    for expected, found in zip(whole, added, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("parts", "largest"), [(1, 20), (3, 7), (7, 3), (20, 1)])
def test_parts_are_even_and_cover_every_row_once(parts, largest):
    value = torch.zeros(2, 1, 1, requires_grad=True)
    seen = []

    def loss(part, epoch):
        seen.append(range(ROWS)[part])
        return value.square().sum((1, 2))[None]

    block = parameters(epochs=1, accumulation=parts)
    train([(Perceptron((value,), ()), 0.1)], loss, ROWS, block)
    assert [row for rows in seen for row in rows] == list(range(ROWS))
    assert len(seen) == parts
    assert {len(rows) for rows in seen} <= {largest, largest - 1}


@pytest.mark.parametrize("parts", [1, 3])
def test_every_part_of_an_epoch_is_told_its_number(parts):
    value = torch.zeros(2, 1, 1, requires_grad=True)
    seen = []

    def loss(part, epoch):
        seen.append(epoch)
        return value.square().sum((1, 2))[None]

    block = parameters(epochs=4, accumulation=parts)
    train([(Perceptron((value,), ()), 0.1)], loss, ROWS, block)
    assert seen == [epoch for epoch in range(4) for _ in range(parts)]


def test_more_parts_than_pairs_are_refused():
    with pytest.raises(TrainingError, match="accumulation: found 21, expected at most 20, which"):
        train_together(*problem(), SCALES, accumulation=21)


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
    value = torch.zeros(4, 1, 1, requires_grad=True)
    steps = []

    def loss(part, epoch):
        terms = (value - 1).square().sum((1, 2))
        if epoch >= bad:
            terms = torch.where(torch.arange(4) == 2, terms * torch.nan, terms)
        return torch.stack([torch.zeros(4), terms])

    with pytest.raises(TrainingError, match=f"loss of model 2 is not finite at epoch {bad}; "):
        train(
            [(Perceptron((value,), ()), 0.1)],
            loss,
            ROWS,
            parameters(epochs=epochs),
            report=steps.append,
        )
    # It stops at the next look, within 50 epochs, and says nothing of the rest.
    assert bad < len(steps) + 1 <= bad + 50


def test_a_parameter_that_is_not_finite_after_the_last_step_is_named():
    # The root of zero has no slope: a finite loss, and a gradient that is infinite.
    value = torch.tensor([4.0, 0.0, 4.0]).reshape(3, 1, 1).requires_grad_()
    with pytest.raises(TrainingError, match="a parameter of model 1 is not finite after epoch 0; "):
        train(
            [(Perceptron((value,), ()), 0.1)],
            lambda part, epoch: value.sqrt().sum((1, 2))[None],
            ROWS,
            parameters(epochs=1),
        )


def test_the_error_calls_the_model_what_the_caller_calls_it():
    value = torch.zeros(2, 1, 1, requires_grad=True)
    with pytest.raises(TrainingError, match="the loss of number 1 is not"):
        train(
            [(Perceptron((value,), ()), 0.1)],
            lambda part, epoch: (value / torch.tensor([1.0, 0.0]).reshape(2, 1, 1)).sum((1, 2))[
                None
            ],
            ROWS,
            parameters(epochs=1),
            name="number {}".format,
        )


def test_reports_add_up():
    done = []
    train_together(*problem(), SCALES, report=done.append)
    assert sum(done) == EPOCHS * len(SCALES)


def test_every_model_has_its_history_in_the_table():
    # Two members of three folds: model member * 3 + fold. Two terms, of which the first counts up.
    values = torch.arange(12 * 2 * 6.0).reshape(12, 2, 6)
    block = decoder_parameters(epochs=12, learning_rate=0.5, schedule="constant")
    header, *lines = history_csv(values, ("reconstruction", "length"), 3, block).splitlines()
    assert header == "epoch,fold,member,reconstruction,length,learning_rate"
    rows = [tuple(map(float, line.split(","))) for line in lines]
    assert len(rows) == 6 * 4
    assert rows[:4] == [
        (0, 0, 0, 0, 6, 0.5),
        (5, 0, 0, 60, 66, 0.5),
        (10, 0, 0, 120, 126, 0.5),
        (11, 0, 0, 132, 138, 0.5),
    ]
    assert [row for row in rows if row[1:3] == (1, 1)] == [
        (0, 1, 1, 4, 10, 0.5),
        (5, 1, 1, 64, 70, 0.5),
        (10, 1, 1, 124, 130, 0.5),
        (11, 1, 1, 136, 142, 0.5),
    ]


def test_the_learning_rate_in_the_table_is_that_of_the_epoch():
    block = decoder_parameters(epochs=6, learning_rate=0.5)
    _, *lines = history_csv(torch.zeros(6, 1, 1), ("loss",), 1, block).splitlines()
    rates = [float(line.split(",")[-1]) for line in lines]
    expected = [0.25 * (1 + math.cos(math.pi * epoch / 6)) for epoch in (0, 5)]
    assert rates == pytest.approx(expected, rel=1e-5)  # six digits are written


def test_the_last_loss_of_a_model_is_the_sum_of_its_terms_before_the_last_step():
    history = torch.arange(3 * 2 * 4.0).reshape(3, 2, 4)
    assert last_losses(history).tolist() == [16 + 20, 17 + 21, 18 + 22, 19 + 23]


def test_a_history_without_epochs_is_a_table_without_rows():
    table = history_csv(torch.zeros(0, 1, 6), ("loss",), 3, decoder_parameters())
    assert table == "epoch,fold,member,loss,learning_rate\n"


@pytest.mark.slow
def test_training_does_without_the_compiler_of_torch():
    """Which takes longer to import than a small training does."""
    code = (
        "import sys; from tests.training.test_trainer import problem, train_together; "
        "train_together(*problem(), (1.0,) * 3); sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
