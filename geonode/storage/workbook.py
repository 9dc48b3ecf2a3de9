"""Tables as a workbook of Excel."""

import io
import math
from datetime import UTC, datetime
from typing import Any

from openpyxl import Workbook
from openpyxl.cell import WriteOnlyCell
from openpyxl.chart import Reference, ScatterChart, Series
from openpyxl.styles import Font
from openpyxl.utils import get_column_letter

from geonode.storage.table import Cell, Table, cell_text
from geonode.terminal import printable

LONGEST = 60
"""Characters that a column is made wide for."""

LARGEST_DIGITS = 5
"""Digits of the largest number of a column in the workbook, which contains all of them."""

CHARTED = {
    "calibration": ("estimated", "Estimated over true concentrations", True),
    "regression": ("regression vector", "Regression vector", False),
}
"""Charts by sheet: how the column drawn over the first begins, the title, points or a line."""

DATED = datetime(2000, 1, 1, tzinfo=UTC).replace(tzinfo=None)
"""Date of every workbook, so that the same tables give the same sheets."""


def workbook(tables: list[Table]) -> bytes:
    """A workbook with one sheet a table: headers that stay, numbers as numbers, texts as texts."""
    book = Workbook(write_only=True)
    book.properties.created = book.properties.modified = DATED
    book.properties.creator = "geonode"
    for table in tables:
        sheet: Any = book.create_sheet(table.name)
        sheet.freeze_panes = "B2"
        for place, column in enumerate(table.columns, 1):
            texts = [column.title, *column.cells[:50]]
            widest = max(len(one) if isinstance(one, str) else 10 for one in texts)
            sheet.column_dimensions[get_column_letter(place)].width = min(widest, LONGEST) + 2
        sheet.append([_text_cell(sheet, one.title, bold=True) for one in table.columns])
        numbers = [_number_cell(sheet, one.cells) for one in table.columns]
        for row in table.rows:
            sheet.append([_cell(sheet, *pair) for pair in zip(row, numbers, strict=True)])
        if table.name in CHARTED:
            _add_chart(sheet, table)
    stream = io.BytesIO()
    book.save(stream)
    return stream.getvalue()


def _number_cell(sheet: Any, column: list[Cell]) -> Any:
    """Cell for the numbers of a column in turn: five digits of the largest, or an exponent."""
    made = WriteOnlyCell(sheet)
    numbers = [abs(one) for one in column if isinstance(one, float) and math.isfinite(one)]
    if any(numbers) and not all(one.is_integer() for one in numbers):
        places = LARGEST_DIGITS - math.ceil(math.log10(max(numbers)))
        fixed = f"0.{'0' * max(places, 1)}"
        made.number_format = fixed if -2 <= places <= 2 * LARGEST_DIGITS else "0.0000E+00"
    return made


def _cell(sheet: Any, value: Cell, number: Any) -> Any:
    """A cell that is what it is: a number, a truth, a text, or nothing."""
    if isinstance(value, float) and math.isfinite(value):
        number.value = value  # a row is written before the next one
        return number
    if value is None or isinstance(value, bool | int | float):
        return value
    return _text_cell(sheet, cell_text(value))


def _text_cell(sheet: Any, text: str, *, bold: bool = False) -> Any:
    """A text, also one that begins like a formula."""
    made = WriteOnlyCell(sheet, printable(text))
    made.data_type = "s"
    if bold:
        made.font = Font(bold=True)
    return made


def _add_chart(sheet: Any, table: Table) -> None:
    """Draw a column over the first one, beside the table."""
    name, title, points = CHARTED[table.name]
    titles = [one.title for one in table.columns]
    column = next(at for at, one in enumerate(titles, 1) if one.startswith(name))
    chart, last = ScatterChart(), len(table.rows) + 1
    over, drawn = (Reference(sheet, min_col=at, min_row=2, max_row=last) for at in (1, column))
    line = Series(drawn, over, title=title)
    if points:
        line.marker.symbol, line.graphicalProperties.line.noFill = "circle", True
    chart.series.append(line)
    chart.title, chart.legend = title, None
    chart.x_axis.title, chart.y_axis.title = titles[0], titles[column - 1]
    chart.x_axis.delete = chart.y_axis.delete = False
    sheet.add_chart(chart, f"{get_column_letter(len(titles) + 2)}2")
