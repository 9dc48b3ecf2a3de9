"""Metrics whose geometry is known, and networks that have not been trained."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from scipy.special import erfi
from torch import Tensor

from geonode.geometry.field import Field
from geonode.geometry.grid import Grid, matched, uniform_nodes
from geonode.geometry.metric import SIZES, Metric
from geonode.geometry.perceptron import Perceptron

CPU = torch.device("cpu")


class Known(NamedTuple):
    """A metric of position alone, by formula.

    log_sqrt is u = ln sqrt(g), symbol is u'; arc_length is an antiderivative of sqrt(g), inverse
    its inverse, moment an antiderivative of x sqrt(g), and lowest the position of the smallest g
    in [-1, 1] where it is not an end.
    """

    log_sqrt: Callable[[Tensor], Tensor]
    symbol: Callable[[Tensor], Tensor]
    arc_length: Callable[[Tensor], Tensor]
    moment: Callable[[Tensor], Tensor]
    inverse: Callable[[Tensor], Tensor] | None = None
    lowest: float | None = None


def exponential(a: float) -> Known:
    """g = exp(2 a x)."""
    return Known(
        lambda x: a * x,
        lambda x: a + 0 * x,
        lambda x: torch.exp(a * x) / a,
        lambda x: torch.exp(a * x) * (a * x - 1) / a**2,
        lambda s: torch.log(a * s) / a,
    )


def constant(g: float) -> Known:
    root = g**0.5
    return Known(
        lambda x: torch.log(root + 0 * x),
        lambda x: 0 * x,
        lambda x: root * x,
        lambda x: root * x**2 / 2,
        lambda s: s / root,
    )


def valley(at: float) -> Known:
    """Ln sqrt(g) = (x - at)^2; its arc length is the imaginary error function."""

    def arc_length(x: Tensor) -> Tensor:
        return torch.pi**0.5 / 2 * torch.from_numpy(erfi((x - at).numpy()))

    return Known(
        lambda x: (x - at) ** 2,
        lambda x: 2 * (x - at),
        arc_length,
        lambda x: torch.exp((x - at) ** 2) / 2 + at * arc_length(x),
        lowest=at,
    )


RECIPROCAL = Known(  # g = 1 / (1 + x/2)^2
    lambda x: -torch.log1p(x / 2),
    lambda x: -1 / (2 + x),
    lambda x: 2 * torch.log1p(x / 2),
    lambda x: 2 * x - 4 * torch.log(2 + x),
    lambda s: 2 * torch.expm1(s / 2),
)
KNOWN = (exponential(0.7), exponential(-1.9), RECIPROCAL, constant(2.5), valley(0.1234))


def nodes(resolution: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return uniform_nodes(resolution, CPU, dtype)


def stretched(resolution: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Nodes from -1 to 1 whose cells differ by up to a factor of about 5."""
    x = nodes(resolution)
    return (x + 0.2 * torch.sin(torch.pi * x)).to(dtype)


def columns(functions: Sequence[Callable[[Tensor], Tensor]], x: Tensor) -> Tensor:
    """One column for each function, evaluated in float64 and rounded to the format of x."""
    return torch.stack([function(x.double()) for function in functions], dim=-1).to(x.dtype)


def grid_of(metrics: Sequence[Known], positions: Tensor) -> Grid:
    """The exact grid, with one of the metrics for each wavelength."""
    return Grid(
        positions,
        columns([metric.log_sqrt for metric in metrics], positions),
        columns([metric.symbol for metric in metrics], positions),
    )


def random_metric(seed: int, gain: float = 1.0, models: int = 1) -> Metric:
    """Float64 metrics with Xavier weights times a gain."""
    network = Perceptron.initial(SIZES, [(seed, model) for model in range(models)])
    network = network.to(CPU, torch.float64)
    return Metric(Perceptron(tuple(gain * w for w in network.weights), network.biases))


@dataclass(frozen=True)
class DirectSource:
    """Grids by calls of the network alone: slow, and right for any metric."""

    metric: Metric
    wavelengths: Tensor

    def grid(self, model: int, positions: Tensor) -> Grid:
        like = self.metric.network.parameters[0]
        at = matched(positions, like)[None], matched(self.wavelengths, like)
        tables = self.metric[model].with_symbol(*at)
        return Grid(positions, *(table[0].to(positions) for table in tables))


def order(steps: Sequence[float], errors: Sequence[float]) -> float:
    """Slope of log error over log step."""
    x, y = (torch.tensor(values, dtype=torch.float64).log() for values in (steps, errors))
    x = x - x.mean()
    return float((x * y).sum() / x.square().sum())


def field_of(metrics: Sequence[Known]) -> Field:
    """One known metric for each row."""

    def geometry(positions: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
        rows = [*zip([metrics[row] for row in which.tolist()], positions, strict=True)]
        log_sqrt = torch.stack([metric.log_sqrt(x) for metric, x in rows])
        return log_sqrt, torch.stack([metric.symbol(x) for metric, x in rows])

    return Field(geometry, torch.arange(len(metrics)))
