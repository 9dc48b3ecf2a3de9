"""Reading of the data of a report."""

import csv
import io
import math
from collections import defaultdict
from pathlib import Path

import numpy as np

from geonode.errors import ArtifactError, MissingArtifactError
from geonode.report.data import (
    INDICES,
    MAP_COLUMNS,
    MAP_ROWS,
    NEGLIGIBLE,
    POSITION_ROUNDING,
    Maps,
    Paths,
    Posterior,
    PosteriorMetric,
    Predictions,
    Report,
    Training,
    path_wavelengths,
    sample,
)
from geonode.spectra.chart import Chart
from geonode.spectra.series import Series, level_names, read_series
from geonode.storage.artifact import Artifact, open_artifact
from geonode.storage.document import read_metrics

REQUIRED = ("spectra", "metric", "christoffel", "geodesics", "decoders", "validate")


OPTIONAL = ("env", "summary")  # about the machine, not the series


def read_report(
    source: str, spectra: Path, christoffel: Path, geodesics: Path, metrics: Path
) -> Report:
    """Read and check the data of a report.

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
    plots = metrics / "plots"
    found = {name: read_metrics(metrics / f"{name}.json") for name in REQUIRED}
    for name in OPTIONAL:
        path = metrics / f"{name}.json"
        found[name] = read_metrics(path) if path.is_file() else {}
    series = read_series(spectra)
    artifact = open_artifact(spectra)
    names = level_names(series.concentrations)
    if list(found["validate"].get("folds", ())) != names:
        raise _of_another_run(metrics / "validate.json", "its folds are not the levels")
    kappas = found["metric"].get("chart_kappa", {})
    if len(kappas) != len(names) + 1:
        raise _of_another_run(metrics / "metric.json", "its folds are not those of the levels")
    kappa = list(kappas.values())[-1]
    chart = Chart(math.inf if kappa is None else kappa, series.chart.low, series.chart.high)
    logs = {"the metric": "metric_training", "the decoders": "training"}
    training = {
        name: _read_training(plots / f"{file}.csv", len(kappas)) for name, file in logs.items()
    }
    return Report(
        source=source,
        series=series,
        names=names,
        chart=chart,
        scans=artifact["scans"],
        masked=artifact.attributes["masked"],
        predictions=_read_predictions(plots / "predictions.csv", series, names),
        maps=_read_maps(christoffel, series, chart),
        paths=_read_paths(geodesics, series, chart),
        training={name: log for name, log in training.items() if log.terms},
        posteriors=_read_posteriors(plots / "posterior.csv", names) or None,
        posterior_metric=_read_posterior_metric(plots / "metric_posterior.csv"),
        metrics=found,
    )


def _read_text(path: Path) -> str:
    if not path.is_file():
        raise MissingArtifactError(path)
    return path.read_text(encoding="utf-8")


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
    if header[:-1] != ["level", "wavelength", "measured", "predicted"] or [
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
    """Whether a point of a density is drawn: points not negligible, their neighbours, ends."""
    large = np.pad(density > NEGLIGIBLE * density.max(), 1, constant_values=False)
    seen = large[:-2] | large[1:-1] | large[2:]
    seen[[0, -1]] = True
    return seen


def _of_another_run(path: Path, reason: str) -> ArtifactError:
    return ArtifactError(f"{path}: {reason} of the spectra; it is of another run: run `dvc repro`")
