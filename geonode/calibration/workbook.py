"""The tables of a calibration as one Excel workbook."""

import io
from datetime import UTC, datetime
from typing import Any

import numpy as np
from openpyxl import Workbook
from openpyxl.cell import WriteOnlyCell
from openpyxl.styles import Font
from openpyxl.utils import get_column_letter

from geonode.calibration.tables import Table
from geonode.estimation.tables import Cell
from geonode.terminal import printable

LONGEST = 60
"""Characters that a column is made wide for."""

DATED = datetime(2000, 1, 1, tzinfo=UTC).replace(tzinfo=None)
"""Of every workbook: the same tables give the same file, but for the clock of its archive."""


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
    if isinstance(value, np.generic):
        value = value.item()
    made = WriteOnlyCell(sheet, printable(value) if isinstance(value, str) else value)
    if isinstance(value, str):
        made.data_type = "s"
    if bold:
        made.font = Font(bold=True)
    return made
