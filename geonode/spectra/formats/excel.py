"""Tables in Excel workbooks: the cells of one sheet.

openpyxl builds objects of all that a workbook has in it, and takes its word for where cells are. So
what it is given is counted first: unpacked by this module and not as the archive says.
"""

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from geonode.errors import SpectraError
from geonode.spectra.formats.block import find_block, grid_of, kind_of_cells, rows_said, trimmed
from geonode.spectra.formats.number_formats import (
    Units,
    body_with_units,
    header_with_units,
    scale_shown,
    units_shown,
)
from geonode.spectra.sheet import LONGEST_NAME, MOST_VALUES, Grid, Row, Understood, require_columns

LARGEST_WORKBOOK = 2**27
"""Bytes of a workbook once it is unpacked."""

LARGEST_PART = 2**20
"""Bytes of anything in it but cells and texts."""

MOST_ELEMENTS = 2**21
"""Of XML: a cell has two."""

MOST_ROWS = 2**20
"""As Excel has them."""

# What openpyxl does not ask for where it only reads cells.
_LEFT_OUT = (
    *("xl/media/", "xl/calcchain.xml", "xl/comments", "xl/externallinks/", "customxml/"),
    *("xl/pivotcache/", "xl/pivottables/"),
)
_CELLS = ("xl/worksheets/", "xl/sharedstrings.xml")
_BLOCK = 2**20


def read_excel(path: Path, sheet: str | None = None) -> Grid:
    """Cells of a workbook; of formulas, the values that Excel stored last.

    Args:
        path: the workbook.
        sheet: name of the sheet to read; None: the one that is not empty.

    Raises:
        SpectraError: it is damaged or too large, has no cells, or more than one sheet that has
            some and none is chosen, or not the one that is; or formats of its numbers show others,
            or several units.
        OSError: it cannot be read.
    """
    import openpyxl  # noqa: PLC0415 - only where a workbook is read

    unpacked = _unpacked(path)
    try:
        book = openpyxl.load_workbook(unpacked, read_only=True, data_only=True, keep_links=False)
        filled = [one for one in book.worksheets if _is_filled(one)]
        chosen = [one for one in filled if sheet in (None, one.title)]
        if len(chosen) == 1:
            return _grid(chosen[0])
        names = ", ".join(repr(one.title) for one in filled)
    except SpectraError:
        raise
    except Exception as error:  # of a damaged part of the workbook, whatever it is
        raise SpectraError(f"found a workbook that cannot be read ({error!r:.80})") from error
    if not filled:
        raise SpectraError("found no cells in any sheet, expected a table in one")
    if sheet is not None:
        raise SpectraError(f"found cells in the sheets {names}, expected one called {sheet!r}")
    raise SpectraError(
        f"found cells in the sheets {names}, expected one sheet; choose it by spectra.sheet (or "
        "--sheet)"
    )


def _unpacked(path: Path) -> io.BytesIO:
    """A workbook without compression.

    Raises:
        SpectraError: it is none, or has more in it than a table.
        OSError: it cannot be read.
    """
    unpacked, size, elements = io.BytesIO(), 0, 0
    try:
        with zipfile.ZipFile(path) as archive, zipfile.ZipFile(unpacked, "w") as plain:
            for entry in archive.infolist():
                name = entry.filename.lower()
                if not name.endswith((".xml", ".rels")) or name.startswith(_LEFT_OUT):
                    continue
                _refuse_part(entry)
                content = bytearray()
                with archive.open(entry) as part:
                    while block := part.read(_BLOCK):
                        content += block
                        _refuse_more("bytes unpacked", size + len(content), LARGEST_WORKBOOK)
                        if not name.startswith(_CELLS):
                            said = f"bytes unpacked of {name[:40]!r}"
                            _refuse_more(said, len(content), LARGEST_PART)
                size += len(content)
                text = content.replace(b"\0", b"")  # of UTF-16 too
                if b"<!DOCTYPE" in text:
                    raise SpectraError("found a DOCTYPE in a workbook, which no workbook has")
                elements += text.count(b"<") - text.count(b"</")
                _refuse_more("elements of XML", elements, MOST_ELEMENTS)
                plain.writestr(entry.filename, content)
    except (SpectraError, OSError):
        raise
    except Exception as error:  # zipfile raises more than BadZipFile where bytes are damaged
        raise SpectraError("found no workbook, expected one saved as .xlsx") from error
    return unpacked


def _refuse_part(entry: zipfile.ZipInfo) -> None:
    """Refuse compressions that are not unpacked block by block."""
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise SpectraError(
            f"found compression {entry.compress_type} in a workbook, expected deflate; save it anew"
        )


def _refuse_more(what: str, found: int, most: int) -> None:
    if found > most:
        raise SpectraError(
            f"found a workbook of {found} {what}, expected at most {most}; copy the values of the "
            "table alone to a new workbook, or save as .csv"
        )


def _is_filled(sheet: Any) -> bool:
    return any(value is not None for row in _rows(sheet) for value, _ in row)


def _rows(sheet: Any) -> Iterator[tuple[tuple[Any, str | None], ...]]:
    """Values and units of the rows, refusing what a sheet says of places without cells."""
    sheet.reset_dimensions()
    cells = 0
    for number, row in enumerate(sheet.iter_rows(), start=1):
        cells += len(row)
        _refuse_more("rows", number, MOST_ROWS)
        _refuse_more("cells with the empty ones", cells, MOST_VALUES)
        yield tuple(_value(cell) for cell in row)


def _value(cell: Any) -> tuple[Any, str | None]:
    """Value of a cell, and the unit that its format shows.

    Raises:
        SpectraError: it is a number that is shown as another, or in units that differ by its size.
    """
    if not isinstance(cell.value, int | float):
        return cell.value, None
    scale, units = scale_shown(cell.number_format), units_shown(cell.number_format)
    if scale is not None or len(units) > 1:
        shown = scale or " or ".join(sorted(units))[:80]
        raise SpectraError(
            f"row {cell.row}, column {cell.column}: found {cell.value:g} in a cell that shows "
            f"{shown}, which is one number or the other; format it as a plain number"
        )
    return cell.value, next(iter(units), None)


def _grid(sheet: Any) -> Grid:
    """The table of a sheet, without the empty cells at its edges."""
    rows: list[Row] = []
    units: Units = {}
    width = 0
    for number, found in enumerate(_rows(sheet), start=1):
        cells = trimmed([_text(value) for value, _ in found])
        units |= {(number, at): unit for at, (_, unit) in enumerate(found) if unit is not None}
        width = max(width, len(cells))
        require_columns(width)
        rows.append((number, cells))
        _refuse_more("cells", width * len(rows), MOST_VALUES)
    while not rows[-1][1]:
        rows.pop()
    indent = min(_indent(cells) for _, cells in rows if cells)
    rows = [(number, cells[indent:]) for number, cells in rows]
    units = {(number, at - indent): unit for (number, at), unit in units.items()}
    block = find_block([kind_of_cells(cells) for _, cells in rows])
    top, start, end = block or (0, 1, len(rows))
    # Of names and numbers without a row above them, the first is the header.
    start = max(start, top + 1)
    blank = next((number for number, cells in rows[top:end] if not cells), None)
    if blank is not None:
        raise SpectraError(f"row {blank}: found a blank row above data; remove it")
    parts = ("above the table", rows[:top]), ("below the table", rows[end:])
    left = [(where, [number for number, cells in part if cells]) for where, part in parts]
    said = tuple(rows_said(numbers, where) for where, numbers in left if numbers)
    understood = Understood(f"Excel workbook, sheet {sheet.title!r}", skipped=said)
    table = [*header_with_units(rows[top:start], units), *rows[start:end]]
    return body_with_units(grid_of(table, start - top, ".", understood, even=False), units)


def _indent(cells: list[str]) -> int:
    return next(place for place, cell in enumerate(cells) if cell)


def _text(value: Any) -> str:
    """Text of a cell, of a number the shortest that is exactly it."""
    text = "" if value is None else str(value)
    if len(text) > LONGEST_NAME:
        _refuse_more(f"characters in a cell, {text[:40]!r}...", len(text), LONGEST_NAME)
    return text.strip()
