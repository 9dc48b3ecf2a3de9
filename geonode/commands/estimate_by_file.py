"""`geonode estimate --calibration`: estimates by a saved calibration, with checks and a record."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from geonode.commands.common import (
    MOST_LINES,
    aligned,
    echo_json,
    end_with_misfits,
    note,
    require_destination,
)
from geonode.commands.mixture import shown_mixtures
from geonode.commands.spectra_file import tell_checks
from geonode.errors import ParameterError
from geonode.progress import bar
from geonode.terminal import tell

if TYPE_CHECKING:
    from geonode.reading.files import Choices
    from geonode.report.table import Table


def estimate_by_file(
    calibration: Path,
    given: list[Path],
    controls: list[str],
    validation: Path | None,
    standards: Path | None,
    choices: "Choices",
    user: str | None,
    out: Path | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Estimate unknown spectra by a calibration file; the other arguments are options.

    Raises:
        GeonodeError: a file cannot be read or used, or `out` must not be written.
        typer.Exit: a control or the validation failed, or a spectrum fits nowhere; results are
            written.
    """
    from geonode.calibration.mixture_file import MixtureFile  # noqa: PLC0415
    from geonode.calibration.routine import Routine, record, unchanged  # noqa: PLC0415
    from geonode.calibration.saved import load_calibration  # noqa: PLC0415
    from geonode.report.results import files_of, result_tables, write_results  # noqa: PLC0415

    with unchanged(calibration) as read:
        found = load_calibration(calibration)
    routine = Routine.read(found.series, given, controls, validation, standards, choices)
    workbooks = [one for one in routine.files if one.suffix.lower() == ".xlsx"]
    if choices.sheet is not None and not workbooks:
        raise ParameterError("options", "--sheet", choices.sheet, "a workbook to read it from")
    require = partial(require_destination, never=(calibration, *routine.files), overwrite=overwrite)
    for one in files_of(out).values() if out is not None else ():
        require("--out", one, ".csv", ".xlsx")
    total = sum(len(one.names) for one in routine.unknowns.values())
    with bar("estimating", total) as report:
        found = routine.used(found, report)
    saved = calibration.name, read[calibration]
    found = replace(found, record=record(found, saved, routine.files, routine.asked, user))
    if out is not None:
        write_results(found, out)
    failed = tell_checks(found)
    if found.correction:
        tell(f"estimates are {found.correction.sentence(found.unit)}")
    tables = {table.name: table for table in result_tables(found)}
    if as_json:
        of_table = {
            name: [dict(zip(table.columns, row, strict=True)) for row in table.rows]
            for name, table in tables.items()
        }
        echo_json({"concentration_unit": found.unit, **of_table})
    elif isinstance(found, MixtureFile):
        tell("\n".join(shown_mixtures(tables["unknowns"])))
    else:
        _tell_unknowns(tables["unknowns"])
    if out is not None:
        note(f"{total} estimates -> {out}")
    end_with_misfits(found.misfits, total)
    if failed:
        raise typer.Exit(1)


def _tell_unknowns(table: "Table") -> None:
    """Print the first columns of the first unknowns, and the remarks on them."""
    from geonode.estimation.tables import cell_text  # noqa: PLC0415

    remark = table.columns.index("remark")
    rows = [table.columns, *table.rows[:MOST_LINES]]
    cells = [[cell_text(one) for one in (*row[:6], row[remark])] for row in rows]
    tell("\n".join(aligned(cells)))
    if len(table.rows) > MOST_LINES:
        tell(f"and {len(table.rows) - MOST_LINES} more; --out writes all of them")
