"""Shooting by Adam: half the square of the miss, minimised by gradients alone."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from geonode.geodesics.solvers.shooting import State


@dataclass(frozen=True)
class Adam:
    """Adam in units of the distance, with a learning rate that decays geometrically.

    Where the end is more sensitive than that, the unit is smaller by as much. A step is about as
    long as the learning rate, whatever the gradient. Short memories suit a gradient that shrinks
    by orders of magnitude: untrained networks with Xavier gains up to 3 take 20 to 22 corrections
    to a tolerance of 1e-6.

    Source: D. P. Kingma and J. Ba, Adam: a method for stochastic optimization, ICLR 2015,
    algorithm 1.

    Attributes:
        iterations: corrections at most. With fewer the learning rate decays too soon: at half of
            them it leaves rows behind.
        first_rate, last_rate: learning rate of the first and the last of them.
        first_decay, second_decay: of the running means of gradient and square.
        largest: gradient at most.
    """

    iterations: int = 80
    first_rate: float = 0.05
    last_rate: float = 1e-7
    first_decay: float = 0.3
    second_decay: float = 0.8
    largest: float = 1.0

    def begin(self, distance: Float[Tensor, "row"]) -> State:
        """Distance, unit of velocity, and the running means."""
        none = torch.zeros_like(distance)
        return distance.abs(), none, none, none

    def change(
        self,
        state: State,
        miss: Float[Tensor, "row"],
        sensitivity: Float[Tensor, "row"],
        iteration: int,
    ) -> tuple[Float[Tensor, "row"], State]:
        """Step to add to the velocity."""
        distance, unit, mean, square = state
        if not iteration:
            unit = distance / sensitivity.clamp(min=1)
        gradient = miss / distance * sensitivity * (unit / distance)
        gradient = gradient.clamp(-self.largest, self.largest)
        mean = self.first_decay * mean + (1 - self.first_decay) * gradient
        square = self.second_decay * square + (1 - self.second_decay) * gradient.square()
        unbiased = mean / (1 - self.first_decay ** (iteration + 1))
        scale = (square / (1 - self.second_decay ** (iteration + 1))).sqrt()
        decay = (self.last_rate / self.first_rate) ** (iteration / max(self.iterations - 1, 1))
        # so small a constant that only a gradient of zero feels it
        step = self.first_rate * decay * unbiased / (scale + torch.finfo(scale.dtype).tiny)
        return -unit * step, (distance, unit, mean, square)
