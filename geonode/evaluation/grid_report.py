"""Report on stored grids: their errors, and statistics of their metrics."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from torch import Tensor

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
from geonode.geometry.verification import grid_geodesic_errors
from geonode.learning.folds import fold_names

ERRORS = ("ln_sqrt_g_error", "christoffel_error", "v0_error", "endpoint_error")


class CheckedGrid(NamedTuple):
    """Outcome of the check of a stored grid.

    Attributes:
        errors: in the order of `ERRORS`, on the CPU.
        statistics: of the metric.
    """

    errors: tuple[Tensor, ...]
    statistics: MetricStatistics


@dataclass(frozen=True)
class GridCheck:
    """Comparison of a stored grid with its network.

    Attributes:
        metric: the metrics of the grids in float64.
        wavelengths: charted wavelengths of the columns of the grids.
        positions: number of random concentrations, and of random geodesics, to check per grid.
    """

    metric: Metric
    wavelengths: Float[Tensor, "wavelength"]
    positions: int

    def __call__(self, model: int, grid: Grid) -> CheckedGrid:
        """Compare the grid of a model with its network."""
        metric, w, count = self.metric[model], self.wavelengths, self.positions
        at_nodes = grid_errors(grid, metric, w, positions=count, seed=model)
        geodesics = grid_geodesic_errors(metric, grid, w, rows=count, seed=model)
        errors = tuple(error.cpu() for error in (*at_nodes, *geodesics))
        return CheckedGrid(errors, metric_statistics(grid))


@dataclass(frozen=True)
class GridReport:
    """Errors and statistics of all grids.

    Attributes:
        learned: metrics of the grids.
        grids: every grid, in the order (member, fold).
    """

    learned: LearnedMetrics
    grids: list[CheckedGrid]

    def errors(self) -> dict[str, dict[str, float]]:
        """Statistics of the errors of all grids, by name."""
        by_name = zip(*(grid.errors for grid in self.grids), strict=True)
        return {
            name: error_statistics(list(found)) for name, found in zip(ERRORS, by_name, strict=True)
        }

    def statistics(self, levels: Float[np.ndarray, "concentration"]) -> dict[str, dict[str, float]]:
        """Statistics of the metrics of every fold, by left-out level."""
        of_fold: dict[int, list[MetricStatistics]] = {}
        for model, grid in enumerate(self.grids):
            _, fold = self.learned.index(model)
            of_fold.setdefault(fold, []).append(grid.statistics)
        names = fold_names(levels)
        return {names[fold]: over_models(found)._asdict() for fold, found in of_fold.items()}
