"""Results of a calibration in use: tables of estimates and checks, the record, and their files."""

from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from geonode.calibration.calibration_file import CalibrationFile
from geonode.calibration.several_substances import SeveralSubstances
from geonode.estimation.estimates import Estimate
from geonode.estimation.tables import alternatives_text, csv_text
from geonode.report.table import Cell, Columns, Table
from geonode.report.workbook import workbook
from geonode.spectra.series import labelled
from geonode.storage.atomic import remove, replacing, write_bytes

BESIDE = ("controls", "validated", "standards", "record")
"""Tables of results beside that of the unknowns."""


def result_tables(file: CalibrationFile[Any]) -> list[Table]:
    """Tables of what the calibration was used on, and the record."""
    made = {
        _unknowns: file.unknowns,
        _controls: file.controls,
        _validated: file.validations,
        _standards: file.correction,
        _record: file.record,
    }
    return [make(file) for make, there in made.items() if there]


def interval_columns(unit: str, of: str = "") -> list[str]:
    """Columns of a concentration with its 90% interval."""
    return [labelled(f"{of}{name}", unit) for name in ("estimated", "low90", "high90")]


def files_of(out: Path) -> dict[str, Path]:
    """Files of the tables of results by name: estimates.csv, and estimates.record.csv beside it.

    A workbook holds all tables.
    """
    others = BESIDE if out.suffix.lower() == ".csv" else ()
    return {"unknowns": out} | {name: out.with_suffix(f".{name}.csv") for name in others}


def write_results(file: CalibrationFile[Any], out: Path) -> None:
    """Write results and their record: a workbook with all, or a CSV file with others beside it.

    Tables of results that were there before, and are not among these, are removed.

    Raises:
        ArtifactError: the operating system refuses.
    """
    tables, paths = result_tables(file), files_of(out)
    if len(paths) == 1:
        write_bytes(out, workbook(tables))
        return
    with ExitStack() as files:  # all are written before one is replaced
        for table in tables:
            temporary = files.enter_context(replacing(paths.pop(table.name)))
            temporary.write_text(csv_text(table.columns, table.rows), encoding="utf-8")
    for path in paths.values():
        if path.exists():
            remove(path)


def set_text(sets: list[tuple[float, float]]) -> str:
    """Intervals in words."""
    return "; ".join(f"{low:.4g} to {high:.4g}" for low, high in sets)


def _interval_cells(one: Estimate) -> list[Cell]:
    """Concentration and its interval; no single number where two are as likely."""
    ((amount, low, high),) = one.numbers
    return [alternatives_text(one.alternatives) or amount, low, high]


def _unknowns(file: CalibrationFile[Any]) -> Table:
    unit = file.unit
    failed = "a control failed" if not all(one.passed for one in file.controls) else ""
    if not file.series.is_of_one:
        return _unknown_mixtures(file, failed)
    columns = ["file", "spectrum", "method", *interval_columns(unit)]
    has_geonode = file.model.calibration.curve is not None
    if has_geonode:
        columns += interval_columns(unit, "geonode ")
        columns += ["ambiguous", "fits", "p", labelled("geonode set90", unit)]
    columns.append("remark")
    corrected = [labelled("uncorrected", unit)] if file.correction else []
    rows: list[list[Cell]] = []
    for name, found in file.unknowns:
        for one in found:
            row: list[Cell] = [name, one.name, file.method, *_interval_cells(one)]
            if (other := one.by_geonode) is not None:
                row += [*_interval_cells(other), other.is_ambiguous, other.fits, other.p_value]
                row.append(set_text(other.sets[0]))
            row.append("; ".join(part for part in (one.remark, failed) if part))
            rows.append([*row, *one.uncorrected])
    by = f"{file.method}, corrected by standards" if corrected else file.method
    title = f"Unknown spectra, estimated by {by}{', geonode beside it' if has_geonode else ''}"
    return Table("unknowns", title, columns + corrected, rows)


def _unknown_mixtures(file: CalibrationFile[SeveralSubstances], failed: str) -> Table:
    """Unknown spectra; `failed` is said of all in the remark."""
    columns = ["file", "spectrum", "fits", "remark"]
    for name, unit in zip(file.series.substances, file.series.units, strict=True):
        columns += [labelled(f"{name}{end}", unit) for end in ("", " low90", " high90")]
    rows: list[list[Cell]] = []
    for name, found in file.unknowns:
        for one in found:
            remark = "; ".join(part for part in (one.remark, failed) if part)
            rows.append([name, one.name, one.fits, remark, *chain(*one.numbers)])
    title = "Unknown spectra, all amounts estimated together, with 90% intervals"
    return Table("unknowns", title, columns, rows)


def _controls(file: CalibrationFile[Any]) -> Table:
    unit = file.unit
    columns = ["file", "control", labelled("known", unit), *interval_columns(unit)]
    columns += ["fits", "passed"]
    rows: list[list[Cell]] = []
    for one in file.controls:
        found = alternatives_text(one.alternatives) or one.estimated
        rows.append([one.file, one.name, one.known, found, one.low, one.high, one.fits, one.passed])
    return Table("controls", "Controls, which must lie in their 90% intervals", columns, rows)


def _validated(file: CalibrationFile[Any]) -> Table:
    unit, several = file.unit, len(file.validations) > 1
    columns = [*["file"] * several, "spectrum", labelled("known", unit)]
    columns += [*interval_columns(unit), labelled("error", unit), "inside the interval", "fits"]
    rows: list[list[Cell]] = []
    for found in file.validations:
        each = np.column_stack([found.known, found.estimated, found.ends])
        each = np.column_stack([each, found.estimated - found.known]).tolist()
        of_each = zip(found.names, each, found.held.tolist(), found.fits.tolist(), strict=True)
        names = [found.file] * several
        rows += [[*names, name, *numbers, *said] for name, numbers, *said in of_each]
    said = [one.sentence(unit) for one in file.validations]
    title = ". ".join(f"{one[0].upper()}{one[1:]}" for one in said)
    return Table("validated", title, columns, rows)


def _standards(file: CalibrationFile[Any]) -> Table:
    assert file.correction
    found, unit = file.correction, file.unit
    after = found.intercept + found.slope * found.estimated
    columns: Columns = [("spectrum", found.names), (labelled("known", unit), found.known)]
    columns += [
        (labelled("estimated", unit), found.estimated),
        (labelled("corrected", unit), after),
    ]
    said = found.sentence(unit)
    return Table.of_columns("standards", f"Estimates are {said}", columns)


def _record(file: CalibrationFile[Any]) -> Table:
    rows: list[list[Cell]] = [[*one] for one in file.record]
    return Table("record", "Record", ["what", "value"], rows)
