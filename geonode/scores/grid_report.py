"""Report on stored grids: their errors, and statistics of their metrics."""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float
from torch import Tensor

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


@dataclass(frozen=True)
class GridReport:
    """Errors and statistics, collected grid by grid.

    Attributes:
        learned: metrics of the grids.
        metric: these metrics in float64.
        wavelengths: charted wavelengths of the columns of the grids.
        positions: number of random concentrations, and of random geodesics, to check per grid.
    """

    learned: LearnedMetrics
    metric: Metric
    wavelengths: Float[Tensor, "wavelength"]
    positions: int
    _errors: dict[str, list[Tensor]] = field(default_factory=lambda: {name: [] for name in ERRORS})
    _statistics: dict[int, list[MetricStatistics]] = field(default_factory=dict)

    def add(self, model: int, grid: Grid) -> None:
        """Compare one stored grid with its network."""
        metric, w, count = self.metric[model], self.wavelengths, self.positions
        at_nodes = grid_errors(grid, metric, w, positions=count, seed=model)
        geodesics = grid_geodesic_errors(metric, grid, w, rows=count, seed=model)
        for name, found in zip(ERRORS, (*at_nodes, *geodesics), strict=True):
            self._errors[name].append(found)
        _, fold = self.learned.index(model)
        self._statistics.setdefault(fold, []).append(metric_statistics(grid))

    def errors(self) -> dict[str, dict[str, float]]:
        """Statistics of the errors of all grids, by name."""
        return {name: error_statistics(found) for name, found in self._errors.items()}

    def statistics(self, levels: Float[np.ndarray, "concentration"]) -> dict[str, dict[str, float]]:
        """Statistics of the metrics of every fold, by left-out level."""
        names = fold_names(levels)
        return {
            names[fold]: over_models(found)._asdict() for fold, found in self._statistics.items()
        }
