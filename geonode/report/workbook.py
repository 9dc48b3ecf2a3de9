"""Tables as a workbook of Excel."""

import io
import math
from datetime import UTC, datetime
from typing import Any

import numpy as np
from openpyxl import Workbook
from openpyxl.cell import WriteOnlyCell
from openpyxl.chart import Reference, ScatterChart, Series
from openpyxl.styles import Font
from openpyxl.utils import get_column_letter

from geonode.report.table import Cell, Table
from geonode.terminal import printable

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
