"""Tables in Excel workbooks: the cells of one sheet.

openpyxl unpacks whatever a workbook claims to contain, so its parts are measured first. A cell may
show another number than it contains, or a unit; codes of formats: ECMA-376 part 1, section 18.8.31.
"""

import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from geonode.errors import SpectraError
from geonode.reading.formats.delimited import marked_numbers, refuse_groups
from geonode.reading.headers import (
    CONCENTRATION_UNIT,
    axis_header,
    axis_unit,
    labelled_level,
    level,
    role,
    wavelength,
)
from geonode.reading.layouts.table_place import (
    Place,
    filled_columns,
    grid_of,
    trimmed,
    units_joined,
    without_notes_beside,
)
from geonode.reading.levels import with_scan_marks
from geonode.reading.refusals import errors_explained, require_at_most
from geonode.reading.sheet import (
    LONGEST_NAME,
    MOST_COLUMNS,
    Cells,
    Decimal,
    Row,
    Understood,
    to_number,
)

LARGEST_WORKBOOK = 2**27
"""Bytes of a workbook once it is unpacked."""

LARGEST_PART = 2**20
"""Bytes of any part of it but cells and texts."""

MOST_SHEET_ROWS = 2**20
"""Rows of a sheet, as in Excel."""

MOST_CELLS = 20_000_000
"""Of a sheet with the empty ones, which are unpacked one by one; text files may have more."""

# Parts that openpyxl does not open where it only reads cells.
_LEFT_OUT = (
    *("xl/media/", "xl/calcchain.xml", "xl/comments", "xl/externallinks/", "customxml/"),
    *("xl/pivotcache/", "xl/pivottables/"),
)
_CELLS = ("xl/worksheets/", "xl/sharedstrings.xml")


def read_excel(
    path: Path, sheet: str | None = None, *, of_names: bool = False, beside: str | None = None
) -> Cells:
    """Cells of a workbook; of formulas, the values that Excel stored last.

    Args:
        path: the workbook.
        sheet: name of the sheet to read; None: the only one that is not empty.
        of_names: whether it is a table of names and amounts.
        beside: a sheet that is not asked for.

    Raises:
        SpectraError: the workbook is damaged, too large or empty, several sheets are filled and
            none is chosen, the chosen one is not filled, or number formats show other numbers
            than the cells contain, or several units.
        OSError: it cannot be read.
    """
    with _opened(path) as (reader, filled):
        chosen = [one for one in filled if one.title != beside and sheet in (None, one.title)]
        if len(chosen) == 1:
            parts = {one.name: part.target for one, part in reader.parser.find_sheets()}
            marks = _Marks.of(reader, parts[chosen[0].title])
            return _grid(chosen[0], marks, of_names=of_names)
        names = ", ".join(repr(one.title) for one in filled)
    if not filled:
        raise SpectraError("found no cells in any sheet, expected a table in one")
    if sheet is not None:
        raise SpectraError(f"found cells in the sheets {names}, expected one called {sheet!r}")
    raise SpectraError(
        f"found cells in the sheets {names}, expected one sheet; choose it by spectra.sheet"
    )


def filled_sheets(path: Path) -> list[str]:
    """Names of the sheets that have cells; raises as `read_excel`."""
    with _opened(path) as (_, filled):
        return [one.title for one in filled]


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, list[Any]]]:
    """A workbook, and its sheets that have cells."""
    from openpyxl.reader.excel import ExcelReader  # noqa: PLC0415 - only for workbooks

    way_out = ", expected one as Excel writes it; save it anew, or as .csv"
    with path.open("rb") as file, errors_explained("workbook", way_out):
        _require_small(file)
        reader = ExcelReader(file, read_only=True, data_only=True, keep_links=False)
        reader.read()
        filled = [
            sheet
            for sheet in reader.wb.worksheets
            if any(value is not None for row in _rows_of_sheet(sheet) for value, _ in row)
        ]
        yield reader, filled


def _require_small(file: BinaryIO) -> None:
    """Refuse what unpacks to more than a table needs."""
    unpacked = 0
    for entry in zipfile.ZipFile(file).infolist():
        name = entry.filename.lower()
        if not name.endswith((".xml", ".rels")) or name.startswith(_LEFT_OUT):
            continue
        if (kind := entry.compress_type) not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise SpectraError(
                f"found compression {kind} in a workbook, expected deflate; save it anew"
            )
        size = max(entry.file_size, entry.compress_size)  # zipfile reads no further than it says
        unpacked += size
        if not name.startswith(_CELLS):
            require_at_most(LARGEST_PART, size, f"bytes unpacked of {name[:40]!r}")
    require_at_most(LARGEST_WORKBOOK, unpacked, "bytes unpacked")


def _rows_of_sheet(sheet: Any) -> Iterator[tuple[tuple[Any, str | None], ...]]:
    """Values and units of the rows, whatever dimensions the sheet claims."""
    sheet.reset_dimensions()
    cells = 0
    for number, row in enumerate(sheet.iter_rows(), start=1):
        cells += len(row)
        require_at_most(MOST_SHEET_ROWS, number, "rows")
        require_at_most(MOST_CELLS, cells, "cells with the empty ones")
        yield tuple(_value_and_unit(cell) for cell in row)


def _value_and_unit(cell: Any) -> tuple[Any, str | None]:
    """Value of a cell, and the unit that its format shows."""
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


class _Marks(NamedTuple):
    """Marks of a sheet that openpyxl leaves out where it only reads cells."""

    hidden: list[str]  # rows and columns that Excel does not show, for people
    not_computed: dict[int, str]  # cells of formulas without a saved value, by row
    merged: list[tuple[int, int, int, int]]  # left, top, right and bottom end of ranges, from 1

    @classmethod
    def of(cls, reader: Any, part: str) -> "_Marks":
        """Marks of the sheet that a part of a workbook is."""
        from openpyxl.utils import get_column_letter  # noqa: PLC0415
        from openpyxl.worksheet._reader import VALUE_TAG, WorkSheetParser  # noqa: PLC0415

        parser = WorkSheetParser(reader.archive.open(part), reader.shared_strings)
        parser.parse_formula = lambda cell: cell.findtext(VALUE_TAG)  # as it was saved
        not_computed = {
            row: f"{get_column_letter(cell['column'])}{row}"
            for row, cells in parser.parse()
            for cell in reversed(cells)
            if cell["data_type"] == "f" and not cell["value"]
        }
        rows = [row for row, about in parser.row_dimensions.items() if _is_hidden(about)]
        columns = [
            get_column_letter(column)
            for about in filter(_is_hidden, parser.column_dimensions.values())
            for column in range(int(about["min"]), min(int(about["max"]), 16384) + 1)
        ]
        hidden = [f"rows {', '.join(rows[:5])}"] if rows else []
        hidden += [f"columns {', '.join(columns[:5])}"] if columns else []
        merged = parser.merged_cells.mergeCell if parser.merged_cells else ()
        return cls(hidden, not_computed, [cells.bounds for cells in merged])

    def fill(self, rows: list[Row]) -> None:
        """Put texts of merged cells above all of their columns, or into all of their rows."""
        for left, top, right, bottom in self.merged:
            cells = rows[top - 1][1] if top <= len(rows) else []
            if top == bottom and 1 < left <= len(cells) and cells[left - 1]:
                names = with_scan_marks([cells[left - 1]] * (right - left + 1))
                cells[left - 1 : right] = names
            elif top < bottom and left == right <= 20:  # the first columns are about samples
                for (_, above), (_, below) in pairwise(rows[top - 1 : bottom]):
                    if left <= min(len(above), len(below)):
                        below[left - 1] = above[left - 1]


def _is_hidden(about: dict[str, str]) -> bool:
    return about.get("hidden") in ("1", "true")


def _grid(sheet: Any, marks: _Marks, *, of_names: bool) -> Cells:
    """The table of a sheet, without the empty cells at its edges."""
    rows: list[Row] = []
    units: Units = {}
    width = 0
    for number, found in enumerate(_rows_of_sheet(sheet), start=1):
        rows.append((number, trimmed([_text_of_cell(value) for value, _ in found])))
        units |= {(number, at): unit for at, (_, unit) in enumerate(found) if unit is not None}
        width = max(width, len(rows[-1][1]))
        require_at_most(MOST_COLUMNS, width, "columns")
        require_at_most(MOST_CELLS, width * number, "cells")
    marks.fill(rows)
    rows, beside = without_notes_beside(units_joined(rows))
    place_of = {column: at for at, column in enumerate(filled_columns(rows))}
    rows = [(number, [cells[at] for at in place_of if at < len(cells)]) for number, cells in rows]
    units = {(row, place_of[at]): unit for (row, at), unit in units.items() if at in place_of}
    notes = tuple(f"hidden in the sheet, and read: {hidden}" for hidden in marks.hidden)
    understood = Understood(f"Excel workbook, sheet {sheet.title!r}", skipped=beside, notes=notes)
    place = Place.of(rows, "\t", of_names=of_names)
    cells = [row for _, row in place.table]
    signs = {sign for row in cells for number in marked_numbers(row) for sign in number}
    decimal: Decimal = "," if "," in signs and "." not in signs else "."  # of texts alone
    if decimal == ",":
        refuse_groups(cells)
    grid = grid_of(rows, place, decimal, understood)
    inside = (*grid.understood.header_rows, *grid.row_numbers)
    lost = [marks.not_computed[row] for row in inside if row in marks.not_computed]
    if lost:
        raise SpectraError(
            f"found a formula in {lost[0]} whose value was never saved, expected a number; open "
            "the workbook in Excel or LibreOffice and save it, or paste the values"
        )
    return with_units(grid, units)


def _text_of_cell(value: Any) -> str:
    """Text of a cell; of a number, the shortest that reads back as exactly it."""
    text = "" if value is None else str(value)
    if len(text) > LONGEST_NAME:
        require_at_most(LONGEST_NAME, len(text), f"characters in a cell, {text[:40]!r}...")
    return text.strip()


Units = dict[tuple[int, int], str]
"""Units of numbers by row, as `Row` counts them, and place in it."""

_PART = re.compile(
    r'"(?P<quoted>[^"]*)"|\\(?P<escaped>.)|\[\$(?P<currency>[^\]-]*)[^\]]*\]'
    r"|(?P<left_out>_.|\*.|\[[^\]]*\])|(?P<digits>(?i:general)|[0#?.,]+|[eE][+-][0#?]+)"
    r"|(?P<end>;)|(?P<bare>.)"
)
_IN_THOUSANDS = re.compile(r"[0#?],+(?![0#?,])")


@cache
def scale_shown(number_format: str) -> str | None:
    """Factor of a format: "per cent" or "thousands"; None: it shows the number itself."""
    parts = _PART.finditer(number_format)
    bare = "".join(part["digits"] or part["end"] or part["bare"] or "" for part in parts)
    if "%" in bare:
        return "per cent"
    return "thousands" if _IN_THOUSANDS.search(bare) else None


@cache
def units_shown(number_format: str) -> frozenset[str]:
    """Texts with letters that a format writes behind a number; several, if they depend on it."""
    found, behind, is_number = set(), "", False
    for part in _PART.finditer(f"{number_format};"):
        if part["digits"]:
            behind, is_number = "", True
        elif part["end"]:
            found |= {behind.strip(" ()[]")} if is_number else set()
            behind, is_number = "", False
        else:
            behind += part["quoted"] or part["escaped"] or part["currency"] or part["bare"] or " "
    return frozenset(text for text in found if re.search(r"[^\W\d_]|%", text))


def with_units(grid: Cells, units: Units) -> Cells:
    """A table with the units of levels at the levels, and that of the axis in the header.

    Raises:
        SpectraError: the axis has two units, or the spectra have.
    """
    headings = [
        (row, [_with_unit(cell, units.get((row, at))) for at, cell in enumerate(cells)])
        for row, cells in grid.headings
    ]
    if not grid.understood.header_rows or to_number(grid.header[0]) is not None:
        headings = grid.headings
    header = list(headings[-1][1])
    rows = [(row, list(cells)) for row, cells in grid.rows]
    values: Units = {}
    for at, name in enumerate(headings[-1][1]):
        found = {(row, at): units[row, at] for row in grid.row_numbers if (row, at) in units}
        is_number = any((level(name), labelled_level(name), wavelength(name)))
        means = None if is_number else role(name)
        if not found:
            continue
        # An axis is recognised by its units too; uM is a concentration, and um is not.
        of_axis = all(map(axis_unit, found.values()))
        # Spectra are shown in no unit of concentrations but per cent.
        of_amounts = means is None and all(
            "%" not in unit and re.fullmatch(CONCENTRATION_UNIT, unit) for unit in found.values()
        )
        if means == "axis" or (at == 0 and of_axis):
            unit, known = _one_unit(found), axis_header(name)[1]
            if known == "1" and not is_number:
                header[at] = f"{name} ({unit})"
            elif axis_unit(unit) != known and not is_number:
                raise SpectraError(
                    f"found {name[:40]!r} above numbers that are shown in {unit[:40]}, expected "
                    "one unit"
                )
        elif means == "concentration" or at == 0 or (of_amounts and not is_number):
            for row, cells in rows:
                cells[at] = _with_unit(cells[at], found.get((row, at)))
        elif means is None:
            values |= found
    if values:
        _one_unit(values)
    return replace(grid, headings=[*headings[:-1], (grid.header_row, header)], rows=rows)


def _one_unit(units: Units) -> str:
    (row, at), unit = next(iter(units.items()))
    for (row_2, at_2), other in units.items():
        if other != unit:
            raise SpectraError(
                f"row {row_2}, column {at_2 + 1}: found a number shown in {other[:40]}, and one in "
                f"{unit[:40]} in row {row}, column {at + 1}, expected one unit"
            )
    return unit


def _with_unit(cell: str, unit: str | None) -> str:
    return cell if unit is None else f"{cell} {unit}"
