"""Data of the report: artifacts, metrics and tables of one run."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from geonode.spectra.chart import Chart
from geonode.spectra.series import Series

MAP_ROWS, MAP_COLUMNS = 150, 200
"""Largest numbers of rows and columns of a heat map, to limit the size of the page."""

MOST_NUMBERS = 40_000
"""Largest number of values of one quantity in one figure; longer spectra are thinned."""

PATH_WAVELENGTHS = 5
"""Largest number of wavelengths at which geodesics are drawn; fewer for many pairs."""

POSITION_ROUNDING = 1e-5
"""Largest rounding error of stored positions, which are in float32 (chart units)."""

NEGLIGIBLE = 1e-4
"""Density below which a posterior is drawn as a straight line, relative to the largest."""

INDICES = frozenset({"epoch", "fold", "member"})
"""Columns of a training table that are no quantities."""


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions of all spectra by the folds that left them out.

    Attributes:
        measured: measured spectra.
        predicted: predicted spectra.
        half_width: half width of the band about a prediction (unit of the spectra).
        band: name of the band.
    """

    measured: Float[np.ndarray, "level wavelength"]
    predicted: Float[np.ndarray, "level wavelength"]
    half_width: Float[np.ndarray, "level wavelength"]
    band: str


@dataclass(frozen=True, eq=False)
class Maps:
    """Metric of the fold that leaves nothing out, averaged over its members.

    Attributes:
        axis: wavelengths of the columns.
        concentrations: concentrations of the rows.
        metric: g, the geometric mean (chart units).
        symbol: Christoffel symbol G, the mean (chart units).
    """

    axis: Float[np.ndarray, "column"]
    concentrations: Float[np.ndarray, "row"]
    metric: Float[np.ndarray, "row column"]
    symbol: Float[np.ndarray, "row column"]


@dataclass(frozen=True, eq=False)
class Paths:
    """Geodesics of the fold that leaves nothing out, averaged over its members.

    Attributes:
        times: affine parameter t.
        axis: selected wavelengths.
        source, target: indices of the levels that each geodesic joins.
        concentrations: concentrations along every geodesic.
        flat: concentrations along the geodesics of a flat metric, straight on the chart.
    """

    times: Float[np.ndarray, "time"]
    axis: Float[np.ndarray, "chosen"]
    source: Int[np.ndarray, "pair"]
    target: Int[np.ndarray, "pair"]
    concentrations: Float[np.ndarray, "pair chosen time"]
    flat: Float[np.ndarray, "pair time"]


@dataclass(frozen=True)
class Training:
    """Training log, averaged over members.

    Attributes:
        epochs: logged epochs of every fold.
        terms: values of every fold, by quantity.
    """

    epochs: list[list[int]]
    terms: dict[str, list[list[float]]]


@dataclass(frozen=True, eq=False)
class Posterior:
    """Posterior density of the concentration of a left-out spectrum.

    Attributes:
        concentrations: concentrations, ascending.
        density: density at each (per unit of concentration).
    """

    concentrations: Float[np.ndarray, "point"]
    density: Float[np.ndarray, "point"]


@dataclass(frozen=True, eq=False)
class PosteriorMetric:
    """Posterior of the metric of concentration, given all levels.

    Attributes:
        concentrations: concentrations, ascending, above zero.
        mean: mean of sqrt(g) (per unit of concentration).
        deviation: standard deviation of sqrt(g).
    """

    concentrations: Float[np.ndarray, "point"]
    mean: Float[np.ndarray, "point"]
    deviation: Float[np.ndarray, "point"]


@dataclass(frozen=True, eq=False)
class Report:
    """Content of the page.

    Attributes:
        source: name of the table of measured spectra.
        series: measured series.
        names: names of the levels.
        chart: chart of the metric of all levels.
        scans: number of scans of every level.
        masked: wavelengths left out because a value was missing.
        predictions: predictions of the left-out levels.
        maps: maps of metric and Christoffel symbol.
        paths: geodesics; None if no trajectories are stored.
        training: training logs by name.
        posteriors: posteriors by level; None without any.
        posterior_metric: posterior of the metric; None without one.
        metrics: content of the metrics files by name; empty for an absent file.
    """

    source: str
    series: Series
    names: list[str]
    chart: Chart
    scans: Int[np.ndarray, "level"]
    masked: list[float]
    predictions: Predictions
    maps: Maps
    paths: Paths | None
    training: dict[str, Training]
    posteriors: dict[str, Posterior] | None
    posterior_metric: PosteriorMetric | None
    metrics: dict[str, dict[str, Any]]

    @property
    def scores(self) -> dict[str, Any]:
        """Content of validate.json."""
        return self.metrics["validate"]

    @property
    def level_unit(self) -> str:
        """Unit of the concentrations."""
        return self.series.labels["concentration_unit"]

    @property
    def signal_unit(self) -> str:
        """Unit of the spectra."""
        return self.series.labels["signal_unit"]

    @property
    def axis_unit(self) -> str:
        """Unit of the spectral axis."""
        return self.series.labels["axis_unit"]


def sample(count: int, most: int) -> Int[np.ndarray, "chosen"]:
    """Evenly spaced indices, ends included; all if there are at most `most`."""
    return np.linspace(0, count - 1, min(count, most)).round().astype(int)


def drawn(series: Series) -> Int[np.ndarray, "chosen"]:
    """Indices of the wavelengths at which spectra are drawn."""
    return sample(len(series.axis), MOST_NUMBERS // len(series.concentrations))


def path_wavelengths(wavelengths: int, numbers: int) -> Int[np.ndarray, "chosen"]:
    """Indices of wavelengths away from the ends, for a number of values at each."""
    wanted = max(1, min(PATH_WAVELENGTHS, MOST_NUMBERS // numbers))
    places = (np.arange(wanted) + 0.5) / wanted * (wavelengths - 1)
    return np.unique(places.round().astype(int))
