"""The folder of a calibration: written whole or not at all."""

import io
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from openpyxl import Workbook
from openpyxl.cell import WriteOnlyCell
from openpyxl.chart import Reference, ScatterChart, Series
from openpyxl.styles import Font
from openpyxl.utils import get_column_letter

from geonode.calibration.calibrated_file import CalibratedFile
from geonode.calibration.mixture_file import MixtureFile
from geonode.calibration.routine import record
from geonode.calibration.saved import save_calibration
from geonode.errors import ParameterError
from geonode.estimation.tables import csv_text
from geonode.report.calibration_page import calibration_page
from geonode.report.calibration_tables import result_tables, tables
from geonode.report.mixture_page import mixture_page
from geonode.report.page import Cell, Table
from geonode.storage.atomic import remove, replacing, write_bytes
from geonode.storage.document import write_text
from geonode.storage.seal import file_checksum
from geonode.terminal import printable

PAGE, WORKBOOK, CALIBRATION = "index.html", "calibration.xlsx", "calibration.safetensors"
BESIDE = ("controls", "validated", "standards", "record")
"""Tables of results beside that of the unknowns."""

WRITTEN = re.compile(r"<!-- geonode wrote (\S+) (\w{8}) -->")
"""Name and checksum of a file beside a page, at the end of the page."""

LONGEST = 60
"""Characters that a column is made wide for."""

SHOWN = 5
"""Digits of the largest number of a column in the workbook, which holds all of them."""

CHARTS = {
    "calibration": (3, "Estimated over true concentrations", True),
    "regression": (3, "Regression vector", False),
}
"""Charts of the workbook by sheet: the column drawn over the first, the title, points or a line."""

DATED = datetime(2000, 1, 1, tzinfo=UTC).replace(tzinfo=None)
"""Date of every workbook, so that the same tables give the same sheets."""


def require_folder(folder: Path, inputs: list[Path], *, overwrite: bool) -> None:
    """Refuse a folder with anything in it but an older calibration that may be replaced.

    Args:
        folder: folder to be written.
        inputs: files that are read.
        overwrite: whether an older calibration may be replaced.

    Raises:
        ParameterError: something else is there, or an input is inside.
    """
    entries = sorted(folder.iterdir()) if folder.is_dir() else []
    written = _written(folder)
    foreign = [entry.name for entry in entries if not _is_unchanged(entry, written)]
    found = f"{folder} with {foreign[0]}" if foreign else str(folder)
    if any(folder.resolve() in (one.resolve(), *one.resolve().parents) for one in inputs):
        expected = "another folder than that of a file that is read"
    elif folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        expected = "a folder, or a name that is not taken"
    elif foreign:
        expected = "a new folder, an empty one, or one with nothing but a calibration as it was "
        expected += "written; move your own or changed files away"
    elif entries and not overwrite:
        expected = "a name that is not taken; --overwrite replaces it"
    else:
        return
    raise ParameterError("options", "--out", found, expected)


def write_calibration(
    file: CalibratedFile | MixtureFile,
    folder: Path,
    files: Sequence[Path] = (),
    user: str | None = None,
) -> None:
    """Write page, workbook, tables and calibration file, all or none.

    Args:
        file: the calibration with its results.
        folder: where to.
        files: that were read for results, for the record.
        user: for the record; None: not told.

    Raises:
        ArtifactError: the operating system refuses.
    """
    with replacing(folder) as temporary:
        temporary.mkdir()
        save_calibration(temporary / CALIBRATION, file)
        made = record(file, temporary / CALIBRATION, [*files], user)
        file = replace(file, record=made)
        found = tables(file)
        (temporary / WORKBOOK).write_bytes(workbook(found))
        for table in found:
            text = csv_text(table.columns, table.rows)
            (temporary / f"{table.name}.csv").write_text(text, encoding="utf-8")
        if isinstance(file, MixtureFile):
            page = mixture_page(file, found)
        else:
            page = calibration_page(file, found)
        for one in sorted(temporary.iterdir()):
            page += f"<!-- geonode wrote {one.name} {file_checksum(one)} -->\n"
        (temporary / PAGE).write_text(page, encoding="utf-8")


def beside(out: Path) -> list[Path]:
    """Files of results that stand or may stand beside the file of estimates.

    Args:
        out: such as estimates.csv, beside which estimates.record.csv is; a workbook has them all.
    """
    is_table = out.suffix.lower() == ".csv"
    return [out.with_suffix(f".{name}.csv") for name in BESIDE] if is_table else []


def write_results(file: CalibratedFile | MixtureFile, out: Path) -> None:
    """Write results and their record: a workbook with all, or a CSV file with others beside it.

    Tables of results that were there before, and are not among these, are removed.

    Raises:
        ArtifactError: the operating system refuses.
    """
    tables = {table.name: table for table in result_tables(file)}
    if not (others := beside(out)):
        write_bytes(out, workbook([*tables.values()]))
        return
    for path, name in zip((*others, out), (*BESIDE, "unknowns"), strict=True):
        if name in tables:
            write_text(path, csv_text(tables[name].columns, tables[name].rows))
        elif path.exists():
            remove(path)


def _written(folder: Path) -> dict[str, str]:
    """Checksums of the files of a calibration, as its page lists them; of the page itself none."""
    page = folder / PAGE
    end = page.read_bytes()[-4000:].decode("utf-8", "replace") if page.is_file() else ""
    found = dict(WRITTEN.findall(end))
    return found | {PAGE: ""} if found else {}


def _is_unchanged(entry: Path, written: dict[str, str]) -> bool:
    """Whether an entry of a folder is a file that was written there, and is still the same."""
    if entry.is_symlink() or not entry.is_file():
        return False
    return written.get(entry.name) in (file_checksum(entry), "")


def workbook(tables: list[Table]) -> bytes:
    """A workbook with one sheet a table: headers that stay, numbers as numbers, texts as texts."""
    book = Workbook(write_only=True)
    book.properties.created = book.properties.modified = DATED
    book.properties.creator = "geonode"
    for table in tables:
        sheet: Any = book.create_sheet(table.name)
        sheet.freeze_panes = "B2"
        formats = []
        for place, column in enumerate(table.columns, 1):
            texts = [column, *(row[place - 1] for row in table.rows[:50])]
            widest = max(len(one) if isinstance(one, str) else 10 for one in texts)
            letter = get_column_letter(place)
            sheet.column_dimensions[letter].width = min(widest, LONGEST) + 2
            formats.append(_format([row[place - 1] for row in table.rows]))
        sheet.append([_cell(sheet, column, "General", bold=True) for column in table.columns])
        for row in table.rows:
            sheet.append([_cell(sheet, *pair) for pair in zip(row, formats, strict=True)])
        if table.name in CHARTS:
            _add_chart(sheet, table)
    stream = io.BytesIO()
    book.save(stream)
    return stream.getvalue()


def _format(column: list[Cell]) -> str:
    """Format of the numbers of a column: five digits of the largest, or an exponent."""
    numbers = [abs(one) for one in column if isinstance(one, float) and math.isfinite(one)]
    if not any(numbers) or all(one.is_integer() for one in numbers):
        return "General"
    places = SHOWN - math.ceil(math.log10(max(numbers)))
    return f"0.{'0' * max(places, 1)}" if -2 <= places <= 2 * SHOWN else "0.0000E+00"


def _cell(sheet: Any, value: Cell, shown: str, *, bold: bool = False) -> Any:
    """A cell that is what it is: a text that begins like a formula stays a text."""
    if isinstance(value, float) and math.isfinite(value):
        made = WriteOnlyCell(sheet, float(value))
        made.number_format = shown
        return made
    if not isinstance(value, str):
        return value.item() if isinstance(value, np.generic) else value
    made = WriteOnlyCell(sheet, printable(value))
    made.data_type = "s"
    if bold:
        made.font = Font(bold=True)
    return made


def _add_chart(sheet: Any, table: Table) -> None:
    """Draw a column of a sheet over the first one, beside the table."""
    column, title, points = CHARTS[table.name]
    chart, last = ScatterChart(), len(table.rows) + 1
    over, drawn = (Reference(sheet, min_col=at, min_row=2, max_row=last) for at in (1, column))
    line = Series(drawn, over, title=title)
    if points:
        line.marker.symbol, line.graphicalProperties.line.noFill = "circle", True
    chart.series.append(line)
    chart.title, chart.legend = title, None
    chart.x_axis.title, chart.y_axis.title = table.columns[0], table.columns[column - 1]
    chart.x_axis.delete = chart.y_axis.delete = False
    sheet.add_chart(chart, f"{get_column_letter(len(table.columns) + 2)}2")
