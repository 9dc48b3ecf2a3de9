"""The folder of a calibration: written whole or not at all."""

import io
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
from geonode.report.calibration_page import GENERATOR, calibration_page
from geonode.report.calibration_tables import tables
from geonode.report.page import Cell, Table
from geonode.storage.atomic import replacing
from geonode.terminal import printable

PAGE, WORKBOOK = "index.html", "calibration.xlsx"
TABLES = (
    *("summary", "calibration", "validation", "unknowns"),
    *("limits", "peaks", "predicted", "next"),
)
NAMES = {PAGE, WORKBOOK, *(f"{name}.csv" for name in TABLES)}
"""Everything that may be in such a folder."""

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
    names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    foreign = [name for name in names if name not in NAMES or not _is_ours(folder)]
    found = f"{folder} with {foreign[0]}" if foreign else str(folder)
    if any(folder.resolve() in (one.resolve(), *one.resolve().parents) for one in inputs):
        expected = "another folder than that of a file that is read"
    elif folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        expected = "a folder, or a name that is not taken"
    elif foreign:
        expected = "a new folder, an empty one, or one with nothing but a calibration"
    elif names and not overwrite:
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
        (temporary / PAGE).write_text(calibration_page(file, found), encoding="utf-8")


def _is_ours(folder: Path) -> bool:
    """Whether the page of a folder says that it was made here."""
    path = folder / PAGE
    return path.is_file() and f'content="{GENERATOR}"' in path.read_bytes()[:4096].decode(
        "utf-8", "replace"
    )


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
