"""Charts of concentration: the arc lengths of the one-dimensional metrics of the dictionary.

A chart x(c) is the arc length of the metric g(c) = (dx/dc)^2, scaled to -1 and 1 at the ends of the
training levels. There are the linear chart (a flat metric), asinh(c / kappa), ln c, and Langmuir's
c / (c + h). The scales kappa and h span the training levels, so that charts need no unit.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

KAPPAS, HALVES = 5, 3
FAMILIES = ("linear", *("asinh",) * KAPPAS, "log", *("langmuir",) * HALVES)
"""Family of every chart of the dictionary."""

LOG = FAMILIES.index("log")
LARGEST_POSITION = 1e12
"""Largest absolute position; targets further away are clamped to it."""


class Positions(NamedTuple):
    """Training levels and targets on every chart."""

    levels: Float[Tensor, "fold chart level"]  # scaled to -1 and 1 at the ends
    targets: Float[Tensor, "fold chart target"]  # outside of [-1, 1] beyond the training levels
    valid: Bool[Tensor, "fold chart target"]
    """True where all levels and the target are in the domain of the chart, as zero is not in that
    of the logarithm."""


def positions(
    levels: Float[Tensor, "fold level"], targets: Float[Tensor, "fold target"]
) -> Positions:
    """Levels and targets on every chart, or on the linear one where a chart is not valid.

    Both are concentrations, none negative; levels ascend.
    """
    count = levels.shape[1]
    raw, _ = arc_lengths(levels, torch.cat([levels, targets], dim=1))
    low, high = raw[..., :1], raw[..., count - 1 : count]
    scaled = 2 * (raw - low) / (high - low) - 1
    positive = (levels > 0).all(dim=1, keepdim=True)
    has_logarithm = torch.cat([positive.expand_as(levels), positive & (targets > 0)], dim=1)
    scaled[:, LOG] = torch.where(has_logarithm, scaled[:, LOG], scaled[:, 0])
    valid = torch.ones_like(scaled[..., count:], dtype=torch.bool)
    valid[:, LOG] = has_logarithm[:, count:]
    scaled = scaled.clamp(-LARGEST_POSITION, LARGEST_POSITION)
    return Positions(scaled[..., :count], scaled[..., count:], valid)


def sqrt_metrics(
    levels: Float[Tensor, "fold level"], targets: Float[Tensor, "fold target"]
) -> Float[Tensor, "fold chart target"]:
    """sqrt(g) = dx/dc of every chart (per unit of concentration); NaN where it is not valid."""
    raw, slopes = arc_lengths(levels, torch.cat([levels[:, [0, -1]], targets], dim=1))
    length = raw[..., 1:2] - raw[..., :1]
    valid = positions(levels, targets).valid
    return torch.where(valid, 2 * slopes[..., 2:] / length, torch.nan)


def arc_lengths(
    levels: Float[Tensor, "fold level"], values: Float[Tensor, "fold value"]
) -> tuple[Float[Tensor, "fold chart value"], Float[Tensor, "fold chart value"]]:
    """Arc lengths on every chart of levels, from an arbitrary origin, and their derivatives.

    The scales of charts are evenly spaced on a logarithmic scale.
    """
    lowest = torch.where(levels > 0, levels, torch.inf).amin(dim=1)
    largest, value = 2 * levels.amax(dim=1), values[:, None]
    kappa, half = _spaced(lowest / 3, largest, KAPPAS), _spaced(lowest, largest, HALVES)
    lengths = [value, torch.asinh(value / kappa), torch.log(value), value / (value + half)]
    slopes = [
        *(torch.ones_like(value), 1 / torch.hypot(value, kappa)),
        *(1 / value, half / (value + half) ** 2),
    ]
    return torch.cat(lengths, dim=1), torch.cat(slopes, dim=1)


def _spaced(low: Tensor, high: Tensor, count: int) -> Tensor:
    share = torch.linspace(0, 1, count, dtype=low.dtype, device=low.device)[:, None]
    return torch.exp(
        torch.log(low)[:, None, None] * (1 - share) + torch.log(high)[:, None, None] * share
    )
