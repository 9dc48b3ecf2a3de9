"""Table of a panel: one row per series, as JSON or CSV."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from geonode.errors import ArtifactError
from geonode.evaluation.baselines import BASELINES
from geonode.storage.document import cell, text_of

JSON_KEYS = ("parameters_digest", "preset", "environment", "series")
"""Keys of a table as JSON."""

BASELINE_COLUMN = "rmse_"
"""Prefix of the CSV columns of `baseline_rmse`."""


class PanelRow(BaseModel):
    """Scores of a series, or the error that prevented them.

    Attributes:
        q2, pooled_r2, interior_pooled_r2, mean_r2, rmse: as `series_scores`.
        best_baseline, best_baseline_rmse, chosen_baseline_rmse, skill: as `Comparison.summary`.
        coverage90, coverage90_interior, coverage90_ends: share of the measured points inside their
            90% intervals, of all levels, of those between the ends, and of the ends; None without
            intervals.
        concentration_error, concentration_rmsep: median and root mean squared error of left-out
            concentrations, as shares of the range of the levels.
        concentration_coverage90, concentration_coverage90_interior, concentration_coverage90_ends:
            share of the 90% sets that hold the true concentration.
        pls_error, pcr_error, single_wavelength_error: median error of left-out concentrations by
            classical calibrations, as shares of the range.
        levels, wavelengths: size of the series.
        seconds: time of learning, prediction and all baselines.
        baseline_rmse: RMSE by baseline.
        fingerprint: hash of all inputs of the scores; None without scores.
        error: error message; None with scores.
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
        """RMSE relative to the best baseline; None without scores or for a perfect baseline."""
        if self.rmse is None or not self.best_baseline_rmse:
            return None
        return self.rmse / self.best_baseline_rmse


SCREEN_COLUMNS: dict[str, Callable[[PanelRow], float | int | str | None]] = {
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
"""Columns of the table on the screen, after the name of the series."""


def table(rows: dict[str, PanelRow]) -> list[list[str]]:
    """Table on the screen: header and rows, numbers of four digits, a dash for missing ones."""
    return [["series", *SCREEN_COLUMNS]] + [
        [name, *(_shown(column(row)) for column in SCREEN_COLUMNS.values())]
        for name, row in sorted(rows.items())
    ]


def mean_ratio(rows: dict[str, PanelRow]) -> str:
    """Geometric mean of `PanelRow.ratio` over the series that have one, in words."""
    ratios = [row.ratio for row in rows.values() if row.ratio is not None]
    mean = float(np.prod(np.array(ratios) ** (1 / len(ratios)))) if ratios else None
    return f"geometric mean of RMSE / RMSE of the best baseline: {_shown(mean)}"


def _shown(value: float | int | str | None) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def read_table(path: Path) -> dict[str, Any]:
    """Values of every series of an existing table; empty if there is no file.

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
            f"{path}: found a file that is no table of a panel of this version, expected such a "
            "table or no file; name another, or remove it"
        ) from error


def row_of(values: Any) -> PanelRow | None:
    """Row from stored values; None if they are damaged or of another version."""
    try:
        row = PanelRow.model_validate(values)
    except ValidationError:
        return None
    return row if row.baseline_rmse.keys() == set(BASELINES) else None


def _from_json(text: str) -> dict[str, Any]:
    content = json.loads(text)
    if not isinstance(content, dict) or list(content) != list(JSON_KEYS):
        raise ValueError("other keys")
    if not isinstance(content["series"], dict):
        raise ValueError("no series")
    return content["series"]


def _from_csv(text: str) -> dict[str, Any]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    if list(reader.fieldnames or ()) != list(_flat("", PanelRow().model_dump())):
        raise ValueError("other columns")
    rows: dict[str, Any] = {}
    for cells in reader:
        values: dict[str, Any] = {"baseline_rmse": {}}
        for column, found in cells.items():
            baseline = str(column).removeprefix(BASELINE_COLUMN)
            place = values if baseline == column else values["baseline_rmse"]
            place[baseline] = found or None
        rows[text_of(values.pop("series") or "")] = values
    return rows


def to_csv(rows: dict[str, dict[str, Any]]) -> str:
    """CSV table with one line per series; missing values are empty cells."""
    text = io.StringIO()
    writer = csv.DictWriter(text, _flat("", PanelRow().model_dump()), lineterminator="\n")
    writer.writeheader()
    writer.writerows(_flat(name, row) for name, row in rows.items())
    return text.getvalue()


def _flat(name: str, row: dict[str, Any]) -> dict[str, Any]:
    """Values of a row by CSV column."""
    values: dict[str, Any] = {"series": name}
    for column, value in row.items():
        if column == "baseline_rmse":
            values |= {f"{BASELINE_COLUMN}{key}": rmse for key, rmse in value.items()}
        else:
            values[column] = value
    return {key: cell(one) if isinstance(one, str) else one for key, one in values.items()}
