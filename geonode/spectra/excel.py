"""Tables in Excel workbooks: the cells of the one sheet that is not empty.

openpyxl builds objects of all that a workbook has in it, and takes its word for where cells are. So
what it is given is counted first: unpacked by this module and not as the archive says.
"""

import io
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from geonode.errors import SpectraError
from geonode.spectra.sheet import LONGEST_NAME, MOST_VALUES, Grid, require_columns

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
_QUOTED = re.compile(r'"[^"]*"|\\.|_.|\*.|\[[^\]]*\]')  # what a format shows as it is
_IN_THOUSANDS = re.compile(r"[0#?],+(?![0#?,])")


def read_excel(path: Path) -> Grid:
    """Cells of a workbook; of formulas, the values that Excel stored last.

    Raises:
        SpectraError: it is damaged or too large, has no cells, or more than one sheet that has
            some.
        OSError: it cannot be read.
    """
    import openpyxl  # type: ignore[import-untyped]  # noqa: PLC0415 - for this format alone

    unpacked = _unpacked(path)
    try:
        book = openpyxl.load_workbook(unpacked, read_only=True, data_only=True, keep_links=False)
        filled = [sheet for sheet in book.worksheets if _is_filled(sheet)]
        if len(filled) == 1:
            return _grid(filled[0])
        names = ", ".join(repr(sheet.title) for sheet in filled)
    except SpectraError:
        raise
    except Exception as error:  # of a damaged part of the workbook, whatever it is
        raise SpectraError(f"found a workbook that cannot be read ({error!r:.80})") from error
    if not filled:
        raise SpectraError("found no cells in any sheet, expected a table in one")
    raise SpectraError(f"found cells in the sheets {names}, expected one sheet; remove the others")


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
    return any(value is not None for row in _rows(sheet) for value in row)


def _rows(sheet: Any) -> Iterator[tuple[Any, ...]]:
    """Values of the rows, refusing what a sheet says of places where it has no cells."""
    sheet.reset_dimensions()
    cells = 0
    scaled = _has_scaled_formats(sheet.parent)
    for number, found in enumerate(sheet.iter_rows(values_only=not scaled), start=1):
        row = _unscaled(found) if scaled else found
        cells += len(row)
        _refuse_more("rows", number, MOST_ROWS)
        _refuse_more("cells with the empty ones", cells, MOST_VALUES)
        yield row


def _has_scaled_formats(book: Any) -> bool:
    """Whether some style of a workbook shows other numbers than there are."""
    formats = book._number_formats, (style.numFmtId for style in book._cell_styles)
    return any(map(_scales, formats[0])) or bool({9, 10} & set(formats[1]))


def _scales(number_format: str) -> bool:
    """Whether a format shows per cent, or thousands; not by a character in quotes."""
    bare = _QUOTED.sub("", number_format)
    return "%" in bare or _IN_THOUSANDS.search(bare) is not None


def _unscaled(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Values of the cells of a row.

    Raises:
        SpectraError: a number is shown as another.
    """
    for cell in row:
        if isinstance(cell.value, int | float) and _scales(cell.number_format):
            shown = "per cent" if "%" in cell.number_format else "thousands"
            raise SpectraError(
                f"row {cell.row}, column {cell.column}: found {cell.value:g} in a cell that shows "
                f"{shown}, which is one number or the other; format it as a plain number"
            )
    return tuple(cell.value for cell in row)


def _grid(sheet: Any) -> Grid:
    """Cells of a sheet without the empty ones at its right and its lower end."""
    rows: list[tuple[int, list[str]]] = []
    width, blank = 0, None
    for number, values in enumerate(_rows(sheet), start=1):
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
        _refuse_more("cells", width * len(rows), MOST_VALUES)
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
    text = "" if value is None else str(value)
    if len(text) > LONGEST_NAME:
        _refuse_more(f"characters in a cell, {text[:40]!r}...", len(text), LONGEST_NAME)
    return text.strip()
