"""`geonode estimate --calibration`: estimates by a saved calibration, with checks and a record."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from geonode.commands.common import (
    MOST_LINES,
    echo_json,
    end_with_misfits,
    note,
    require_destination,
)
from geonode.commands.spectra_file import tell_checks
from geonode.errors import ParameterError
from geonode.progress import bar
from geonode.terminal import tell

if TYPE_CHECKING:
    from geonode.reading.files import Choices


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
    from geonode.calibration.routine import Routine, record, unchanged  # noqa: PLC0415
    from geonode.calibration.saved import load_calibration  # noqa: PLC0415
    from geonode.report.results import (  # noqa: PLC0415
        brief_unknowns,
        files_of,
        result_tables,
        write_results,
    )

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
    if as_json:
        tables = {table.name: table.records() for table in result_tables(found)}
        echo_json({"concentration_unit": found.unit, **tables})
    else:
        tell("\n".join(brief_unknowns(found).lines(MOST_LINES, "--out writes all of them")))
    if out is not None:
        note(f"{total} estimates -> {out}")
    end_with_misfits(found.misfits, total)
    if failed:
        raise typer.Exit(1)
