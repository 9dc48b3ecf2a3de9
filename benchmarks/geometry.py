"""Slow and readable ways to a Christoffel symbol, and tables for the terminal."""

from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import softplus

from geonode.geometry.metric import FLOOR, Metric

NODES = 2000
Rows = Float[Tensor, "model row"]
Table = list[dict[str, Any]]


def log_sqrt_at(metric: Metric, positions: Rows, wavelengths: Rows) -> Rows:
    """Ln sqrt(g) without a derivative."""
    value = metric.network(torch.stack([positions, wavelengths], dim=-1)).squeeze(-1)
    return 0.5 * torch.log(softplus(value) + FLOOR)


def autodiff(metric: Metric, positions: Rows, wavelengths: Rows) -> Rows:
    """Christoffel symbol by `torch.func`: the derivative of one row, mapped over all rows."""

    def one_row(x: Tensor, w: Tensor) -> Tensor:
        along = partial(log_sqrt_at, metric, wavelengths=w[:, None])
        slope: Tensor = torch.func.jvp(along, (x[:, None],), (torch.ones_like(x)[:, None],))[1]
        return slope[:, 0]

    return torch.func.vmap(one_row, in_dims=1, out_dims=1)(positions, wavelengths)


def finite_difference(metric: Metric, positions: Rows, wavelengths: Rows) -> Rows:
    """Christoffel symbol by central differences with the step eps^(1/3).

    That step balances the error h^2 / 6 of the third derivative against eps / h of rounding, so
    about two thirds of the digits are right. Source: W. H. Press et al., Numerical Recipes, 3rd
    ed., section 5.7.
    """
    step = torch.finfo(positions.dtype).eps ** (1 / 3)
    below, above = positions - step, positions + step  # not exactly 2 h apart
    low, high = (log_sqrt_at(metric, x, wavelengths) for x in (below, above))
    return (high - low) / (above - below)


def largest(errors: Float[Tensor, "..."]) -> float:
    """Largest magnitude."""
    return float(errors.abs().max())


def markdown(table: Table) -> str:
    """A table as Markdown: counts whole, sizes to three digits, errors to two."""

    def cell(value: Any) -> str:
        if isinstance(value, float) and value < 1000:
            return f"{value:.3g}" if value >= 0.01 or not value else f"{value:.1e}"
        return f"{value:,.0f}" if isinstance(value, int | float) else str(value)

    lines: Iterable[Iterable[str]] = [
        table[0],
        ["---"] * len(table[0]),
        *([cell(value) for value in row.values()] for row in table),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
