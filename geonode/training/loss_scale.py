"""Losses scaled so that gradients stay inside the range of float16.

Every model has its own factor, so that no model depends on another. A model whose gradient
overflows skips the step and halves its factor; after some steps without an overflow the factor
doubles. Source: P. Micikevicius et al., Mixed precision training, ICLR 2018, section 3.2.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

FIRST, SMALLEST, LARGEST = 2.0**10, 2.0**-10, 2.0**20
STEPS_TO_DOUBLE = 50


class LossScale:
    """Loss scales of many models, on their device.

    Attributes:
        factors: factor of every model.
        steps: steps since the factor last changed.
    """

    def __init__(self, models: int, device: torch.device) -> None:
        self.factors = torch.full((models,), FIRST, device=device)
        self.steps = torch.zeros(models, device=device)

    def unscale(self, gradients: Sequence[Float[Tensor, "model ..."]]) -> Bool[Tensor, "model"]:
        """Divide the gradients by the factors in place, then update the factors.

        Returns:
            Whether the gradient of each model is finite. A gradient that is not is set to zero.
        """
        finite = torch.stack([part.flatten(1).isfinite().all(1) for part in gradients]).all(0)
        for part in gradients:
            shape = (-1, *[1] * (part.dim() - 1))
            part.div_(self.factors.reshape(shape))
            part.masked_fill_(~finite.reshape(shape), 0)
        self.steps.add_(1)
        double = finite & (self.steps >= STEPS_TO_DOUBLE)
        change = torch.where(double, 2.0, torch.where(finite, 1.0, 0.5))
        self.factors.mul_(change).clamp_(max=LARGEST)
        self.steps.masked_fill_(double | ~finite, 0)
        return finite

    def exhausted(self) -> Bool[Tensor, "model"]:
        """Whether a model overflows even at the smallest factor."""
        return self.factors < SMALLEST
