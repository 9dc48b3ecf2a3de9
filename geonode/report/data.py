"""What the report shows: artifacts, metrics and tables of one run."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from geonode.errors import ArtifactError, MissingArtifactError
from geonode.report.kit import sample
from geonode.spectra.chart import Chart
from geonode.spectra.series import Series, level_names, read_series
from geonode.storage.artifact import open_artifact
from geonode.storage.document import read_metrics

REQUIRED = ("spectra", "metric", "christoffel", "geodesics", "decoders", "validate")
OPTIONAL = ("env", "summary")  # about the machine, not the series

MAP_ROWS, MAP_COLUMNS = 40, 100
"""Largest numbers of rows and columns of a heat map, whose cells a browser draws one by one."""

MOST_NUMBERS = 25_000
"""Largest number of values of one quantity in one figure; longer spectra are thinned."""

PATH_WAVELENGTHS = 5
"""Largest number of wavelengths at which geodesics are drawn; fewer for many pairs."""

POSITION_ROUNDING = 1e-5
"""Largest rounding error of stored positions, which are in float32 (chart units)."""

NEGLIGIBLE = 1e-4
"""Density below which a posterior is not drawn, relative to the largest."""


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

    @classmethod
    def read(cls, path: Path, series: Series, chart: Chart) -> "Maps":
        """Maps of an artifact of grids, on the chart of the metric.

        Raises:
            MissingArtifactError, CorruptArtifactError: it is absent or damaged.
            ArtifactError: it is of other spectra.
        """
        artifact = open_artifact(path)
        position = artifact["position"]
        members, folds, *_ = artifact.describe("ln_sqrt_g").shape
        shape = (members, len(series.concentrations) + 1, len(position), len(series.axis))
        artifact.require_shape("ln_sqrt_g", shape, "the spectra")
        rows, columns = sample(len(position), MAP_ROWS), sample(len(series.axis), MAP_COLUMNS)
        log_sqrt, symbol = (
            np.mean(
                [
                    artifact.read(name, (member, folds - 1))[np.ix_(rows, columns)].astype(float)
                    for member in range(members)
                ],
                axis=0,
            )
            for name in ("ln_sqrt_g", "christoffel")
        )
        concentrations = chart.concentration(position[rows])
        return cls(series.axis[columns], concentrations, np.exp(2 * log_sqrt), symbol)


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

    @classmethod
    def read(cls, path: Path, series: Series, chart: Chart) -> "Paths | None":
        """Geodesics of an artifact; None if it holds no trajectories.

        Raises:
            MissingArtifactError, CorruptArtifactError: it is absent or damaged.
            ArtifactError: it is of other spectra.
        """
        artifact = open_artifact(path)
        levels = len(series.concentrations)
        members = int(artifact.attributes.get("members", 0))
        pairs = levels * (levels - 1)
        artifact.require_shape("v0", (members, levels + 1, pairs, len(series.axis)), "the spectra")
        if "trajectory" not in artifact.names:
            return None
        times = artifact["time"]
        chosen = path_wavelengths(len(series.axis), pairs * len(times))
        positions = np.mean(
            [
                artifact.read("trajectory", (member, levels))[:, chosen].astype(float)
                for member in range(members)
            ],
            axis=0,
        )
        places = chart.position(series.concentrations)
        source, target = (
            np.searchsorted(series.concentrations, artifact[name]) for name in ("source", "target")
        )
        ends = np.stack([places[source], places[target]], axis=-1)
        if np.abs(positions[..., [0, -1]] - ends[:, None]).max() > POSITION_ROUNDING:
            raise _of_another_run(path, "its trajectories do not join the levels")
        flat = chart.concentration(ends[:, :1] + (ends[:, 1:] - ends[:, :1]) * times)
        along = chart.concentration(positions)
        return cls(times, series.axis[chosen], source, target, along, flat)


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
        predicted: spectrum of every level, predicted without it.
        half_width: half width of the band about a prediction (unit of the spectra).
        band: name of the band.
        maps: maps of metric and Christoffel symbol.
        paths: geodesics; None if no trajectories are stored.
        training: logs by name: columns epoch, fold, and the loss, a mean over the members.
        posterior: columns level, concentration, and density (per unit of concentration).
        metric: columns concentration, and mean and deviation of sqrt(g) (per unit of it).
        metrics: content of the metrics files by name; empty for an absent file.
    """

    source: str
    series: Series
    names: list[str]
    chart: Chart
    scans: Int[np.ndarray, "level"]
    masked: list[float]
    predicted: Float[np.ndarray, "level wavelength"]
    half_width: Float[np.ndarray, "level wavelength"]
    band: str
    maps: Maps
    paths: Paths | None
    training: dict[str, pd.DataFrame]
    posterior: pd.DataFrame
    metric: pd.DataFrame
    metrics: dict[str, dict[str, Any]]

    @classmethod
    def read(
        cls, source: str, spectra: Path, christoffel: Path, geodesics: Path, metrics: Path
    ) -> "Report":
        """Read and check the data of a run.

        Args:
            source: name of the table of measured spectra.
            spectra: artifact of the measured series.
            christoffel: artifact of the grids.
            geodesics: artifact of the geodesics.
            metrics: folder of the metrics, with the tables in `plots`.

        Raises:
            MissingArtifactError, CorruptArtifactError: an input is absent or damaged.
            ArtifactError: an input is of another run than the others.
        """
        found = {name: read_metrics(metrics / f"{name}.json") for name in REQUIRED}
        for name in OPTIONAL:
            path = metrics / f"{name}.json"
            found[name] = read_metrics(path) if path.is_file() else {}
        series, artifact = read_series(spectra), open_artifact(spectra)
        names = level_names(series.concentrations)
        if list(found["validate"].get("folds", ())) != names:
            raise _of_another_run(metrics / "validate.json", "its folds are not the levels")
        kappas = found["metric"].get("chart_kappa", {})
        if len(kappas) != len(names) + 1:
            raise _of_another_run(metrics / "metric.json", "its folds are not those of the levels")
        kappa = list(kappas.values())[-1]
        chart = Chart(math.inf if kappa is None else kappa, series.chart.low, series.chart.high)
        plots = metrics / "plots"
        logs = {"the metric": "metric_training", "the decoders": "training"}
        training = {what: _read_training(plots / f"{file}.csv") for what, file in logs.items()}
        return cls(
            source,
            series,
            names,
            chart,
            artifact["scans"],
            artifact.attributes["masked"],
            *_read_predictions(plots / "predictions.csv", series, names),
            Maps.read(christoffel, series, chart),
            Paths.read(geodesics, series, chart),
            {what: log for what, log in training.items() if len(log)},
            _read_table(plots / "posterior.csv", "level", "concentration", "density"),
            _read_table(plots / "metric_posterior.csv", "concentration", "sqrt_g", "deviation"),
            found,
        )

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

    @property
    def drawn(self) -> Int[np.ndarray, "chosen"]:
        """Indices of the wavelengths at which spectra are drawn."""
        return sample(len(self.series.axis), MOST_NUMBERS // len(self.names))


def path_wavelengths(wavelengths: int, numbers: int) -> Int[np.ndarray, "chosen"]:
    """Indices of wavelengths away from the ends, for a number of values at each."""
    wanted = max(1, min(PATH_WAVELENGTHS, MOST_NUMBERS // numbers))
    places = (np.arange(wanted) + 0.5) / wanted * (wavelengths - 1)
    return np.unique(places.round().astype(int))


def _read_table(path: Path, *columns: str) -> pd.DataFrame:
    """Table with some columns and others; levels are names, all others are numbers."""
    if not path.is_file():
        raise MissingArtifactError(path)
    try:
        table = pd.read_csv(path, dtype={"level": str}, keep_default_na=False)
        table = table.astype({name: float for name in table if name != "level"})
    except ValueError as error:
        raise ArtifactError(f"{path}: {error}; run `dvc repro`") from error
    if list(table)[: len(columns)] != list(columns):
        raise ArtifactError(
            f"{path}: found columns {list(table)}, expected {list(columns)}; run `dvc repro`"
        )
    return table


def _read_predictions(
    path: Path, series: Series, names: list[str]
) -> tuple[np.ndarray, np.ndarray, str]:
    """Predictions, half widths of their bands and the name of the band."""
    table = _read_table(path, "level", "wavelength", "measured", "predicted")
    shape = (len(names), len(series.axis))
    if table["level"].tolist() != [name for name in names for _ in series.axis]:
        raise _of_another_run(path, "its rows are not the levels and wavelengths")
    predicted, half_width = (table.iloc[:, place].to_numpy().reshape(shape) for place in (3, 4))
    return predicted, half_width, str(table.columns[4])


def _read_training(path: Path) -> pd.DataFrame:
    """Loss, the first quantity of a log, averaged over the members."""
    table = _read_table(path, "epoch", "fold", "member")
    loss = table.columns[3]
    means = table.groupby(["fold", "epoch"], as_index=False)[loss].mean()
    return means.rename(columns={loss: "loss"})


def _of_another_run(path: Path, reason: str) -> ArtifactError:
    return ArtifactError(f"{path}: {reason} of the spectra; it is of another run: run `dvc repro`")
