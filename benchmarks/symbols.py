"""Three ways to the Christoffel symbol of a metric network, which must agree.

In one dimension there is one symbol, G = 1/2 d/dx ln g = d/dx ln sqrt(g) (M. P. do Carmo,
Riemannian Geometry, chapter 2, equation 10). The pipeline uses `Metric.at_points`; the others prove
it.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import softplus

from geonode.geometry.metric import FLOOR, Metric

Rows = Float[Tensor, "model row"]
SymbolMethod = Callable[[Metric, Rows, Rows], tuple[Rows, Rows]]
"""(metric, positions, wavelengths) to (ln sqrt(g), G), all rows on their own."""


def log_sqrt_at(metric: Metric, positions: Rows, wavelengths: Rows) -> Rows:
    """Ln sqrt(g) without a derivative."""
    value = metric.network(torch.stack([positions, wavelengths], dim=-1)).squeeze(-1)
    return 0.5 * torch.log(softplus(value) + FLOOR)


def autodiff(metric: Metric, positions: Rows, wavelengths: Rows) -> tuple[Rows, Rows]:
    """By `torch.func`: the Jacobian-vector product of one row, mapped over all rows."""

    def one_row(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        def log_sqrt(x: Tensor) -> Tensor:
            return log_sqrt_at(metric, x[:, None], w[:, None])[:, 0]

        value, slope = torch.func.jvp(log_sqrt, (x,), (torch.ones_like(x),))[:2]
        return value, slope

    return torch.func.vmap(one_row, in_dims=1, out_dims=1)(positions, wavelengths)


def finite_difference(metric: Metric, positions: Rows, wavelengths: Rows) -> tuple[Rows, Rows]:
    """By central differences with the step eps^(1/3).

    That step balances the error h^2 / 6 of the third derivative against eps / h of rounding, so
    about two thirds of the digits are right. Source: W. H. Press et al., Numerical Recipes, 3rd
    ed., section 5.7.
    """
    step = torch.finfo(positions.dtype).eps ** (1 / 3)
    below, above = positions - step, positions + step  # not exactly 2 h apart
    low, middle, high = (log_sqrt_at(metric, x, wavelengths) for x in (below, positions, above))
    return middle, (high - low) / (above - below)


SYMBOLS: dict[str, SymbolMethod] = {
    "analytic": Metric.at_points,
    "autodiff": autodiff,
    "finite_difference": finite_difference,
}
