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
from geonode.storage.document import read_json
from geonode.wording import quantity

REQUIRED = ("spectra", "metric", "christoffel", "geodesics", "decoders", "validate")
OPTIONAL = ("env", "benchmark")  # about the machine, not the series

MAP_ROWS, MAP_COLUMNS = 40, 100
"""Largest numbers of rows and columns of a heat map, whose cells a browser draws one by one."""

MOST_NUMBERS = 25_000
"""Largest number of values of one quantity in one figure; longer spectra are thinned."""

PATH_WAVELENGTHS = 5
"""Largest number of wavelengths at which geodesics are drawn; fewer for many pairs."""

FLAT = "flat metric"
"""Name of the geodesics of a flat metric."""


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
        maps: metric g (geometric mean over members) and Christoffel symbol of the fold that leaves
            nothing out (chart units), one row per cell: columns left, right (wavelength), low, high
            (concentration), metric and christoffel.
        paths: geodesics of that fold: columns source, target (names of levels), line (wavelength,
            or `FLAT` for the straight line on the chart), t and concentration; None if no
            trajectories are stored.
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
    maps: pd.DataFrame
    paths: pd.DataFrame | None
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
        found = {name: read_json(metrics / f"{name}.json") for name in REQUIRED}
        for name in OPTIONAL:
            path = metrics / f"{name}.json"
            found[name] = read_json(path) if path.is_file() else {}
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
            _read_maps(christoffel, series, chart),
            _read_paths(geodesics, series, chart, names),
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

    @property
    def predictions(self) -> pd.DataFrame:
        """Columns level, wavelength, measured, predicted, low and high, at wavelengths drawn."""
        at, width = self.drawn, self.half_width[:, self.drawn]
        predicted = self.predicted[:, at]
        return pd.DataFrame(
            {
                "level": np.repeat(self.names, len(at)),
                "wavelength": np.tile(self.series.axis[at], len(self.names)),
                "measured": self.series.signal[:, at].ravel(),
                "predicted": predicted.ravel(),
                "low": (predicted - width).ravel(),
                "high": (predicted + width).ravel(),
            }
        )


def _read_maps(path: Path, series: Series, chart: Chart) -> pd.DataFrame:
    artifact = open_artifact(path)
    position = artifact["position"]
    members, folds, *_ = artifact.describe("ln_sqrt_g").shape
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
    (low, high), (left, right) = (
        edges(chart.concentration(position[rows])),
        edges(series.axis[columns]),
    )
    return pd.DataFrame(
        {
            "left": np.tile(left, len(rows)),
            "right": np.tile(right, len(rows)),
            "low": np.repeat(low, len(columns)),
            "high": np.repeat(high, len(columns)),
            "metric": np.exp(2 * log_sqrt).ravel(),
            "christoffel": symbol.ravel(),
        }
    )


def edges(centres: Float[np.ndarray, "cell"]) -> Float[np.ndarray, "2 cell"]:
    """Lower and upper ends of cells, half-way between their centres."""
    middles = (centres[1:] + centres[:-1]) / 2
    return np.stack([[centres[0], *middles], [*middles, centres[-1]]])


def _read_paths(path: Path, series: Series, chart: Chart, names: list[str]) -> pd.DataFrame | None:
    artifact, levels = open_artifact(path), series.concentrations
    members = int(artifact.attributes.get("members", 0))
    pairs = len(levels) * (len(levels) - 1)
    if "trajectory" not in artifact.names:
        return None
    times = artifact["time"]
    wanted = max(1, min(PATH_WAVELENGTHS, MOST_NUMBERS // (pairs * len(times))))
    places = (np.arange(wanted) + 0.5) / wanted * (len(series.axis) - 1)  # away from the ends
    chosen = np.unique(places.round().astype(int))
    positions = np.mean(
        [
            artifact.read("trajectory", (member, len(levels)))[:, chosen].astype(float)
            for member in range(members)
        ],
        axis=0,
    )
    source, target = (np.searchsorted(levels, artifact[name]) for name in ("source", "target"))
    ends = chart.position(levels)[np.stack([source, target], axis=-1)]
    flat = ends[:, :1] + (ends[:, 1:] - ends[:, :1]) * times
    along = chart.concentration(np.concatenate([positions, flat[:, None]], axis=1))
    unit = series.labels["axis_unit"]
    lines = [*(quantity(value, unit, 4) for value in series.axis[chosen].tolist()), FLAT]
    every, of_pair = np.array(names), len(lines) * len(times)
    return pd.DataFrame(
        {
            "source": np.repeat(every[source], of_pair),
            "target": np.repeat(every[target], of_pair),
            "line": np.tile(np.repeat(lines, len(times)), pairs),
            "t": np.tile(times, pairs * len(lines)),
            "concentration": along.ravel(),
        }
    )


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
