"""How accurate stored grids are, and what the metrics in them look like."""

import numpy as np
from jaxtyping import Float
from torch import Tensor

from geonode.errors import GeometryError
from geonode.geodesics.verification import grid_geodesic_errors
from geonode.geometry.accuracy import error_statistics, grid_errors
from geonode.geometry.grid import Grid
from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.metric import Metric
from geonode.geometry.statistics import MetricStatistics, metric_statistics, over_models
from geonode.training.folds import fold_names

ERRORS = ("ln_sqrt_g_error", "christoffel_error", "v0_error", "endpoint_error")


class GridReport:
    """Collects, grid by grid, what there is to say of them.

    Args:
        learned: the metrics that the grids were made of.
        metric: the same in float64.
        wavelengths: charted wavelengths of the grids' columns.
        positions: random concentrations at which every grid is checked, and random geodesics.
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
        """Check one grid, as it was stored, against its network."""
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
        """Statistics of the metrics of every fold, by the level that it leaves out."""
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

        Of g the geometric mean: its symbol is the mean of the symbols.

        Raises:
            GeometryError: none of its grids has been added.
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
    """Sums of the tables of two grids on the same nodes."""
    return Grid(one.positions, one.log_sqrt + other.log_sqrt, one.symbol + other.symbol)
