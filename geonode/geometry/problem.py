"""Boundary value problems: which concentrations are joined; and their solutions."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geonode.errors import GeometryError


@dataclass(frozen=True)
class BoundaryValueProblem:
    """x'' = -G(x, w) x'^2 on t in [0, 1] with x(0) = source and x(1) = target, for every pair.

    Raises:
        GeometryError: stations are out of order, equal in their number format, or off the chart.
    """

    stations: Float[Tensor, "station"]
    """Ascending chart positions between which geodesics run, in [-1, 1]."""
    source: Int[Tensor, "pair"]
    target: Int[Tensor, "pair"]
    """Index of the station at which each geodesic starts and ends; they differ."""

    def __post_init__(self) -> None:
        """Refuse stations that would lead to empty paths or off the grid."""
        stations = self.stations
        if not ((stations.abs() <= 1).all() and (stations.diff() > 0).all()):
            raise GeometryError(
                f"stations: found {stations.tolist()}, expected ascending chart positions from -1 "
                "to 1"
            )

    @classmethod
    def all_pairs(cls, stations: Float[Tensor, "station"]) -> "BoundaryValueProblem":
        """Every ordered pair of different stations, sources outermost."""
        source, target = ordered_pairs(len(stations))
        return cls(stations, source.to(stations.device), target.to(stations.device))


def ordered_pairs(count: int) -> tuple[Int[Tensor, "pair"], Int[Tensor, "pair"]]:
    """Indices (source, target) of every ordered pair of different items, sources outermost."""
    pairs = torch.cartesian_prod(torch.arange(count), torch.arange(count))
    source, target = pairs[pairs[:, 0] != pairs[:, 1]].T
    return source, target


class Solution(NamedTuple):
    """Solved boundary value problems, one row for each."""

    v0: Float[Tensor, "*rows"]  # velocity x'(0), chart units
    residual: Float[Tensor, "*rows"]  # x(1) that v0 leads to minus the target, chart units
    converged: Bool[Tensor, "*rows"]  # whether a row reached its target within the tolerance
    evaluations: Int[Tensor, "*rows"]  # positions at which the row asked for the geometry


def converged(
    v0: Float[Tensor, "*rows"], residual: Float[Tensor, "*rows"], tolerance: float
) -> Bool[Tensor, "*rows"]:
    """True where rows have converged; residuals and velocities that are not finite have not."""
    return (residual.abs() <= tolerance) & torch.isfinite(v0)
