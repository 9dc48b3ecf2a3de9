"""Three ways to the Christoffel symbol of a metric network, which must agree.

In one dimension there is one symbol, G = 1/2 d/dx ln g = d/dx ln sqrt(g) (M. P. do Carmo,
Riemannian Geometry, chapter 2, equation 10). The pipeline uses `analytic`; the others are there
to prove it, and for metrics whose derivative nobody has written down.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from geonode.geometry.metric import Metric

Rows = Float[Tensor, "model row"]
SymbolMethod = Callable[[Metric, Rows, Rows], tuple[Rows, Rows]]
"""(metric, positions, wavelengths) to (ln sqrt(g), G), all rows on their own."""


def analytic(
    metric: Metric, positions: Float[Tensor, "model row"], wavelengths: Float[Tensor, "model row"]
) -> tuple[Float[Tensor, "model row"], Float[Tensor, "model row"]]:
    """By the derivative that the network carries along in the same pass: exact, twice the work."""
    return metric.at_points(positions, wavelengths)


def autodiff(
    metric: Metric, positions: Float[Tensor, "model row"], wavelengths: Float[Tensor, "model row"]
) -> tuple[Float[Tensor, "model row"], Float[Tensor, "model row"]]:
    """By `torch.func`: the Jacobian-vector product of one row, mapped over all rows."""

    def one_row(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        def log_sqrt(x: Tensor) -> Tensor:
            return metric.log_sqrt_at(x[:, None], w[:, None])[:, 0]

        value, slope = torch.func.jvp(log_sqrt, (x,), (torch.ones_like(x),))[:2]
        return value, slope

    return torch.func.vmap(one_row, in_dims=1, out_dims=1)(positions, wavelengths)


def finite_difference(
    metric: Metric, positions: Float[Tensor, "model row"], wavelengths: Float[Tensor, "model row"]
) -> tuple[Float[Tensor, "model row"], Float[Tensor, "model row"]]:
    """By central differences with the step eps^(1/3).

    That step balances the error h^2 / 6 of the third derivative against eps / h of rounding, so
    about two thirds of the digits are right. Source: W. H. Press et al., Numerical Recipes, 3rd
    ed., section 5.7.
    """
    step = torch.finfo(positions.dtype).eps ** (1 / 3)
    below, above = positions - step, positions + step  # not exactly 2 h apart
    low, middle, high = (metric.log_sqrt_at(x, wavelengths) for x in (below, positions, above))
    return middle, (high - low) / (above - below)


SYMBOLS: dict[str, SymbolMethod] = {
    "analytic": analytic,
    "autodiff": autodiff,
    "finite_difference": finite_difference,
}
