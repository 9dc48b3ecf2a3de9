"""Learning-rate schedules: factors of the learning rate by epoch.

Every schedule is a function of the epoch (from 0) and of the number of epochs. `cosine` is that of
I. Loshchilov and F. Hutter, SGDR, ICLR 2017, equation 5, without restarts.
"""

import math
from collections.abc import Callable


def cosine(epoch: int, epochs: int) -> float:
    """Half a cosine wave from one to zero; zero is reached one epoch after the last."""
    return (1 + math.cos(math.pi * epoch / epochs)) / 2


def constant(epoch: int, epochs: int) -> float:
    """Constant factor of one."""
    del epoch, epochs
    return 1.0


def warmup_cosine(epoch: int, epochs: int) -> float:
    """Linear rise to one over a tenth of the epochs, then half a cosine wave to zero."""
    rising = epochs // 10
    if epoch < rising:
        return (epoch + 1) / (rising + 1)
    return cosine(epoch - rising, epochs - rising)


SCHEDULES: dict[str, Callable[[int, int], float]] = {
    "cosine": cosine,
    "constant": constant,
    "warmup_cosine": warmup_cosine,
}


def learning_rates(schedule: str, rate: float, epochs: int) -> list[float]:
    """Learning rate of every epoch.

    Each rate is the previous one times the ratio of their factors, as in
    `torch.optim.lr_scheduler.CosineAnnealingLR`, with which `cosine` agrees to the bit.

    Args:
        schedule: a key of `SCHEDULES`.
        rate: learning rate before the schedule.
        epochs: number of epochs.
    """
    share = SCHEDULES[schedule]
    rates = [rate * share(0, epochs)]
    for epoch in range(1, epochs):
        rates.append(share(epoch, epochs) / share(epoch - 1, epochs) * rates[-1])
    return rates
