"""The boundary value problem in closed form, from a grid.

With S(x) = integral of sqrt(g) dx the geodesic from a to b has speed l = S(b) - S(a), first
velocity v0 = l / sqrt(g(a)) and position x(t) = S^-1(S(a) + t l). Source: the first integral
sqrt(g) x' = const of x'' = -G x'^2 with G = d ln sqrt(g) / dx (M. P. do Carmo, Riemannian
Geometry, chapter 3, in one dimension).
"""

import itertools

import torch
from jaxtyping import Float
from torch import Tensor

from geonode.geometry.antiderivative import Antiderivative
from geonode.geometry.grid import Grid
from geonode.geometry.problem import BoundaryValueProblem, Solution, converged
from geonode.geometry.stations import Stations

EVALUATIONS = 2  # a row looks up its two ends; the integrals between them are tables of the grid


class ClosedForm:
    """Arc length of one grid and all that follows from it."""

    def __init__(self, grid: Grid) -> None:
        root = torch.exp(grid.log_sqrt)
        nodes = grid.positions
        slope = root * grid.symbol
        self.grid = grid
        self.arc_length = Antiderivative.of(nodes, root, slope)
        self._coarse = Antiderivative.of(
            *(torch.cat([table[:-1:2], table[-1:]]) for table in (nodes, root, slope))
        )
        x = nodes[:, None]
        self._moment = Antiderivative.of(nodes, x * root, torch.addcmul(root, x, slope))

    def solve(self, problem: BoundaryValueProblem, tolerance: float) -> Solution:
        """Solve every pair at every wavelength of the grid, as rows (pair, wavelength).

        The residual is an estimate, from the grid and from every second of its nodes, that grows
        with the error of the grid.

        Args:
            problem: what to join; its format and device are those of the grid.
            tolerance: largest residual of a converged row, chart units.
        """
        stations, source, target = problem.stations, problem.source, problem.target
        at_stations = self.arc_length.at(stations)
        root = torch.exp(self.grid.log_sqrt_at(stations))[source]
        v0 = (at_stations[target] - at_stations[source]) / root
        final = stations[target][:, None].expand_as(v0)
        on_fine, on_coarse = (
            length.inverse(length.at(stations)[source] + v0 * root)[0]
            for length in (self.arc_length, self._coarse)
        )
        # Richardson extrapolation: halving a grid divides its error, of order 4, by 16
        residual = (on_fine - final) + (on_fine - on_coarse) / 15
        evaluations = torch.full_like(v0, EVALUATIONS, dtype=torch.int64)
        return Solution(v0, residual, converged(v0, residual, tolerance), evaluations)

    def stations(
        self, positions: Float[Tensor, "station"], wavelengths: Float[Tensor, "wavelength"]
    ) -> Stations:
        """Stations of the geodesics between some ascending positions.

        Beyond the grid the metric keeps its value at the end, as nothing is known there.
        Wavelengths are charted, those of the grid's columns.
        """
        nodes, log_sqrt = self.grid.positions, self.grid.log_sqrt_at(positions)
        inside, root = positions.clamp(nodes[0], nodes[-1]), torch.exp(log_sqrt)
        length = self.arc_length.at(inside) + (positions - inside)[:, None] * root
        moment = self._moment.at(inside) + (positions**2 - inside**2)[:, None] * root / 2
        between = [self._minimum_inside(*ends) for ends in itertools.pairwise(positions)]
        lowest = torch.minimum(torch.stack(between), torch.minimum(log_sqrt[:-1], log_sqrt[1:]))
        return Stations(
            positions,
            length.diff(dim=0),
            moment.diff(dim=0),
            torch.exp(lowest),
            root,
            wavelengths,
        )

    def trajectories(
        self,
        problem: BoundaryValueProblem,
        v0: Float[Tensor, "pair wavelength"],
        times: Float[Tensor, "time"],
    ) -> Float[Tensor, "pair wavelength time"]:
        """Positions x(t) along the geodesics with these first velocities; at time 0 exact."""
        start = problem.stations[problem.source][:, None].expand_as(v0)
        first = self.arc_length.at(problem.stations)[problem.source]
        speed = v0 * torch.exp(self.grid.log_sqrt_at(problem.stations))[problem.source]
        # one time after the other: what one needs stays in cache
        return torch.stack(
            [
                self.arc_length.inverse(first + time * speed)[0] if time else start
                for time in times.tolist()
            ],
            dim=-1,
        )

    def _minimum_inside(self, low: Tensor, high: Tensor) -> Float[Tensor, "wavelength"]:
        """Minimum over the nodes, and the turning points between nodes, strictly inside a gap."""
        # Between nodes with G0 < 0 < G1 the symbol is taken as linear, so the minimum lies at the
        # fraction -G0 / (G1 - G0) and is h G0^2 / (2 (G1 - G0)) below the first node: error O(h^3).
        nodes, value, symbol = self.grid.positions, self.grid.log_sqrt, self.grid.symbol
        inside = slice(
            int(torch.searchsorted(nodes, low, right=True)), int(torch.searchsorted(nodes, high))
        )
        least = value.new_full(value.shape[1:], torch.inf)
        if inside.start < inside.stop:
            least = value[inside].amin(0)
        cells = slice(max(inside.start - 1, 0), inside.stop + 1)
        x, u, g = nodes[cells], value[cells], symbol[cells]
        cell, column = ((g[:-1] < 0) & (g[1:] > 0)).nonzero(as_tuple=True)
        start, width = g[cell, column], x[cell + 1] - x[cell]
        fraction = -start / (g[cell + 1, column] - start)
        at = x[cell] + width * fraction
        turning = u[cell, column] + width * start * fraction / 2
        turning = turning.where((at > low) & (at < high), torch.inf)
        return least.scatter_reduce(0, column, turning, "amin")
