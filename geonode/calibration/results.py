"""Results of a calibration in use: tables of estimates and checks, the record, and their files."""

import math
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from geonode.calibration.calibration_file import CalibrationFile
from geonode.estimation.estimates import Estimate
from geonode.storage.atomic import remove, replacing, write_bytes
from geonode.storage.table import SHOWN, Cell, Column, Table, number_text
from geonode.wording import percent

BESIDE = ("controls", "validated", "standards", "record")
"""Tables of results beside that of the unknowns."""

MOST_NAMED = 5
"""Largest number of names in one line."""


def result_tables(file: CalibrationFile[Any]) -> list[Table]:
    """Tables of what the calibration was used on, and the record."""
    made: dict[Any, Any] = {
        _unknowns: file.unknowns,
        _controls: file.controls,
        _validated: file.validations,
        _standards: file.correction,
    }
    tables = [make(file) for make, there in made.items() if there]
    return [*tables, Table.of_facts("record", file.record)] if file.record else tables


def brief_unknowns(file: CalibrationFile[Any]) -> Table:
    """Unknown spectra with one column an amount, as text: what is reported of it, and remarks."""
    names, estimates = _spectra_used(file)
    amounts = [
        Column(name or "estimate", [_reported_text(one, at) for one in estimates], file.unit)
        for at, name in enumerate(file.substances)
    ]
    columns = [Column("sample", [one.name for one in estimates]), *amounts]
    columns.append(Column("remark", [text or "fits" for text in _remarks(file, estimates)]))
    if len(file.unknowns) > 1:
        columns.insert(0, Column("file", names))
    title = "Unknown spectra: estimate ± standard error"
    return Table("brief", f"{title} ({percent(file.model.level)}% interval)", columns)


def misfits_said(file: CalibrationFile[Any]) -> str:
    """Line that names unknown spectra that fit nowhere; empty if there are none."""
    _, estimates = _spectra_used(file)
    names = [one.name for one in estimates if not one.fits]
    named = ", ".join(names[:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else "")
    return f"{len(names)} of {len(estimates)} spectra fit nowhere: {named}" if names else ""


def reported(amount: float, error: float) -> tuple[float, float | None, str]:
    """Amount and standard error for reports, and both as text.

    The standard error has two significant digits, the amount ends at the same place.
    """
    if not 0 < error < math.inf:
        return amount, None, number_text(amount, SHOWN)
    error = float(f"{error:.1e}")
    places = 1 - math.floor(math.log10(error))
    amount, shown = round(amount, places), max(places, 0)
    return amount, error, f"{amount:.{shown}f} ± {error:.{shown}f}"


def _reported_text(one: Estimate, place: int) -> str:
    if not one.fits:
        return "-"
    amount, low, high = one.numbers[place]
    within = f"({number_text(low, SHOWN)} to {number_text(high, SHOWN)})"
    if not one.is_number(place):
        return f"not determined {within}"
    text = alternatives_text(one, SHOWN) or reported(amount, one.standard_errors[place])[2]
    return f"{text} {within}"


def interval_columns(numbers: Sequence[Any], unit: str, level: float, of: str = "") -> list[Column]:
    """Columns of estimates, and of the lower and upper ends of their intervals of a level."""
    names = ("estimated", *ends_called(level))
    return [Column(f"{of}{name}", one, unit) for name, one in zip(names, numbers, strict=True)]


def ends_called(level: float) -> tuple[str, str]:
    """Names of columns of the lower and upper ends of intervals of a level."""
    return f"low{percent(level)}", f"high{percent(level)}"


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
        from geonode.storage.workbook import workbook  # noqa: PLC0415 - many want no workbook

        write_bytes(out, workbook(tables))
        return
    with ExitStack() as files:  # all are written before one is replaced
        for table in tables:
            temporary = files.enter_context(replacing(paths.pop(table.name)))
            temporary.write_text(table.csv(), encoding="utf-8")
    for path in paths.values():
        if path.exists():
            remove(path)


def alternatives_text(one: Estimate, digits: int = 6) -> str:
    """Concentrations that are as likely, as "18.3 or 41.7"; empty for one alone."""
    found = one.alternatives if len(one.alternatives) > 1 else ()
    return " or ".join(number_text(number, digits) for number in found)


def _spectra_used(file: CalibrationFile[Any]) -> tuple[list[str], list[Estimate]]:
    """Names of the files of all unknown spectra, and their estimates."""
    both = [(name, one) for name, of_file in file.unknowns for one in of_file]
    return [name for name, _ in both], [one for _, one in both]


def _remarks(file: CalibrationFile[Any], estimates: list[Estimate]) -> list[str]:
    """Remarks on unknown spectra; a failed control concerns the spectra of its file.

    That of a file with nothing but controls concerns all.
    """
    failed = {one.file for one in file.controls if not one.passed}
    checked = {(one.file, one.name) for one in file.controls}
    sizes = {name: len(of_file) for name, of_file in file.unknowns}
    alone = any(sizes[name] == sum(one == name for one, _ in checked) for name in failed)
    remarks = [
        (one.remark, "a control failed" * (alone or name in failed), file.model.caution)
        for name, one in zip(_spectra_used(file)[0], estimates, strict=True)
    ]
    return ["; ".join(filter(None, one)).replace(".; ", "; ") for one in remarks]


def _unknowns(file: CalibrationFile[Any]) -> Table:
    """Table of unknowns: what is reported first, then raw numbers and further facts."""
    names, estimates = _spectra_used(file)
    columns = [Column("file", names), Column("spectrum", [one.name for one in estimates])]
    raw: list[Column] = []
    level = file.model.level
    own = ("standard error", *ends_called(level), "raw estimate", "raw standard error")
    for place, (name, unit) in enumerate(
        zip(file.series.substances, file.series.units, strict=True)
    ):
        group = "" if file.series.is_of_one else name
        cells = zip(*(_reported_cells(one, place) for one in estimates), strict=True)
        for title, values in zip((group or "estimated", *own), cells, strict=True):
            called = f"{group} {title}" if group and title in own else title
            shown = raw if title.startswith("raw") else columns
            digits = None if shown is raw else 6
            shown.append(Column(called, values, unit, digits=digits, group=group))
    columns.append(Column("remark", _remarks(file, estimates)))
    columns += [Column("fits", [one.fits for one in estimates]), *raw]
    if any(one.dilution != 1 for one in estimates):
        columns.append(Column("dilution", [one.dilution for one in estimates]))
    by = file.method
    if file.correction:
        by += ", corrected by standards"
    if any(one.uncorrected for one in estimates):
        raw_amounts = [one.uncorrected[0] if one.fits else None for one in estimates]
        columns.append(Column("uncorrected", raw_amounts, file.unit))
    if of_geonode := [one.by_geonode for one in estimates if one.by_geonode]:
        if file.model.calibration.method != "geonode":
            by += ", geonode beside it"
            numbers = [_interval_cells(estimate, 0) for estimate in of_geonode]
            columns += interval_columns([*zip(*numbers, strict=True)], file.unit, level, "geonode ")
        sets = [one.sets[0] if one.fits else None for one in of_geonode]
        columns += [
            Column("ambiguous", [one.is_ambiguous for one in of_geonode]),
            Column("p", [one.p_value for one in of_geonode]),
            Column(f"geonode set{percent(level)}", sets, file.unit),
        ]
    columns.append(Column("method", [file.method] * len(estimates)))
    title = f"Unknown spectra, estimated by {by}, with {percent(level)}% intervals"
    return Table("unknowns", title, columns)


def _reported_cells(one: Estimate, place: int) -> tuple[Cell, ...]:
    """Amount for reports, its error, ends of its set, and the raw amount and error."""
    amount, low, high = one.numbers[place]
    error = one.standard_errors[place]
    if not one.fits:
        return (None,) * 6
    raw = amount, error if error < math.inf else None
    if not one.is_number(place):
        return "not determined", None, low, high, *raw
    rounded, shown, _ = reported(amount, error)
    return alternatives_text(one) or rounded, shown, low, high, *raw


def _interval_cells(estimate: Estimate, place: int) -> list[Cell]:
    """Amount, or two where they are as likely, and the ends of its set; none of a misfit."""
    amount, low, high = estimate.numbers[place]
    return [alternatives_text(estimate) or amount, low, high] if estimate.fits else [None] * 3


def _controls(file: CalibrationFile[Any]) -> Table:
    controls, unit = file.controls, file.unit
    numbers = [_interval_cells(control.estimate, control.place) for control in controls]
    columns = [
        Column("file", [one.file for one in controls]),
        Column("control", [one.name for one in controls]),
        Column("known", [one.known for one in controls], unit),
        *interval_columns([*zip(*numbers, strict=True)], unit, file.model.level),
        Column("fits", [one.estimate.fits for one in controls]),
        Column("z", [one.z if one.estimate.fits else None for one in controls], digits=3),
        Column("warns", [one.warns for one in controls]),
        Column("passed", [one.passed for one in controls]),
    ]
    title = "Controls: z, the error over its standard error, warns above 2 and fails above 3"
    return Table("controls", title, columns)


def _validated(file: CalibrationFile[Any]) -> Table:
    validations, unit = file.validations, file.unit
    each = [(judged, sample) for judged in validations for sample in judged.estimates]
    known, estimated, covered = (
        np.concatenate([getattr(judged, name) for judged in validations])
        for name in ("known", "estimated", "covered")
    )
    numbers = [sample.numbers[judged.place] for judged, sample in each]
    columns = [
        *[Column("file", [judged.file for judged, _ in each])] * (len(validations) > 1),
        Column("spectrum", [sample.name for _, sample in each]),
        Column("known", known, unit),
        *interval_columns([*zip(*numbers, strict=True)], unit, file.model.level),
        Column("error", estimated - known, unit),
        Column("inside the interval", covered),
        Column("fits", [sample.fits for _, sample in each]),
    ]
    return Table("validated", "Validation: known amounts and their estimates", columns)


def _standards(file: CalibrationFile[Any]) -> Table:
    assert file.correction
    correction, unit = file.correction, file.unit
    columns = [
        Column("spectrum", correction.names),
        Column("known", correction.known, unit),
        Column("estimated", correction.estimated, unit),
        Column("corrected", correction.corrected, unit),
    ]
    return Table("standards", "Standards, and their estimates before and after", columns)
