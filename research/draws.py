"""Random numbers of one seeded generator, in double precision on its device."""

from collections.abc import Callable
from dataclasses import dataclass
from math import log

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Draws:
    """Draws from a generator."""

    generator: torch.Generator  # generator of PyTorch, on the device of the draws

    @classmethod
    def of(cls, seed: int, device: torch.device) -> "Draws":
        """Draws from a new generator."""
        return cls(torch.Generator(device).manual_seed(seed))

    @property
    def device(self) -> torch.device:
        """Device of the draws."""
        return self.generator.device

    def uniform(self, *size: int, low: float = 0.0, high: float = 1.0) -> Float[Tensor, "..."]:
        """Uniform numbers between two bounds."""
        return low + (high - low) * self._draw(torch.rand, size)

    def log_uniform(self, *size: int, low: float, high: float) -> Float[Tensor, "..."]:
        """Log-uniform numbers between two positive bounds."""
        return torch.exp(self.uniform(*size, low=log(low), high=log(high)))

    def perhaps(self, share: float, *size: int, low: float, high: float) -> Float[Tensor, "..."]:
        """Log-uniform numbers in a share of the cases, else zero."""
        return self.log_uniform(*size, low=low, high=high) * self.chance(share, *size)

    def normal(self, *size: int) -> Float[Tensor, "..."]:
        """Standard normal numbers."""
        return self._draw(torch.randn, size)

    def chance(self, share: float, *size: int) -> Bool[Tensor, "..."]:
        """Booleans that are true with a probability."""
        return self.uniform(*size) < share

    def choice(self, shares: tuple[float, ...], count: int) -> Int[Tensor, "count"]:
        """Indices drawn with probabilities proportional to the shares."""
        weights = torch.tensor(shares, dtype=torch.float64, device=self.device)
        return torch.multinomial(weights, count, replacement=True, generator=self.generator)

    def one_of(
        self, every: Float[Tensor, "series kind level"], shares: tuple[float, ...]
    ) -> Float[Tensor, "series level"]:
        """One of the kinds of every series, with probabilities proportional to the shares."""
        place = torch.arange(len(every), device=self.device)
        return every[place, self.choice(shares, len(every))]

    def _draw(self, kind: Callable[..., Tensor], size: tuple[int, ...]) -> Tensor:
        return kind(*size, generator=self.generator, dtype=torch.float64, device=self.device)
