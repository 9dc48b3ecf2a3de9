"""Upper tail of the F distribution on any device, by continued fractions of a fixed length.

With m and n degrees of freedom, a = n / 2, b = m / 2 and y = n / (n + m F), the tail is I_y(a, b)
or 1 - I_{1-y}(b, a). The fraction of the first converges fast for F > 1, that of the second for
F < 1, and both are slowest at F = 1. As the two add up to 1 there, they give the beta function
without logarithms of gamma functions, which cancel for large m and n.

Source: NIST Digital Library of Mathematical Functions, https://dlmf.nist.gov/8.17, equations 8.17.4
and 8.17.22.
"""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

STEP = 32
"""Terms that a fraction gets more of until they change no digit of it at F = 1."""


class FTail:
    """Upper tail of the F distribution.

    Args:
        above: degrees of freedom of the numerator.
        below: those of the denominator.
        place: device of the ratios, with double precision.
    """

    def __init__(self, above: float, below: float, place: torch.device) -> None:
        a = np.array([[below], [above]]) / 2
        b = a[::-1]
        shares, terms = a / a.sum(), np.empty((2, 0))
        before, found = np.zeros(2), np.ones(2)
        while (abs(found - before) > 1e-15 * found).any():
            order = np.arange(1, terms.shape[1] + STEP + 1)
            half = order // 2
            factors = np.where(order % 2, -(a + half) * (a + b + half), half * (b - half))
            terms = factors / ((a + order - 1) * (a + order))
            before, found = found, _fraction((terms * shares).T)
        self._log_beta = float((a * np.log(shares)).sum() + np.log((1 / (a.T * found)).sum()))
        self._relation = above / below
        self._sides, self._terms = (torch.from_numpy(part).to(place) for part in (a, terms))

    def __call__(self, ratios: Float[Tensor, "value"]) -> Float[Tensor, "value"]:
        """Probability of a ratio at least as large.

        Args:
            ratios: values of F, not negative.
        """
        odds = self._relation * ratios
        large = ratios > 1
        (of_large, of_small), (a, b) = self._terms, self._sides
        terms = torch.where(large, of_large[:, None], of_small[:, None])
        fraction = _fraction(terms / (1 + torch.where(large, odds, 1 / odds)))
        power = -a * odds.log1p() - b * (1 / odds).log1p() - self._log_beta
        found = power.exp() / (fraction * torch.where(large, a, b))
        return torch.where(large, found, 1 - found)


def _fraction(terms: Any) -> Any:
    """1 + t_1 / (1 + t_2 / (1 + ...)) of every column, of arrays or tensors."""
    found = 1.0
    for term in reversed(terms):
        found = 1 + term / found
    return found
