"""What the report is made of: artifacts, metrics and tables of one run, read and checked."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from geonode.errors import ArtifactError
from geonode.spectra.chart import Chart
from geonode.spectra.series import Series

MAP_ROWS, MAP_COLUMNS = 150, 200
"""Most rows and columns of a heat map: more would not be seen, and make the page heavy."""

MOST_NUMBERS = 40_000
"""Of one quantity in one figure. A longer spectrum is drawn at evenly chosen points."""

PATH_WAVELENGTHS = 5
"""At which geodesics are drawn, of few levels; fewer where there are many pairs."""

POSITION_ROUNDING = 1e-5
"""Of stored positions, in chart units: they are in float32."""

NEGLIGIBLE = 1e-4
"""Of the largest density: where a posterior is less, it is drawn as a straight line."""

INDICES = frozenset({"epoch", "fold", "member"})
"""Columns of a training table that are no quantity."""


@dataclass(frozen=True)
class Inputs:
    """Where the parts of a run are.

    Attributes:
        source: name of the table that was measured.
        spectra, christoffel, geodesics: artifacts.
        metrics: folder of the metrics, with the tables in `plots`.
    """

    source: str
    spectra: Path
    christoffel: Path
    geodesics: Path
    metrics: Path


@dataclass(frozen=True, eq=False)
class Predictions:
    """Every spectrum as predicted by the fold that left it out.

    Attributes:
        measured: the measured spectra.
        predicted: the predicted ones.
        half_width: of the band about a prediction (unit of the spectra).
        band: what the band is.
    """

    measured: Float[np.ndarray, "level wavelength"]
    predicted: Float[np.ndarray, "level wavelength"]
    half_width: Float[np.ndarray, "level wavelength"]
    band: str


@dataclass(frozen=True, eq=False)
class Maps:
    """The metric of the fold that leaves nothing out, averaged over its members.

    Attributes:
        axis: of the columns.
        concentrations: of the rows.
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
        axis: wavelengths that were chosen.
        source, target: index of the levels that each joins.
        concentrations: along every geodesic.
        flat: the same where nothing bends, as straight on the chart of the fold.
    """

    times: Float[np.ndarray, "time"]
    axis: Float[np.ndarray, "chosen"]
    source: Int[np.ndarray, "pair"]
    target: Int[np.ndarray, "pair"]
    concentrations: Float[np.ndarray, "pair chosen time"]
    flat: Float[np.ndarray, "pair time"]


@dataclass(frozen=True)
class Training:
    """A training log, averaged over members.

    Attributes:
        epochs: that were logged, of every fold.
        terms: by quantity, the values of every fold.
    """

    epochs: list[list[int]]
    terms: dict[str, list[list[float]]]


@dataclass(frozen=True, eq=False)
class Posterior:
    """What a left-out spectrum says of its concentration.

    Attributes:
        concentrations: ascending.
        density: at each (per unit of concentration).
    """

    concentrations: Float[np.ndarray, "point"]
    density: Float[np.ndarray, "point"]


@dataclass(frozen=True, eq=False)
class PosteriorMetric:
    """Posterior of the metric of concentration, given all levels.

    Attributes:
        concentrations: ascending, above zero.
        mean: of sqrt(g) (per unit of concentration).
        deviation: its standard deviation.
    """

    concentrations: Float[np.ndarray, "point"]
    mean: Float[np.ndarray, "point"]
    deviation: Float[np.ndarray, "point"]


@dataclass(frozen=True, eq=False)
class Report:
    """All that the page shows.

    Attributes:
        source: name of the table that was measured.
        series: as measured.
        names: of the levels.
        chart: of the concentrations, on which the metric of all levels lives.
        scans: behind the mean spectrum of every level.
        masked: wavelengths left out because a value was missing.
        predictions: of the left-out levels.
        maps: of metric and Christoffel symbol.
        paths: geodesics; None where no trajectories are stored.
        training: logs, by what was trained.
        posteriors: by level; None where there are none.
        posterior_metric: None where the predictor has none.
        metrics: content of the metrics, by file; an absent file is an empty one.
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
    """Evenly chosen indices, both ends among them; all if they are no more than `most`."""
    return np.linspace(0, count - 1, min(count, most)).round().astype(int)


def drawn(series: Series) -> Int[np.ndarray, "chosen"]:
    """Indices of the wavelengths at which spectra are drawn."""
    return sample(len(series.axis), MOST_NUMBERS // len(series.concentrations))


def path_wavelengths(wavelengths: int, numbers: int) -> Int[np.ndarray, "chosen"]:
    """Indices of wavelengths, away from the ends, where a figure has so many numbers at each."""
    wanted = max(1, min(PATH_WAVELENGTHS, MOST_NUMBERS // numbers))
    places = (np.arange(wanted) + 0.5) / wanted * (wavelengths - 1)
    return np.unique(places.round().astype(int))


def _of_another_run(path: Path, reason: str) -> ArtifactError:
    return ArtifactError(f"{path}: {reason} of the spectra; it is of another run: run `dvc repro`")
