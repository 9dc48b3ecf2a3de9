"""Tables in Excel workbooks: the cells of the one sheet that is not empty."""

import zipfile
from pathlib import Path
from typing import Any

from geonode.errors import SpectraError
from geonode.spectra.optional import require
from geonode.spectra.sheet import MOST_VALUES, Grid, require_columns

LARGEST_WORKBOOK = 2**30
"""Bytes of a workbook once it is unpacked."""


def read_excel(path: Path) -> Grid:
    """Cells of a workbook; of formulas, the values that Excel stored last.

    Raises:
        SpectraError: it is damaged or too large, has no cells, or more than one sheet that has
            some; openpyxl is absent.
        OSError: it cannot be read.
    """
    openpyxl = require("openpyxl", "excel")
    _refuse_large(path)
    try:
        with path.open("rb") as file:
            book = openpyxl.load_workbook(file, read_only=True, data_only=True)
            filled = [sheet for sheet in book.worksheets if _is_filled(sheet)]
            if len(filled) == 1:
                return _grid(filled[0])
            names = ", ".join(repr(sheet.title) for sheet in filled)
    except (SpectraError, OSError):
        raise
    except Exception as error:  # of a damaged part of the workbook, whatever it is
        raise SpectraError(f"found a workbook that cannot be read ({error!r:.80})") from error
    if not filled:
        raise SpectraError("found no cells in any sheet, expected a table in one")
    raise SpectraError(f"found cells in the sheets {names}, expected one sheet; remove the others")


def _refuse_large(path: Path) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    except OSError:
        raise
    except Exception as error:  # zipfile raises more than BadZipFile where bytes are damaged
        raise SpectraError("found no workbook, expected one saved as .xlsx") from error
    if size > LARGEST_WORKBOOK:
        raise SpectraError(
            f"found a workbook of {size} bytes unpacked, expected at most {LARGEST_WORKBOOK}"
        )


def _is_filled(sheet: Any) -> bool:
    return any(value is not None for row in sheet.iter_rows(values_only=True) for value in row)


def _grid(sheet: Any) -> Grid:
    """Cells of a sheet without the empty ones at its right and its lower end."""
    rows: list[tuple[int, list[str]]] = []
    width, blank = 0, None
    for number, values in enumerate(sheet.iter_rows(values_only=True), start=1):
        cells = [_text(value) for value in values]
        while cells and not cells[-1]:
            cells.pop()
        if not cells:
            blank = blank or number
            continue
        if blank:
            raise SpectraError(f"row {blank}: found a blank row above data; remove it")
        width = max(width, len(cells))
        require_columns(width)
        rows.append((number, cells))
        if width * len(rows) > MOST_VALUES:
            raise SpectraError(f"found more than {MOST_VALUES} cells, expected a table")
    (_, header), *body = rows
    for number, cells in body:
        if len(cells) > len(header):
            raise SpectraError(
                f"row {number}: found {len(cells)} cells, expected {len(header)} as in the header"
            )
        cells.extend([""] * (len(header) - len(cells)))
    return Grid(
        header,
        [number for number, _ in body],
        [cells[0] for _, cells in body],
        [cells[1:] for _, cells in body],
        ".",
        "Excel workbook",
    )


def _text(value: Any) -> str:
    """Text of a cell, of a number the shortest that is exactly it."""
    return "" if value is None else str(value).strip()
