"""Learning-rate schedules: the share of the given rate that a step of an epoch uses.

Every schedule is a function of the epoch (0 is the first) and of the number of epochs. `cosine`
is that of I. Loshchilov and F. Hutter, SGDR, ICLR 2017, equation 5, without restarts.
"""

import math
from collections.abc import Callable


def cosine(epoch: int, epochs: int) -> float:
    """Half a cosine wave from one down to zero, which it would reach after the last epoch."""
    return (1 + math.cos(math.pi * epoch / epochs)) / 2


def constant(epoch: int, epochs: int) -> float:
    """One throughout."""
    del epoch, epochs
    return 1.0


def warmup_cosine(epoch: int, epochs: int) -> float:
    """Evenly up to one over a tenth of the epochs, then half a cosine wave down to zero."""
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

    Each follows from the one before by the ratio of their shares, as in
    `torch.optim.lr_scheduler.CosineAnnealingLR`, whose rates those of `cosine` are to the bit.

    Args:
        schedule: a key of `SCHEDULES`.
        rate: that the shares are of.
        epochs: number of steps.
    """
    share = SCHEDULES[schedule]
    rates = [rate * share(0, epochs)]
    for epoch in range(1, epochs):
        rates.append(share(epoch, epochs) / share(epoch - 1, epochs) * rates[-1])
    return rates
