"""Results of a calibration in use: tables of estimates and checks, the record, and their files."""

from contextlib import ExitStack
from itertools import chain
from pathlib import Path

import numpy as np

from geonode.calibration.calibrated_file import CalibratedFile
from geonode.calibration.mixture_file import MixtureFile
from geonode.estimation.tables import alternatives_text, csv_text
from geonode.report.table import Cell, Columns, Table
from geonode.report.workbook import workbook
from geonode.spectra.series import labelled
from geonode.storage.atomic import remove, replacing, write_bytes

BESIDE = ("controls", "validated", "standards", "record")
"""Tables of results beside that of the unknowns."""


def result_tables(file: CalibratedFile | MixtureFile) -> list[Table]:
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


def write_results(file: CalibratedFile | MixtureFile, out: Path) -> None:
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


def _unknowns(file: CalibratedFile | MixtureFile) -> Table:
    unit = file.unit
    failed = "a control failed" if not all(one.passed for one in file.controls) else ""
    if isinstance(file, MixtureFile):
        return _unknown_mixtures(file, failed)
    columns = ["file", "spectrum", "method", *interval_columns(unit)]
    columns += interval_columns(unit, "geonode ")
    columns += ["ambiguous", "fits", "p", labelled("geonode set90", unit), "remark"]
    corrected = [labelled("uncorrected", unit)] if file.correction else []
    rows: list[list[Cell]] = []
    for name, found in file.unknowns:
        for one in found:
            row = one.of_geonode
            said = [file.range_remark(one.concentration), row.sentence("" if unit == "1" else unit)]
            remark = "; ".join(part for part in (*said, failed) if part)
            # No single number where two concentrations are as likely.
            by_geonode = alternatives_text(row.alternatives) or row.mode
            estimated = alternatives_text(one.alternatives) or one.concentration
            numbers: list[Cell] = [estimated, one.low, one.high]
            of_geonode: list[Cell] = [by_geonode, row.low, row.high, row.ambiguous, row.fits]
            ends: list[Cell] = [row.p_value, set_text(row.sets), remark]
            before: list[Cell] = [one.uncorrected] if corrected else []
            rows.append([name, row.name, file.method, *numbers, *of_geonode, *ends, *before])
    by = f"{file.method}, corrected by standards" if corrected else file.method
    title = f"Unknown spectra, estimated by {by}, geonode beside it"
    return Table("unknowns", title, columns + corrected, rows)


def _unknown_mixtures(file: MixtureFile, failed: str) -> Table:
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


def _controls(file: CalibratedFile | MixtureFile) -> Table:
    unit = file.unit
    columns = ["file", "control", labelled("known", unit), *interval_columns(unit)]
    columns += ["fits", "passed"]
    rows: list[list[Cell]] = []
    for one in file.controls:
        found = alternatives_text(one.alternatives) or one.estimated
        rows.append([one.file, one.name, one.known, found, one.low, one.high, one.fits, one.passed])
    return Table("controls", "Controls, which must lie in their 90% intervals", columns, rows)


def _validated(file: CalibratedFile | MixtureFile) -> Table:
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


def _standards(file: CalibratedFile | MixtureFile) -> Table:
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


def _record(file: CalibratedFile | MixtureFile) -> Table:
    rows: list[list[Cell]] = [[*one] for one in file.record]
    return Table("record", "Record", ["what", "value"], rows)
