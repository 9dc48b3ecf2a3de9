import math
from typing import get_args

import pytest
import torch

from geonode.config import TrainingParameters
from geonode.training.schedules import SCHEDULES, learning_rates


@pytest.mark.parametrize("epochs", [1, 2, 7, 10, 500])
def test_cosine_is_the_squared_cosine_of_half_the_angle(epochs):
    expected = [0.03 * math.cos(math.pi * t / (2 * epochs)) ** 2 for t in range(epochs)]
    assert learning_rates("cosine", 0.03, epochs) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("rate", "epochs"), [(0.005, 500), (0.01, 3), (0.3, 1)])
def test_cosine_is_the_schedule_of_torch_to_the_bit(rate, epochs):
    optimiser = torch.optim.SGD([torch.zeros(1)], lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)
    expected = []
    for _ in range(epochs):
        expected.append(schedule.get_last_lr()[0])
        optimiser.step()
        schedule.step()
    assert learning_rates("cosine", rate, epochs) == expected


@pytest.mark.parametrize("epochs", [1, 7, 500])
def test_constant_is_the_first_rate_to_the_bit(epochs):
    assert learning_rates("constant", 0.3, epochs) == [0.3] * epochs


def test_warmup_by_hand():
    # A tenth of 20 epochs: a third, two thirds, then the half wave over the other 18.
    wave = [(1 + math.cos(math.pi * t / 18)) / 2 for t in range(18)]
    expected = [0.6 * share for share in (1 / 3, 2 / 3, *wave)]
    assert learning_rates("warmup_cosine", 0.6, 20) == pytest.approx(expected, rel=1e-12)


def test_without_a_tenth_of_an_epoch_there_is_no_warmup():
    assert learning_rates("warmup_cosine", 0.6, 9) == learning_rates("cosine", 0.6, 9)


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("epochs", [1, 2, 19, 500])
def test_rates_are_positive_and_no_larger_than_the_first_one_that_was_given(name, epochs):
    rates = learning_rates(name, 0.01, epochs)
    assert len(rates) == epochs
    assert all(0 < rate <= 0.01 * (1 + 1e-12) for rate in rates)


def test_every_schedule_can_be_asked_for():
    field = TrainingParameters.model_fields["schedule"]
    assert set(get_args(field.annotation)) == set(SCHEDULES)
