"""Corrections of the first velocity when shooting: by Newton's method, L-BFGS and Adam."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

State = tuple[Float[Tensor, "row"], ...]
"""Of every row: the distance from start to end (chart units, positive), and three numbers that a
method remembers, zero at first."""


@runtime_checkable
class ShootingMethod(Protocol):
    """Correction of velocities, elementwise, so that rows do not influence each other."""

    @property
    def iterations(self) -> int:
        """Corrections at most."""

    def __call__(
        self,
        state: State,
        miss: Float[Tensor, "row"],
        sensitivity: Float[Tensor, "row"],
        iteration: int,
    ) -> tuple[Float[Tensor, "row"], State]:
        """Steps to add to the velocities, and the new state.

        Args:
            state: distance, and what was remembered.
            miss: x(1) minus the target.
            sensitivity: d x(1) / d v0, positive.
            iteration: corrections made before, the same number for all rows.
        """


@dataclass(frozen=True)
class Newton:
    """Newton's method: divide the miss by its derivative. Steps are quadratic, as it is exact.

    Attributes:
        iterations: corrections at most. A good guess takes three; eight square an error away from
            anywhere that Newton's method converges from.
    """

    iterations: int = 8

    def __call__(
        self,
        state: State,
        miss: Float[Tensor, "row"],
        sensitivity: Float[Tensor, "row"],
        iteration: int,  # noqa: ARG002
    ) -> tuple[Float[Tensor, "row"], State]:
        """Step to add to the velocity."""
        return -miss / sensitivity, state


@dataclass(frozen=True)
class LBFGS:
    """L-BFGS on half the square of the miss: gradients alone, and the latest pair of them.

    A row has one unknown, its velocity. There the two-loop recursion with any memory is the step
    divided by the change of gradient of the latest pair, s / y, for the latest pair alone fulfils
    the secant equation (J. Nocedal and S. J. Wright, Numerical Optimization, 2nd ed., algorithm
    7.4). `torch.optim.LBFGS` will not do: all rows would share its line search and its dot
    products, and the hardest would hold up the others. The first step is scaled by the curvature
    that a linear miss would have, the square of its sensitivity (section 10.3).

    Attributes:
        iterations: corrections at most.
        longest: step at most, in units of the distance to go.
    """

    iterations: int = 30
    longest: float = 0.5

    def __call__(
        self,
        state: State,
        miss: Float[Tensor, "row"],
        sensitivity: Float[Tensor, "row"],
        iteration: int,
    ) -> tuple[Float[Tensor, "row"], State]:
        """Step to add to the velocity."""
        distance, inverse, latest, earlier = state
        gradient = miss * sensitivity
        if iteration:
            rise = gradient - earlier
            # a pair of negative curvature is left out (section 7.2)
            inverse = torch.where(rise * latest > 0, latest / rise, inverse)
        else:
            inverse = 1 / sensitivity.square()
        longest = self.longest * distance
        step = (-inverse * gradient).clamp(-longest, longest)
        return step, (distance, inverse, step, gradient)


@dataclass(frozen=True)
class Adam:
    """Adam on half the square of the miss, with a learning rate that decays geometrically.

    Velocities are in units of the distance. Where the end is more sensitive than that, the unit is
    smaller by as much. A step is about as long as the learning rate, whatever the gradient. Short
    memories suit a gradient that shrinks by orders of magnitude: untrained networks with Xavier
    gains up to 3 take 20 to 22 corrections to a tolerance of 1e-6.

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

    def __call__(
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
