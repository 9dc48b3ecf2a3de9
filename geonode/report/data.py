"""Content of the report: artifacts, metrics and tables of one run."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from geonode.errors import ArtifactError, MissingArtifactError
from geonode.report.kit import by_level, sample
from geonode.spectra.chart import Chart
from geonode.spectra.series import Series, level_names, read_series
from geonode.storage.artifact import Artifact, open_artifact
from geonode.storage.document import read_json
from geonode.storage.lineage import consistent_artifacts
from geonode.wording import quantity

REQUIRED = ("spectra", "metric", "christoffel", "geodesics", "decoders", "validate")

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
    """Content of the page."""

    source: str
    """Name of the table of measured spectra."""
    series: Series
    chart: Chart
    """Of the metric of all levels."""
    predicted: Float[np.ndarray, "level wavelength"]
    """Spectrum of every level, predicted without it."""
    half_width: Float[np.ndarray, "level wavelength"]
    """Of the band about a prediction (unit of the spectra)."""
    band: str
    """Name of the band."""
    maps: pd.DataFrame
    """Metric g (geometric mean over members) and Christoffel symbol of the fold that leaves nothing
    out (chart units), a row a cell: left, right (wavelength), low, high (concentration), metric,
    christoffel."""
    paths: pd.DataFrame | None
    """Geodesics of that fold: source, target (names of levels), line (wavelength, or `FLAT` for the
    straight line on the chart), t, concentration; None if no trajectories are stored."""
    posterior: pd.DataFrame
    """Level, concentration, and density (per unit of concentration)."""
    metric: pd.DataFrame
    """Concentration, mean sqrt_g and deviation (per unit of concentration)."""
    metrics: dict[str, dict[str, Any]]
    """Content of the metrics files by name, and `device`."""

    @classmethod
    def read(cls, source: str, data: Path, metrics: Path) -> "Report":
        """Read and check the data of a run.

        Args:
            source: name of the table of measured spectra.
            data: folder of the artifacts, with the description of the device.
            metrics: folder of the metrics, with the tables in `plots`.

        Raises:
            MissingArtifactError, CorruptArtifactError: an input is absent or damaged.
            ArtifactError: an input is of another run than the others.
        """
        stored = [data / f"{name}.zarr" for name in ("spectra", "christoffel", "geodesics")]
        with consistent_artifacts(*stored):
            series, grids, solved = read_series(stored[0]), *map(open_artifact, stored[1:])
        contents = {name: read_json(metrics / f"{name}.json") for name in REQUIRED}
        contents["device"] = read_json(data / "device.json")
        names = level_names(series.concentrations)
        if list(contents["validate"].get("folds", ())) != names:
            raise _of_another_run(metrics / "validate.json", "its folds are not the levels")
        kappas = [*contents["metric"].get("chart_kappa", {}).values()]
        if len(kappas) != len(names) + 1:
            raise _of_another_run(metrics / "metric.json", "its folds are not those of the levels")
        kappa = math.inf if kappas[-1] is None else kappas[-1]
        chart = Chart(kappa, series.chart.low, series.chart.high)
        plots = metrics / "plots"
        names_of_columns = ("level", "wavelength", "measured", "predicted")
        predictions = _read_table(plots / "predictions.csv", *names_of_columns)
        if predictions["level"].tolist() != [name for name in names for _ in series.axis]:
            reason = "its rows are not the levels and wavelengths"
            raise _of_another_run(plots / "predictions.csv", reason)
        *_, band = predictions
        shape, columns = series.signal.shape, ("predicted", band)
        predicted, half_width = (predictions[name].to_numpy().reshape(shape) for name in columns)
        return cls(
            source,
            series,
            chart,
            predicted,
            half_width,
            band,
            _maps(grids, series, chart),
            _paths(solved, series, chart, names),
            _read_table(plots / "posterior.csv", "level", "concentration", "density"),
            _read_table(plots / "metric_posterior.csv", "concentration", "sqrt_g", "deviation"),
            contents,
        )

    @property
    def names(self) -> list[str]:
        """Names of the levels."""
        return level_names(self.series.concentrations)

    @property
    def scores(self) -> dict[str, Any]:
        """Content of validate.json."""
        return self.metrics["validate"]

    @property
    def drawn(self) -> Int[np.ndarray, "chosen"]:
        """Indices of the wavelengths at which spectra are drawn."""
        return sample(len(self.series.axis), MOST_NUMBERS // len(self.names))

    def predictions(self) -> pd.DataFrame:
        """Columns level, wavelength, measured, predicted, low and high, at wavelengths drawn."""
        at = self.drawn
        columns = {
            "measured": self.series.signal,
            "predicted": self.predicted,
            "low": self.predicted - self.half_width,
            "high": self.predicted + self.half_width,
        }
        values = {name: rows[:, at] for name, rows in columns.items()}
        return pd.DataFrame(by_level(self.names, {"wavelength": self.series.axis[at]}, values))


def edges(centres: Float[np.ndarray, "cell"]) -> Float[np.ndarray, "2 cell"]:
    """Lower and upper ends of cells, half-way between their centres."""
    middles = (centres[1:] + centres[:-1]) / 2
    return np.stack([[centres[0], *middles], [*middles, centres[-1]]])


def _maps(artifact: Artifact, series: Series, chart: Chart) -> pd.DataFrame:
    position = artifact["position"]
    members, folds, *_ = artifact["ln_sqrt_g"].shape
    rows, columns = sample(len(position), MAP_ROWS), sample(len(series.axis), MAP_COLUMNS)
    log_sqrt, symbol = (
        _mean_over(artifact, name, members, np.ix_(np.array([folds - 1]), rows, columns))[0]
        for name in ("ln_sqrt_g", "christoffel")
    )
    low, high = edges(chart.concentration(position[rows]))
    left, right = edges(series.axis[columns])
    values = {
        "low": np.repeat(low, len(columns)),
        "high": np.repeat(high, len(columns)),
        "metric": np.exp(2 * log_sqrt),
        "christoffel": symbol,
    }
    along = {"left": left, "right": right}
    return pd.DataFrame(by_level([*map(str, rows)], along, values))


def _mean_over(artifact: Artifact, name: str, members: int, kept: Any) -> np.ndarray:
    parts = [artifact[name][member][kept] for member in range(members)]
    return np.mean(parts, axis=0, dtype=float)


def _paths(
    artifact: Artifact, series: Series, chart: Chart, names: list[str]
) -> pd.DataFrame | None:
    levels = series.concentrations
    if "trajectory" not in artifact.arrays:
        return None
    times = artifact["time"]
    pairs = len(levels) * (len(levels) - 1)
    wanted = max(1, min(PATH_WAVELENGTHS, MOST_NUMBERS // (pairs * len(times))))
    places = (np.arange(wanted) + 0.5) / wanted * (len(series.axis) - 1)  # away from the ends
    chosen = np.unique(places.round().astype(int))
    members = int(artifact.attributes["members"])
    positions = _mean_over(artifact, "trajectory", members, np.s_[:, chosen])
    source, target = (np.searchsorted(levels, artifact[name]) for name in ("source", "target"))
    ends = chart.position(levels)[np.stack([source, target], axis=-1)]
    flat = ends[:, :1] + (ends[:, 1:] - ends[:, :1]) * times
    along = chart.concentration(np.concatenate([positions, flat[:, None]], axis=1))
    unit = series.labels["axis_unit"]
    lines = [*(quantity(value, unit, 4) for value in series.axis[chosen].tolist()), FLAT]
    ends_named = [(names[one], names[other]) for one, other in zip(source, target, strict=True)]
    index = pd.MultiIndex.from_tuples(
        [(*ends, line, t) for ends in ends_named for line in lines for t in times.tolist()],
        names=["source", "target", "line", "t"],
    )
    return pd.Series(along.ravel(), index, name="concentration").reset_index()


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


def _of_another_run(path: Path, reason: str) -> ArtifactError:
    return ArtifactError(f"{path}: {reason} of the spectra; it is of another run: run `dvc repro`")
