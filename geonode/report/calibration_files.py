"""The folder of a calibration: written whole or not at all."""

import io
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from openpyxl import Workbook
from openpyxl.cell import WriteOnlyCell
from openpyxl.styles import Font
from openpyxl.utils import get_column_letter

from geonode.calibration.calibrated_file import CalibratedFile
from geonode.errors import ParameterError
from geonode.estimation.tables import csv_text
from geonode.report.calibration_page import calibration_page
from geonode.report.calibration_tables import tables
from geonode.report.page import Cell, Table
from geonode.storage.atomic import replacing
from geonode.storage.seal import file_checksum
from geonode.terminal import printable

PAGE, WORKBOOK = "index.html", "calibration.xlsx"
WRITTEN = re.compile(r"<!-- geonode wrote (\S+) (\w{8}) -->")
"""Name and checksum of a file beside a page, at the end of the page."""

LONGEST = 60
"""Characters that a column is made wide for."""

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


def write_calibration(file: CalibratedFile, folder: Path) -> None:
    """Write page, workbook and tables of a calibration, all or none.

    Raises:
        ArtifactError: the operating system refuses.
    """
    found = tables(file)
    with replacing(folder) as temporary:
        temporary.mkdir()
        (temporary / WORKBOOK).write_bytes(workbook(found))
        for table in found:
            (temporary / f"{table.name}.csv").write_text(
                csv_text(table.columns, table.rows), encoding="utf-8"
            )
        written = {one.name: file_checksum(one) for one in sorted(temporary.iterdir())}
        page = calibration_page(file, found)
        for name, checksum in written.items():
            page += f"<!-- geonode wrote {name} {checksum} -->\n"
        (temporary / PAGE).write_text(page, encoding="utf-8")


def _written(folder: Path) -> dict[str, str]:
    """Checksums of the files of a calibration, as its page lists them; of the page itself none."""
    page = folder / PAGE
    end = page.read_bytes()[-1000:].decode("utf-8", "replace") if page.is_file() else ""
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
        for place, column in enumerate(table.columns, 1):
            texts = [column, *(row[place - 1] for row in table.rows[:50])]
            widest = max(len(one) if isinstance(one, str) else 10 for one in texts)
            letter = get_column_letter(place)
            sheet.column_dimensions[letter].width = min(widest, LONGEST) + 2
        sheet.append([_cell(sheet, column, bold=True) for column in table.columns])
        for row in table.rows:
            sheet.append([_cell(sheet, one) for one in row])
    stream = io.BytesIO()
    book.save(stream)
    return stream.getvalue()


def _cell(sheet: Any, value: Cell, *, bold: bool = False) -> Any:
    """A cell that is what it is: a text that begins like a formula stays a text."""
    if not isinstance(value, str):
        return value.item() if isinstance(value, np.generic) else value
    made = WriteOnlyCell(sheet, printable(value))
    made.data_type = "s"
    if bold:
        made.font = Font(bold=True)
    return made
