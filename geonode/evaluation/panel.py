"""Nested leave-one-out of every series of a folder, and one table of how well it does.

The table is written after every series. Begun again, it keeps the rows whose fingerprint is that
of the file and the parameters at hand, so that an interrupted run goes on where it was.
"""

import csv
import hashlib
import io
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from geonode.config import Parameters, SpectraParameters
from geonode.devices.device import Device, environment, resolve
from geonode.errors import ArtifactError, GeonodeError, ParameterError, SpectraError
from geonode.estimation.model import SpectralModel
from geonode.evaluation.baselines import BASELINES
from geonode.evaluation.comparison import Comparison
from geonode.evaluation.coverage import coverage
from geonode.evaluation.estimation import calibration_scores, estimate_left_out
from geonode.evaluation.scores import series_scores
from geonode.learning.blend import BLENDS, training_steps
from geonode.learning.folds import leave_one_out
from geonode.learning.run import Runs
from geonode.learning.series_fit import fit_series
from geonode.progress import Report, silent
from geonode.spectra.folder import parameters_of_folder
from geonode.spectra.reading import files_of
from geonode.spectra.series import Series, read_series_csv
from geonode.storage.atomic import write_bytes
from geonode.storage.document import cell, encode_json, text_of

BLOCKS = {"precision", "inner", "metric", "decoders"}
"""Parameters, besides those of a series, that its scores depend on."""

BASELINE_COLUMN = "rmse_"
"""Of a CSV: what the names of the columns of `baseline_rmse` begin with."""


class Row(BaseModel):
    """The scores of a series, or why it has none.

    Attributes:
        q2, pooled_r2, interior_pooled_r2, mean_r2, rmse: as `series_scores`.
        best_baseline, best_baseline_rmse, chosen_baseline_rmse, skill: as `Comparison.summary`.
        coverage90, coverage90_interior, coverage90_ends: share of the measured points inside their
            90% intervals, of all levels, of those between the ends, and of these; None without
            inner folds.
        concentration_error, concentration_rmsep: of left-out concentrations, median and root of
            the mean square, as shares of the range of the levels.
        concentration_coverage90, concentration_coverage90_interior, concentration_coverage90_ends:
            share of the 90% sets that hold the true concentration.
        pls_error, pcr_error, single_wavelength_error: median error of left-out concentrations by
            classical calibrations, as shares of the range.
        levels, wavelengths: size of the series.
        seconds: of learning, prediction and all baselines.
        baseline_rmse: by baseline.
        fingerprint: of all that decides the scores; None where there are none.
        error: why there are none; None where there are.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    q2: float | None = None
    pooled_r2: float | None = None
    interior_pooled_r2: float | None = None
    mean_r2: float | None = None
    rmse: float | None = None
    best_baseline: str | None = None
    best_baseline_rmse: float | None = None
    chosen_baseline_rmse: float | None = None
    skill: float | None = None
    coverage90: float | None = None
    coverage90_interior: float | None = None
    coverage90_ends: float | None = None
    concentration_error: float | None = None
    concentration_rmsep: float | None = None
    concentration_coverage90: float | None = None
    concentration_coverage90_interior: float | None = None
    concentration_coverage90_ends: float | None = None
    pls_error: float | None = None
    pcr_error: float | None = None
    single_wavelength_error: float | None = None
    levels: int | None = None
    wavelengths: int | None = None
    seconds: float | None = None
    baseline_rmse: dict[str, float | None] = Field(
        default_factory=lambda: dict.fromkeys(BASELINES, None)
    )
    fingerprint: str | None = None
    error: str | None = None

    @property
    def ratio(self) -> float | None:
        """RMSE over that of the best baseline; None where there is none, or it is perfect."""
        if self.rmse is None or not self.best_baseline_rmse:
            return None
        return self.rmse / self.best_baseline_rmse


class Task(NamedTuple):
    """A series that is to be scored.

    Attributes:
        series: on its given chart.
        fingerprint: of all that decides its scores.
        steps: of training and prediction, at most: kinds that are not trained take none.
    """

    series: Series
    fingerprint: str
    steps: int


@dataclass(frozen=True)
class Panel:
    """A folder of series, and the table of their scores.

    Attributes:
        out: file of the table.
        parameters: of all series; `spectra` only of those without some of their own.
        device: where to train.
        rows: by series, of those that are scored or cannot be.
        tasks: by series, of the others.
    """

    out: Path
    parameters: Parameters
    device: Device
    rows: dict[str, Row]
    tasks: dict[str, Task]

    @classmethod
    def of(cls, folder: Path, out: Path, parameters: Parameters) -> "Panel":
        """Read a folder, and of the table that is there already the rows that still hold.

        A series that cannot be read, or has too few levels, has its row with the error already.

        Args:
            folder: as `parameters_of_folder`.
            out: a file .json or .csv, which `write` replaces.
            parameters: of all series.

        Raises:
            ParameterError: `out` is of neither format or a CSV in the folder itself, or a file of
                parameters is wrong.
            SpectraError: there is no such folder, or it is empty.
            DeviceError: the device is absent.
            ArtifactError: `out` exists and is no such table.
        """
        _require_format(folder, out)
        device = resolve(parameters.device, parameters.precision, parameters.memory_mb)
        rows, tasks = {}, {}
        stored = _stored(out)
        digest = _digest(parameters, device)
        for name, own in sorted(parameters_of_folder(folder, parameters.spectra).items()):
            try:
                fingerprint = _fingerprint(own, digest)
                known = _row(stored.get(name))
                if known is not None and known.fingerprint == fingerprint:
                    rows[name] = known
                    continue
                series = read_series_csv(own)
                tasks[name] = Task(series, fingerprint, _steps(series, parameters, device))
            except GeonodeError as error:
                rows[name] = Row(error=str(error))
        return cls(out, parameters, device, rows, tasks)

    @property
    def failed(self) -> dict[str, str]:
        """Why series could not be scored, by series."""
        return {n: row.error for n, row in sorted(self.rows.items()) if row.error is not None}

    def score(self, name: str, report: Report = silent) -> Row:
        """Score a series, or note why it cannot be, and write the table.

        Args:
            name: one of `tasks`.
            report: told of every step.

        Raises:
            ArtifactError: the table cannot be written; the older one is then intact.
        """
        series, fingerprint, _ = self.tasks[name]
        try:
            row = score(series, self.parameters, self.device, report)
            self.rows[name] = row.model_copy(update={"fingerprint": fingerprint})
        except GeonodeError as error:
            self.rows[name] = Row(error=str(error))
        self.write()
        return self.rows[name]

    def write(self) -> None:
        """Write the rows there are, atomically.

        Raises:
            ArtifactError: the operating system refuses.
        """
        rows = {name: self.rows[name].model_dump() for name in sorted(self.rows)}
        if self.out.suffix == ".csv":
            write_bytes(self.out, _to_csv(rows).encode())
            return
        content = {
            "parameters_digest": _digest(self.parameters, self.device),
            "preset": self.parameters.preset,
            "environment": environment(self.device) | {"geonode": version("geonode")},
            "series": rows,
        }
        write_bytes(self.out, encode_json(self.out, content))


def score(series: Series, parameters: Parameters, device: Device, report: Report = silent) -> Row:
    """Predict every level of a series from the others, by the learned way and by all baselines.

    What the pipeline does, but for the grid: path features come from the networks themselves.

    Args:
        series: on its given chart.
        parameters: blocks `metric`, `inner` and `decoders`.
        device: where to train.
        report: told of every step.

    Raises:
        TrainingError: as `fit_series`.
    """
    start = time.perf_counter()
    blocks = (parameters.inner, parameters.metric, parameters.decoders)
    learned, blend, features = fit_series(series, blocks, device, report)
    *_, whole = leave_one_out(len(series.concentrations))
    model = SpectralModel(series, learned, blend, whole)
    prediction = blend.left_out(series, features)
    measured, predicted = series.signal, prediction.spectra
    scores = series_scores(series.axis, series.concentrations, measured, predicted)
    comparison = Comparison.of(series, report).summary(scores["rmse"])
    baselines = comparison.pop("baselines")
    widths = prediction.half_width
    held = None if widths is None else coverage(measured, predicted, widths)["90"]
    return Row(
        q2=scores["q2"],
        pooled_r2=scores["pooled_r2"],
        interior_pooled_r2=scores["interior_pooled_r2"],
        mean_r2=scores["mean_r2"],
        rmse=scores["rmse"],
        **comparison,
        coverage90=held and held["all"],
        coverage90_interior=held and held["interior"],
        coverage90_ends=held and held["ends"],
        **_of_concentrations(model, report),
        levels=len(series.concentrations),
        wavelengths=len(series.axis),
        seconds=time.perf_counter() - start,
        baseline_rmse={name: found["rmse"] for name, found in baselines.items()},
    )


def _of_concentrations(model: SpectralModel, report: Report) -> dict[str, Any]:
    """Columns about left-out concentrations; those of estimates only where the model gives them."""
    columns = {
        f"{name}_error": scores["median_error_of_range"]
        for name, scores in calibration_scores(model.series).items()
    }
    estimated = estimate_left_out(model, report)
    if estimated is None:
        return columns
    summary = estimated.summary()
    places = ("coverage90", "coverage90_interior", "coverage90_ends")
    return columns | {
        "concentration_error": summary["median_error_of_range"],
        "concentration_rmsep": summary["rmsep_of_range"],
        **{f"concentration_{place}": summary[place] for place in places},
    }


def mean_ratio(rows: dict[str, Row]) -> float | None:
    """Geometric mean of `Row.ratio` over the series that have one; None if none has."""
    ratios = [row.ratio for row in rows.values() if row.ratio is not None]
    return float(np.prod(np.array(ratios) ** (1 / len(ratios)))) if ratios else None


SHOWN: dict[str, Callable[[Row], float | int | str | None]] = {
    "levels": lambda row: row.levels,
    "Q2": lambda row: row.q2,
    "R2": lambda row: row.pooled_r2,
    "interior R2": lambda row: row.interior_pooled_r2,
    "RMSE": lambda row: row.rmse,
    "best baseline": lambda row: row.best_baseline,
    "its RMSE": lambda row: row.best_baseline_rmse,
    "ratio": lambda row: row.ratio,
    "skill": lambda row: row.skill,
    "coverage 90%": lambda row: row.coverage90,
    "concentration error": lambda row: row.concentration_error,
    "by PLS": lambda row: row.pls_error,
}
"""Columns of the table for people, after the name of the series."""


def table(rows: dict[str, Row]) -> str:
    """The table for people: aligned columns, numbers to four digits, a dash where there is none."""
    lines = [["series", *SHOWN]]
    lines += [
        [name, *(_shown(column(row)) for column in SHOWN.values())]
        for name, row in sorted(rows.items())
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    left = {0, 1 + list(SHOWN).index("best baseline")}
    text = [
        "  ".join(
            cell.ljust(width) if place in left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    ]
    ratio = _shown(mean_ratio(rows))
    return "\n".join([*text, f"geometric mean of RMSE / RMSE of the best baseline: {ratio}"])


def _shown(value: float | int | str | None) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _steps(series: Series, parameters: Parameters, device: Device) -> int:
    levels, inner, block = len(series.concentrations), parameters.inner, parameters.decoders
    steps = Runs.of(levels, parameters.metric.members, inner, device).models
    steps *= parameters.metric.epochs
    decoders = Runs.of(levels, block.members, inner, device)
    steps += training_steps(BLENDS[block.kind], block, decoders)
    return steps + len(BASELINES) + 2 * levels


# what is refused, and what decides the scores


def _require_format(folder: Path, out: Path) -> None:
    expected = "a file .json or .csv"
    if out.suffix == ".csv" and out.parent.resolve() == folder.resolve():
        expected = f"a file outside of {folder}, where every CSV is a series"
    elif out.suffix in (".json", ".csv"):
        return
    raise ParameterError("command line", "--out", str(out), expected)


def _digest(parameters: Parameters, device: Device) -> str:
    """SHA-256 of the parameters of all series; `device: auto` is what it chose."""
    values = parameters.model_dump(mode="json", include=BLOCKS) | {"device": device.kind}
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _fingerprint(own: SpectraParameters, digest: str) -> str:
    """SHA-256 of all that decides the scores of a series: also its file, its own parameters."""
    try:
        content = b"".join(file.read_bytes() for file in files_of(Path(own.source)))
    except OSError as error:
        raise SpectraError(f"{own.source}: {error.strerror}; expected a file") from error
    values = own.model_dump(mode="json", exclude={"source"})
    head = json.dumps([values, digest, version("geonode")], sort_keys=True)
    return hashlib.sha256(head.encode() + b"\0" + content).hexdigest()


# the table as a file


def _stored(path: Path) -> dict[str, Any]:
    """Values of every series of the table that is there; of no series if there is none.

    Raises:
        ArtifactError: the file cannot be read, or is no table of a panel.
    """
    try:
        text = path.read_bytes().decode()
        return _from_csv(text) if path.suffix == ".csv" else _from_json(text)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, csv.Error) as error:
        raise ArtifactError(
            f"{path}: found a file that is no table of a panel, expected such a table or no file; "
            "name another"
        ) from error


def _row(values: Any) -> Row | None:
    """A row as it was written; None if it was not written by this version, or is damaged."""
    try:
        row = Row.model_validate(values)
    except ValidationError:
        return None
    return row if row.baseline_rmse.keys() == BASELINES.keys() else None


def _from_json(text: str) -> dict[str, Any]:
    content = json.loads(text)
    if not isinstance(content, dict) or "parameters_digest" not in content:
        raise ValueError("no digest")
    series = content.get("series")
    return series if isinstance(series, dict) else {}


def _from_csv(text: str) -> dict[str, Any]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    if not {"series", "fingerprint"} <= set(reader.fieldnames or ()):
        raise ValueError("no fingerprints")
    rows: dict[str, Any] = {}
    for cells in reader:
        values: dict[str, Any] = {"baseline_rmse": {}}
        for column, found in cells.items():
            baseline = str(column).removeprefix(BASELINE_COLUMN)
            place = values if baseline == column else values["baseline_rmse"]
            place[baseline] = found or None
        rows[text_of(values.pop("series") or "")] = values
    return rows


def _to_csv(rows: dict[str, dict[str, Any]]) -> str:
    """One line a series; no value is an empty cell."""
    text = io.StringIO()
    writer = csv.DictWriter(text, _flat("", Row().model_dump()), lineterminator="\n")
    writer.writeheader()
    writer.writerows(_flat(name, row) for name, row in rows.items())
    return text.getvalue()


def _flat(name: str, row: dict[str, Any]) -> dict[str, Any]:
    """Values by column of a CSV."""
    values: dict[str, Any] = {"series": name}
    for column, value in row.items():
        if column == "baseline_rmse":
            values |= {f"{BASELINE_COLUMN}{key}": rmse for key, rmse in value.items()}
        else:
            values[column] = value
    return {key: cell(one) if isinstance(one, str) else one for key, one in values.items()}
