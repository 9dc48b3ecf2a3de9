"""Boundary value problems: which concentrations are joined."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geonode.errors import GeometryError


@dataclass(frozen=True)
class BoundaryValueProblem:
    """x'' = -G(x, w) x'^2 on t in [0, 1] with x(0) = source and x(1) = target, for every pair.

    Attributes:
        stations: ascending chart positions between which geodesics run, in [-1, 1].
        source, target: index of the station at which each geodesic starts and ends.
    """

    stations: Float[Tensor, "station"]
    source: Int[Tensor, "pair"]
    target: Int[Tensor, "pair"]

    def __post_init__(self) -> None:
        """Refuse stations that are out of order or off the chart, and empty paths.

        Raises:
            GeometryError: naming what was found.
        """
        stations = self.stations
        if not ((stations >= -1) & (stations <= 1)).all():
            raise GeometryError(
                f"stations: found {stations.tolist()}, expected chart positions from -1 to 1"
            )
        if not (stations.diff() > 0).all():
            raise GeometryError(
                f"stations: found {stations.tolist()}, expected ascending positions"
            )
        if (self.source == self.target).any():
            raise GeometryError("source and target of a geodesic are equal; expected two stations")

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
