"""What the report is made of: artifacts, metrics and tables of one run, read and checked."""

import csv
import io
import json
import math
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from geonode.errors import ArtifactError, MissingArtifactError
from geonode.spectra.chart import Chart
from geonode.spectra.series import Series, level_names, read_series
from geonode.storage.artifact import Artifact, open_artifact

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


REQUIRED = ("spectra", "metric", "christoffel", "geodesics", "decoders", "validate")
OPTIONAL = ("env", "benchmark")  # of the machine, not of the series


def read_report(inputs: Inputs) -> Report:
    """Read and check what the report shows.

    Raises:
        MissingArtifactError, CorruptArtifactError: a part is absent or damaged.
        ArtifactError: a part is of another run than the others.
    """
    folder, plots = inputs.metrics, inputs.metrics / "plots"
    metrics = {name: _read_json(folder / f"{name}.json") for name in REQUIRED}
    for name in OPTIONAL:
        path = folder / f"{name}.json"
        metrics[name] = _read_json(path) if path.is_file() else {}
    series = read_series(inputs.spectra)
    artifact = open_artifact(inputs.spectra)
    names = level_names(series.concentrations)
    if list(metrics["validate"].get("folds", ())) != names:
        raise _of_another_run(folder / "validate.json", "its folds are not the levels")
    kappas = metrics["metric"].get("chart_kappa", {})
    if len(kappas) != len(names) + 1:
        raise _of_another_run(folder / "metric.json", "its folds are not those of the levels")
    kappa = list(kappas.values())[-1]
    chart = Chart(math.inf if kappa is None else kappa, series.chart.low, series.chart.high)
    training = {
        "the metric": _read_training(plots / "metric_training.csv", len(kappas)),
        "the decoders": _read_training(plots / "training.csv", len(kappas)),
    }
    posterior = plots / "posterior.csv"
    return Report(
        source=inputs.source,
        series=series,
        names=names,
        chart=chart,
        scans=artifact["scans"],
        masked=artifact.attributes["masked"],
        predictions=_read_predictions(plots / "predictions.csv", series, names),
        maps=_read_maps(inputs.christoffel, series, chart),
        paths=_read_paths(inputs.geodesics, series, chart),
        training={name: log for name, log in training.items() if log.terms},
        posteriors=(_read_posteriors(posterior, names) if posterior.is_file() else {}) or None,
        posterior_metric=_read_posterior_metric(plots / "metric_posterior.csv"),
        metrics=metrics,
    )


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


def _read_text(path: Path) -> str:
    if not path.is_file():
        raise MissingArtifactError(path)
    return path.read_text(encoding="utf-8")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(_read_text(path))
    except ValueError as error:
        raise ArtifactError(f"{path}: is no JSON: {error}; run `dvc repro`") from error
    if not isinstance(content, dict):
        raise ArtifactError(f"{path}: found no JSON object, expected one; run `dvc repro`")
    return content


def _read_rows(path: Path) -> tuple[list[str], list[list[str]]]:
    header, *rows = list(csv.reader(io.StringIO(_read_text(path)))) or [[]]
    if any(len(row) != len(header) for row in rows):
        raise ArtifactError(f"{path}: found rows of different lengths; run `dvc repro`")
    return header, rows


def _numbers(path: Path, cells: list[list[str]]) -> np.ndarray:
    try:
        return np.array([[float(cell) for cell in row] for row in cells])
    except ValueError as error:
        raise ArtifactError(f"{path}: {error}; run `dvc repro`") from error


def _read_predictions(path: Path, series: Series, names: list[str]) -> Predictions:
    header, rows = _read_rows(path)
    wavelengths = len(series.axis)
    if header[:-1] != ["left_out", "wavelength", "measured", "predicted"] or [
        row[0] for row in rows
    ] != [name for name in names for _ in range(wavelengths)]:
        raise _of_another_run(path, "its rows are not the levels and wavelengths")
    columns = _numbers(path, [row[2:] for row in rows]).reshape(len(names), wavelengths, 3)
    measured, predicted, half_width = np.moveaxis(columns, 2, 0)
    return Predictions(measured, predicted, half_width, header[-1])


def _read_maps(path: Path, series: Series, chart: Chart) -> Maps:
    artifact = open_artifact(path)
    position = artifact["position"]
    members, folds, *_ = artifact.describe("ln_sqrt_g").shape
    shape = (members, len(series.concentrations) + 1, len(position), len(series.axis))
    artifact.require_shape("ln_sqrt_g", shape, "the spectra")
    rows = sample(len(position), MAP_ROWS)
    columns = sample(len(series.axis), MAP_COLUMNS)
    log_sqrt, symbol = (
        sum(
            artifact.read(name, (member, folds - 1))[np.ix_(rows, columns)].astype(float)
            for member in range(members)
        )
        / members
        for name in ("ln_sqrt_g", "christoffel")
    )
    concentrations = chart.concentration(position[rows])
    return Maps(series.axis[columns], concentrations, np.exp(2 * log_sqrt), symbol)


def _read_paths(path: Path, series: Series, chart: Chart) -> Paths | None:
    artifact = open_artifact(path)
    levels = len(series.concentrations)
    members = int(artifact.attributes.get("members", 0))
    pairs = levels * (levels - 1)
    artifact.require_shape("v0", (members, levels + 1, pairs, len(series.axis)), "the spectra")
    if "trajectory" not in artifact.names:
        return None
    times = artifact["time"]
    chosen = path_wavelengths(len(series.axis), pairs * len(times))
    positions = _mean_positions(artifact, members, levels, chosen)
    places = chart.position(series.concentrations)
    source, target = (
        np.searchsorted(series.concentrations, artifact[name]) for name in ("source", "target")
    )
    ends = np.stack([places[source], places[target]], axis=-1)
    if np.abs(positions[..., [0, -1]] - ends[:, None]).max() > POSITION_ROUNDING:
        raise _of_another_run(path, "its trajectories do not join the levels")
    flat = ends[:, :1] + (ends[:, 1:] - ends[:, :1]) * times
    return Paths(
        times,
        series.axis[chosen],
        source,
        target,
        chart.concentration(positions),
        chart.concentration(flat),
    )


def _mean_positions(artifact: Artifact, members: int, fold: int, chosen: np.ndarray) -> np.ndarray:
    found = [
        artifact.read("trajectory", (member, fold))[:, chosen].astype(float)
        for member in range(members)
    ]
    return np.mean(found, axis=0)


def _read_training(path: Path, folds: int) -> Training:
    header, rows = _read_rows(path)
    terms = [name for name in header if name not in INDICES]
    if not {"epoch", "fold"} <= set(header):
        raise ArtifactError(f"{path}: found columns {header}, expected epoch and fold among them")
    numbers = _numbers(path, rows)
    by_step: dict[tuple[int, int], list[np.ndarray]] = defaultdict(list)
    columns = [header.index(name) for name in terms]
    for row in numbers:
        step = int(row[header.index("fold")]), int(row[header.index("epoch")])
        by_step[step].append(row[columns])
    if by_step and max(by_step)[0] >= folds:
        raise _of_another_run(path, "its folds are not those")
    steps = [sorted(epoch for of, epoch in by_step if of == fold) for fold in range(folds)]
    means = {step: np.mean(found, axis=0) for step, found in by_step.items()}
    values = {
        name: [[float(means[fold, epoch][place]) for epoch in steps[fold]] for fold in range(folds)]
        for place, name in enumerate(terms)
    }
    return Training(steps, values if by_step else {})


def _read_posteriors(path: Path, names: list[str]) -> dict[str, Posterior]:
    header, rows = _read_rows(path)
    if header != ["level", "concentration", "density"] or not {row[0] for row in rows} <= set(
        names
    ):
        raise _of_another_run(path, "its levels are not those")
    numbers = _numbers(path, [row[1:] for row in rows])
    found = {}
    for name in names:
        part = numbers[[row[0] == name for row in rows]] if rows else np.empty((0, 2))
        if len(part):
            seen = _seen(part[:, 1])
            found[name] = Posterior(part[seen, 0], part[seen, 1])
    return found


def _read_posterior_metric(path: Path) -> PosteriorMetric | None:
    header, rows = _read_rows(path)
    if header != ["concentration", "sqrt_g", "deviation"]:
        raise _of_another_run(path, "its columns are not those")
    return PosteriorMetric(*_numbers(path, rows).T) if rows else None


def _seen(density: np.ndarray) -> np.ndarray:
    """Which points a drawn density needs: all that are not negligible, their neighbours, ends."""
    large = np.pad(density > NEGLIGIBLE * density.max(), 1, constant_values=False)
    seen = large[:-2] | large[1:-1] | large[2:]
    seen[[0, -1]] = True
    return seen
