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


class Scales(NamedTuple):
    """Scales of the charts with one."""

    kappa: Float[Tensor, "fold scale 1"]  # of asinh
    half: Float[Tensor, "fold scale 1"]  # h of Langmuir's


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
    raw = arc_lengths(scales(levels), torch.cat([levels, targets], dim=1))
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
    found = scales(levels)
    raw = arc_lengths(found, levels[:, [0, -1]])
    length = raw[..., 1:] - raw[..., :1]
    valid = positions(levels, targets).valid
    return torch.where(valid, 2 * slopes(found, targets) / length, torch.nan)


def arc_lengths(
    found: Scales, values: Float[Tensor, "fold value"]
) -> Float[Tensor, "fold chart value"]:
    """Arc lengths on every chart from an arbitrary origin."""
    value = values[:, None]
    of_asinh, of_langmuir = torch.asinh(value / found.kappa), value / (value + found.half)
    return torch.cat([value, of_asinh, torch.log(value), of_langmuir], dim=1)


def slopes(found: Scales, values: Float[Tensor, "fold value"]) -> Float[Tensor, "fold chart value"]:
    """Derivatives of `arc_lengths` by the values."""
    value, (kappa, half) = values[:, None], found
    of_asinh, of_langmuir = 1 / torch.hypot(value, kappa), half / (value + half) ** 2
    return torch.cat([torch.ones_like(value), of_asinh, 1 / value, of_langmuir], dim=1)


def scales(levels: Float[Tensor, "fold level"]) -> Scales:
    """Scales of the charts of levels, evenly spaced on a logarithmic scale."""
    lowest = torch.where(levels > 0, levels, torch.inf).amin(dim=1)
    highest = levels.amax(dim=1)
    return Scales(_spaced(lowest / 3, 2 * highest, KAPPAS), _spaced(lowest, 2 * highest, HALVES))


def _spaced(low: Tensor, high: Tensor, count: int) -> Tensor:
    share = torch.linspace(0, 1, count, dtype=low.dtype, device=low.device)[:, None]
    return torch.exp(
        torch.log(low)[:, None, None] * (1 - share) + torch.log(high)[:, None, None] * share
    )
