"""Results of a calibration in use: tables of estimates and checks, the record, and their files."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from geonode.calibration.calibration_file import CalibrationFile
from geonode.calibration.checks import Control
from geonode.calibration.one_substance import OneSubstance
from geonode.calibration.several_substances import SeveralSubstances
from geonode.estimation.estimates import Estimate
from geonode.storage.atomic import remove, replacing, write_bytes
from geonode.storage.table import SHOWN, Cell, Column, Table, number_text
from geonode.storage.workbook import workbook

BESIDE = ("controls", "validated", "standards", "record")
"""Tables of results beside that of the unknowns."""


def result_tables(file: CalibrationFile[Any]) -> list[Table]:
    """Tables of what the calibration was used on, and the record."""
    unknowns = _unknowns if file.series.is_of_one else _unknowns_of_several
    made: dict[Any, Any] = {
        unknowns: file.unknowns,
        _controls: file.controls,
        _validated: file.validations,
        _standards: file.correction,
    }
    tables = [make(file) for make, there in made.items() if there]
    return [*tables, Table.of_facts("record", "Record", file.record)] if file.record else tables


def brief_unknowns(file: CalibrationFile[Any]) -> Table:
    """Unknown spectra with one column an amount: the estimate and its 90% interval, as text."""
    names, found = _found(file)

    def text(one: Estimate, place: int) -> str:
        if not one.fits:
            return "-"
        amount, *ends = (number_text(number, SHOWN) for number in one.numbers[place])
        return f"{alternatives_text(one, SHOWN) or amount} ({' to '.join(ends)})"

    amounts = [
        Column(name or "estimated", [text(one, place) for one in found], file.unit)
        for place, name in enumerate(file.substances)
    ]
    spectra = [Column("file", names), Column("spectrum", [one.name for one in found])]
    columns = [*spectra, *amounts, Column("remark", _remarks(file, found))]
    return Table("brief", "Unknown spectra, with 90% intervals", columns)


def interval_columns(numbers: Sequence[Any], unit: str, of: str = "") -> list[Column]:
    """Columns of estimates, and of the lower and upper ends of their 90% intervals."""
    names = ("estimated", "low90", "high90")
    return [Column(f"{of}{name}", one, unit) for name, one in zip(names, numbers, strict=True)]


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
            temporary.write_text(table.csv(), encoding="utf-8")
    for path in paths.values():
        if path.exists():
            remove(path)


def alternatives_text(one: Estimate | Control, digits: int = 6) -> str:
    """Concentrations that are as likely, as "18.3 or 41.7"; empty for one alone."""
    found = one.alternatives if len(one.alternatives) > 1 else ()
    return " or ".join(number_text(number, digits) for number in found)


def _found(file: CalibrationFile[Any]) -> tuple[list[str], list[Estimate]]:
    """Names of the files of all unknown spectra, and their estimates."""
    both = [(name, one) for name, of_file in file.unknowns for one in of_file]
    return [name for name, _ in both], [one for _, one in both]


def _remarks(file: CalibrationFile[Any], found: list[Estimate]) -> list[str]:
    """What must be known of unknown spectra."""
    failed = "" if all(one.passed for one in file.controls) else "a control failed"
    return ["; ".join(part for part in (one.remark, failed) if part) for one in found]


def _unknowns(file: CalibrationFile[OneSubstance]) -> Table:
    names, found = _found(file)
    columns = [
        Column("file", names),
        Column("spectrum", [one.name for one in found]),
        Column("method", [file.method] * len(found)),
        *interval_columns(_intervals(found), file.unit),
    ]
    by = file.method
    if file.correction:
        by += ", corrected by standards"
    if of_geonode := [one.by_geonode for one in found if one.by_geonode]:
        by += ", geonode beside it"
        columns += [
            *interval_columns(_intervals(of_geonode), file.unit, "geonode "),
            Column("ambiguous", [one.is_ambiguous for one in of_geonode]),
            Column("fits", [one.fits for one in of_geonode]),
            Column("p", [one.p_value for one in of_geonode]),
            Column("geonode set90", [one.sets[0] for one in of_geonode], file.unit),
        ]
    columns.append(Column("remark", _remarks(file, found)))
    if file.correction:
        columns.append(Column("uncorrected", [one.uncorrected[0] for one in found], file.unit))
    return Table("unknowns", f"Unknown spectra, estimated by {by}", columns)


def _intervals(found: list[Estimate]) -> list[list[Cell]]:
    """Concentrations, none alone where two are as likely, and the ends of their sets."""
    numbers = [one.numbers[0] for one in found]
    amounts: list[Cell] = [alternatives_text(one) or one.amounts[0] for one in found]
    return [amounts, [low for _, low, _ in numbers], [high for *_, high in numbers]]


def _unknowns_of_several(file: CalibrationFile[SeveralSubstances]) -> Table:
    names, found = _found(file)
    columns = [
        Column("file", names),
        Column("spectrum", [one.name for one in found]),
        Column("fits", [one.fits for one in found]),
        Column("remark", _remarks(file, found)),
    ]
    numbers = np.array([one.numbers for one in found])  # unknown, substance, amount and ends
    each = zip(file.series.substances, file.series.units, strict=True)
    for place, (name, unit) in enumerate(each):
        columns += [
            Column(f"{name}{end}", numbers[:, place, at], unit, group=name)
            for at, end in enumerate(("", " low90", " high90"))
        ]
    title = "Unknown spectra, all amounts estimated together, with 90% intervals"
    return Table("unknowns", title, columns)


def _controls(file: CalibrationFile[Any]) -> Table:
    found, unit = file.controls, file.unit
    estimated = [alternatives_text(one) or one.estimated for one in found]
    ends = ([one.low for one in found], [one.high for one in found])
    columns = [
        Column("file", [one.file for one in found]),
        Column("control", [one.name for one in found]),
        Column("known", [one.known for one in found], unit),
        *interval_columns((estimated, *ends), unit),
        Column("fits", [one.fits for one in found]),
        Column("passed", [one.passed for one in found]),
    ]
    return Table("controls", "Controls, which must lie in their 90% intervals", columns)


def _validated(file: CalibrationFile[Any]) -> Table:
    found, unit = file.validations, file.unit
    names = ("known", "estimated", "ends", "held", "fits")
    each = (np.concatenate([getattr(one, name) for one in found]) for name in names)
    known, estimated, ends, held, fits = each
    files: list[Cell] = [one.file for one in found for _ in one.names]
    columns = [
        *[Column("file", files)] * (len(found) > 1),
        Column("spectrum", [name for one in found for name in one.names]),
        Column("known", known, unit),
        *interval_columns((estimated, *ends.T), unit),
        Column("error", estimated - known, unit),
        Column("inside the interval", held),
        Column("fits", fits),
    ]
    said = [one.sentence(unit) for one in found]
    title = ". ".join(f"{one[0].upper()}{one[1:]}" for one in said)
    return Table("validated", title, columns)


def _standards(file: CalibrationFile[Any]) -> Table:
    assert file.correction
    found, unit = file.correction, file.unit
    columns = [
        Column("spectrum", found.names),
        Column("known", found.known, unit),
        Column("estimated", found.estimated, unit),
        Column("corrected", found.intercept + found.slope * found.estimated, unit),
    ]
    return Table("standards", f"Estimates are {found.sentence(unit)}", columns)
