"""Report on stored grids: their errors, and statistics of their metrics."""

import numpy as np
from jaxtyping import Float
from torch import Tensor

from geonode.errors import GeometryError
from geonode.geodesics.verification import grid_geodesic_errors
from geonode.geometry.diagnostics import (
    MetricStatistics,
    error_statistics,
    grid_errors,
    metric_statistics,
    over_models,
)
from geonode.geometry.grid import Grid
from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.metric import Metric
from geonode.training.folds import fold_names

ERRORS = ("ln_sqrt_g_error", "christoffel_error", "v0_error", "endpoint_error")


class GridReport:
    """Errors and statistics, collected grid by grid.

    Args:
        learned: metrics of the grids.
        metric: these metrics in float64.
        wavelengths: charted wavelengths of the columns of the grids.
        positions: number of random concentrations, and of random geodesics, to check per grid.
    """

    def __init__(
        self,
        learned: LearnedMetrics,
        metric: Metric,
        wavelengths: Float[Tensor, "wavelength"],
        positions: int,
    ) -> None:
        self._learned, self._metric, self._wavelengths = learned, metric, wavelengths
        self._positions = positions
        self._errors: dict[str, list[Tensor]] = {name: [] for name in ERRORS}
        self._statistics: dict[int, list[MetricStatistics]] = {}
        self._total: Grid | None = None  # of all members of the last fold

    def add(self, model: int, grid: Grid) -> None:
        """Compare one stored grid with its network."""
        at_nodes = grid_errors(
            grid,
            self._metric[model],
            self._wavelengths,
            positions=self._positions,
            seed=model,
        )
        geodesics = grid_geodesic_errors(
            self._metric[model], grid, self._wavelengths, rows=self._positions, seed=model
        )
        for name, found in zip(ERRORS, (*at_nodes, *geodesics), strict=True):
            self._errors[name].append(found)
        _, fold = self._learned.index(model)
        self._statistics.setdefault(fold, []).append(metric_statistics(grid))
        if fold == len(self._learned.charts) - 1:
            self._total = grid if self._total is None else _sum(self._total, grid)

    def errors(self) -> dict[str, dict[str, float]]:
        """Statistics of the errors of all grids, by name."""
        return {name: error_statistics(found) for name, found in self._errors.items()}

    def statistics(self, levels: Float[np.ndarray, "concentration"]) -> dict[str, dict[str, float]]:
        """Statistics of the metrics of every fold, by left-out level."""
        names = fold_names(levels)
        return {
            names[fold]: over_models(found)._asdict() for fold, found in self._statistics.items()
        }

    def mean_map(
        self,
    ) -> tuple[
        Float[np.ndarray, "node"],
        Float[np.ndarray, "node wavelength"],
        Float[np.ndarray, "node wavelength"],
    ]:
        """Concentrations, g and G of the fold that leaves nothing out, averaged over its members.

        The mean of g is geometric, so that its symbol is the mean of the symbols.

        Raises:
            GeometryError: no grid of that fold has been added.
        """
        if self._total is None:
            raise GeometryError("mean_map: found no grid of the last fold, expected one or more")
        total, members = self._total, self._learned.members
        positions = total.positions.cpu().double().numpy()
        log_sqrt, symbol = (
            (table / members).cpu().double().numpy() for table in (total.log_sqrt, total.symbol)
        )
        return self._learned.charts[-1].concentration(positions), np.exp(2 * log_sqrt), symbol


def _sum(one: Grid, other: Grid) -> Grid:
    """Sum of two grids on the same nodes, table by table."""
    return Grid(one.positions, one.log_sqrt + other.log_sqrt, one.symbol + other.symbol)
