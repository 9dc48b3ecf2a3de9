"""Number formats of spreadsheets: a cell may show another number than it holds, or a unit.

Codes of formats: ECMA-376 part 1, section 18.8.31.
"""

import re
from dataclasses import replace
from functools import cache

from geonode.errors import SpectraError
from geonode.reading.headers import (
    CONCENTRATION_UNIT,
    UNITS,
    axis_header,
    labelled_level,
    level,
    role,
    wavelength,
)
from geonode.reading.sheet import Cells, to_number

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
    """What a format multiplies by: "per cent" or "thousands"; None: it shows the number itself."""
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
        # An axis is told by its units too; uM is a concentration, and um is not.
        of_axis = all(
            unit.lower() in UNITS and not re.fullmatch(CONCENTRATION_UNIT, unit)
            for unit in found.values()
        )
        if means == "axis" or (at == 0 and of_axis):
            unit, known = _one_unit(found), axis_header(name)[1]
            if known == "1" and not is_number:
                header[at] = f"{name} ({unit})"
            elif UNITS.get(unit.lower()) != known and not is_number:
                raise SpectraError(
                    f"found {name[:40]!r} above numbers that are shown in {unit[:40]}, expected "
                    "one unit"
                )
        elif means == "concentration" or at == 0:
            for row, cells in rows:
                cells[at] = _with_unit(cells[at], found.get((row, at)))
        elif means is None:
            values |= found
    if values:
        _one_unit(values)
    return replace(grid, headings=[*headings[:-1], (grid.header_row, header)], rows=rows)


def _one_unit(units: Units) -> str:
    """The unit of some numbers."""
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
