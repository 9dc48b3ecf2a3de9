import pytest
import torch

from geonode.learning.adam import BatchedAdam, learning_rates

STEPS, MODELS = 30, 3
RATES = (0.1, 0.003)


def first_values(dtype):
    random = torch.Generator().manual_seed(0)
    shapes = [[(4, 2), (1, 2)], [(5,)]]
    return [
        [torch.randn(MODELS, *shape, generator=random).to(dtype) for shape in group]
        for group in shapes
    ]


def loss_of(groups):
    """Not a square, so that gradients change by more than a factor."""
    return sum((part - 1).pow(4).sum() + part.sin().sum() for group in groups for part in group)


def trained(dtype):
    groups = [[part.requires_grad_() for part in group] for group in first_values(dtype)]
    adam = BatchedAdam(groups)
    for step in range(STEPS):
        adam.forget()
        loss_of(groups).backward()
        adam.prepare(step, [rate / (1 + step) for rate in RATES])
        adam.step()
    return [part.detach() for group in groups for part in group], adam


def trained_by_torch(dtype):
    groups = [[part.requires_grad_() for part in group] for group in first_values(dtype)]
    adam = torch.optim.Adam([{"params": group} for group in groups], foreach=False, fused=False)
    for step in range(STEPS):
        adam.zero_grad()
        loss_of(groups).backward()
        for group, rate in zip(adam.param_groups, RATES, strict=True):
            group["lr"] = rate / (1 + step)
        adam.step()
    return [part.detach() for group in groups for part in group], adam


@pytest.mark.parametrize(("dtype", "error"), [(torch.float64, 1e-13), (torch.float32, 2e-6)])
def test_steps_are_those_of_torch(dtype, error):
    found, adam = trained(dtype)
    expected, by_torch = trained_by_torch(dtype)
    for place, (mine, other) in enumerate(zip(found, expected, strict=True)):
        torch.testing.assert_close(mine, other, rtol=error, atol=error)
        state = list(by_torch.state.values())[place]
        torch.testing.assert_close(adam.first[place], state["exp_avg"], rtol=error, atol=error)
        torch.testing.assert_close(adam.second[place], state["exp_avg_sq"], rtol=error, atol=error)


@pytest.mark.parametrize(("rate", "epochs"), [(0.005, 500), (0.01, 3), (0.3, 1)])
def test_the_cosine_schedule_is_that_of_torch(rate, epochs):
    optimiser = torch.optim.SGD([torch.zeros(1)], lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)
    expected = []
    for _ in range(epochs):
        expected.append(schedule.get_last_lr()[0])
        optimiser.step()
        schedule.step()
    assert learning_rates(rate, epochs) == pytest.approx(expected, rel=1e-9)
