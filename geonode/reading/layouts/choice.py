"""The layout of a table: the first of `LAYOUTS` that fits, with the reasons of all of them.

Headers decide. A table whose first header names a spectral axis has one column a spectrum; one
whose first headers are about samples has one row a spectrum. A table of bare numbers is only read
if one of its two sides is too long for the levels of a series. Where nothing decides, the error
names what each layout lacks.

A layout is a class with a `name` for people, `fit` (whether a table is laid out so, and why or why
not), and `spectra`, those of a table that is. They are grouped by spectrum: a damaged axis of a
wide table has to be seen before values are sorted by it, and one row a value would need three times
the memory.
"""

import re
from collections import defaultdict
from dataclasses import replace

import numpy as np

from geonode.errors import SpectraError
from geonode.reading.amounts import Asked
from geonode.reading.headers import axis_unit, is_marked_amount, labelled_level, level, role
from geonode.reading.layouts.columns import OneColumn, OneSpectrum, TwoColumnsEach
from geonode.reading.layouts.long import OneRowAValue
from geonode.reading.layouts.rows import (
    FEWEST_EVEN,
    OneRow,
    axis_columns,
    axis_leads,
    first_may_be_axis,
    is_index,
    refuse_matrix,
    why_rows,
)
from geonode.reading.layouts.table_place import counts_rows
from geonode.reading.sheet import Cells, Sheet, to_number
from geonode.spectra.table import FEWEST_WAVELENGTHS

Layout = OneSpectrum | TwoColumnsEach | OneRowAValue | OneRow | OneColumn

LAYOUTS: tuple[Layout, ...] = (
    OneSpectrum(),
    TwoColumnsEach(),
    OneRowAValue(),
    OneRow(),
    OneColumn(),
)
"""Layouts, the narrowest first."""

_NUMBERED = re.compile(
    r"(?P<prefix>[A-Za-z][A-Za-z ]*[_.=(\[]?)(?P<number>-?[0-9]+(?:[.,][0-9]+)?)"
    r"(?: ?(?P<unit>[A-Za-z]+))?[)\]]?"
)
_OF_AXIS = re.compile(r"(?:X|(?i:wl|wave(?:length|number)s?|lambda|nm))[_. =]?")
_WELL_ROW = re.compile("[A-P]")
_WELL = re.compile("[A-P][0-9]{1,2}")


def sheet_of(grid: Cells, asked: Asked) -> Sheet:
    """The spectra of a table.

    Args:
        grid: its cells.
        asked: what they are read for.

    Raises:
        SpectraError: no layout fits, or the table does not keep to the one that does; the message
            names row and column.
    """
    grid = _without_prefixes(_without_index(grid), asked)
    header, row = grid.header, f"row {grid.header_row}"
    if len(header) < 2:
        raise SpectraError(
            f"{row}: found one cell, {header[0][:40]!r}, expected several with a comma, "
            "semicolon, tab, | or blanks between them, such as wavelength_nm,0,10,20,30,60"
        )
    if len(grid.headings) == 1 and not axis_leads(header):
        _refuse_without_a_header(grid, asked)
    if again := [number for number, cells in grid.rows if cells == header]:
        found = f"row {again[0]}: found the header of {row} again"
        raise SpectraError(f"{found}, expected one table; give each a file of its own")
    fits = {layout: layout.fit(grid, asked) for layout in LAYOUTS}
    chosen = next((layout for layout in LAYOUTS if fits[layout][0]), None)
    if chosen is None:
        raise SpectraError(
            f"{grid.place(1)}: found {header[0]!r}, which does not show whether columns or rows "
            "are the spectra; write wavelength_nm (one column a spectrum) or concentration (one "
            "row)"
        )
    sheet = chosen.spectra(grid, asked)
    first, *is_axis = np.all(sheet.values == sheet.axis, axis=1).tolist() or [False]
    if is_axis and len(is_axis) % 2 == 0 and all(is_axis[::2]) and not first:
        raise SpectraError(
            f"{sheet.name_places[1]}: found the axis again as {sheet.names[1][:40]!r}, and beside "
            "every other spectrum; write columns, and call each of them wavelength_nm"
        )
    if asked.series:
        refuse_matrix(grid, sheet)
    reasons = [f"{chosen.name}: {fits.pop(chosen)[1]}"]
    for layout, (is_possible, reason) in fits.items():
        reasons.append(f"{'or' if is_possible else 'not'} {layout.name}: {reason}")
    understood = replace(sheet.understood.also(chosen.name), layouts=tuple(reasons))
    return replace(sheet, understood=understood)


def _refuse_without_a_header(grid: Cells, asked: Asked) -> None:
    """Refuse columns of numbers without a header, and wells read at one wavelength."""
    header, row = grid.header, f"row {grid.header_row}"
    wells = all(_WELL_ROW.fullmatch(cell) for cell in grid.column(0)) and len(grid.rows) > 0
    if wells and [to_number(name) for name in header[1:]] == [*range(1, len(header))]:
        raise SpectraError(
            f"{row}: found a plate of wells at one wavelength, expected spectra; export the "
            "spectral scan, one column a well below a row such as Wavelength, A1, A2"
        )
    levels = (level(name) or labelled_level(name) for name in header[1:])
    of_wells = all(map(_WELL.fullmatch, header[1:])) and first_may_be_axis(grid)
    sure = header[0] or of_wells or why_rows(grid, asked) or all(one and one.unit for one in levels)
    if to_number(header[0]) is not None or not sure:
        raise SpectraError(
            f"{row}: found {header[0]!r}, expected a header that starts with the name of the axis, "
            "such as wavelength_nm, or with concentration above one row a spectrum; with "
            f"{len(header)} columns nothing else shows which is the axis"
        )


def _without_index(grid: Cells) -> Cells:
    """A table without a first column that counts rows, where the second one begins the table."""
    header = grid.header
    bare = header[0].strip().lower()
    if len(header) < 3 or not is_index(grid):
        return grid
    named = role(header[1]) is not None or (to_number(header[1]) is None and header[1])
    if not named or (bare not in ("", "unnamed: 0") and role(header[1]) is None):
        return grid
    return grid.only(range(1, len(header)), "column 1 (counts rows)")


def _without_prefixes(grid: Cells, asked: Asked) -> Cells:
    """A table whose headers `X400`, as R writes them, `wl1`, `E_-0.9` or `A_400nm` are numbers."""
    # Beside samples they are an axis; those of another word than one for an axis only if there
    # are many and the first column is none; so are X1 to X20. Names of unknown spectra stay.
    header = grid.header
    groups: defaultdict[tuple[str, str], dict[int, str]] = defaultdict(dict)
    for at, name in enumerate(header):
        is_about = role(name) or labelled_level(name) or is_marked_amount(name)
        if (one := _NUMBERED.fullmatch(name)) and not is_about:
            groups[one["prefix"], one["unit"] or ""][at] = one["number"].replace(",", ".")
    (prefix, unit), found = max(groups.items(), key=lambda one: len(one[1]), default=(("", ""), {}))
    counts, of_axis = counts_rows([*found.values()]), _OF_AXIS.fullmatch(prefix)
    many = len(found) >= FEWEST_EVEN and not axis_columns(header)
    if role(header[0]) == "axis":
        is_axis = of_axis and asked.series and not counts and len(found) == len(header) - 1
    else:
        is_sure = of_axis and not (counts and prefix[0] == "X")
        is_axis = is_sure or (many and not first_may_be_axis(grid))
    if len(found) < FEWEST_WAVELENGTHS or not is_axis:
        return grid
    of_unit = f" {unit}" if axis_unit(unit) else ""
    bare = [found[at] + of_unit if at in found else name for at, name in enumerate(header)]
    understood, across = grid.understood, counts or (role(header[0]) != "axis" and prefix[0] != "X")
    if counts or not of_axis:
        ends = f"{header[min(found)]} to {header[max(found)]}"
        note = f"the headers {ends} are the axis{', which counts' if counts else ''}"
        understood = understood.also(notes=(note,))
    headings = [*grid.headings[:-1], (grid.header_row, bare)]
    return replace(grid, headings=headings, understood=understood, across=across)
