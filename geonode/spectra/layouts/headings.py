"""Headers of several rows, such as names above units or samples above concentrations, as one row.

A row that says the same above every spectrum, or units alone, names units; a row of numbers, with
or without units, is the concentrations; any other row is the names. Two rows of numbers are told
apart by their first cells, or refused.
"""

import re
from dataclasses import replace
from typing import NamedTuple

from geonode.errors import SpectraError
from geonode.spectra.headers import (
    AXIS_OF_UNIT,
    CONCENTRATION_UNIT,
    UNITS,
    axis_header,
    concentration_header,
    labelled_level,
    level,
    role,
    same_unit,
)
from geonode.spectra.levels import numbered
from geonode.spectra.sheet import Grid, to_number

INDEX_NAMES = {
    *("", "unnamed: 0", "index", "#", "no", "no.", "nr", "nr.", "n", "row", "point", "pixel"),
    *("number", "s.no", "s.no.", "sno", "sample no", "sample no.", "data point"),
}
"""Headers of a column that counts rows (lower case)."""


class Heading(NamedTuple):
    """One row of a header.

    Attributes:
        number: number of the row.
        corner: its first cell.
        cells: the others.
    """

    number: int
    corner: str
    cells: list[str]

    @property
    def is_of_units(self) -> bool:
        """Whether it names units, or one signal, above every spectrum."""
        if all(_unit(cell) for cell in self.cells):
            return True
        return len({*self.cells}) == 1 and bool(self.cells[0]) and not self.is_of_levels

    @property
    def is_of_levels(self) -> bool:
        """Whether every cell is a concentration."""
        return all(level(cell) or labelled_level(cell) for cell in self.cells)


def merged(grid: Grid, *, series: bool) -> Grid:
    """A table with a header of one row above one column a spectrum.

    Args:
        grid: a table whose header has several rows.
        series: whether its spectra should be named by concentrations rather than by names.

    Raises:
        SpectraError: two rows may be the concentrations, or units contradict each other.
    """
    rows = [Heading(number, cells[0], cells[1:]) for number, cells in grid.headings]
    others = [row for row in rows if not row.is_of_units] or rows[:1]
    signals = (row.cells[0] for row in rows if row not in others and not _unit(row.cells[0]))
    signal = next(signals, grid.signal)
    chosen = _concentrations(others) if series else None
    if chosen is None:
        called = [row for row in others if role(row.corner) == "other"]
        unlike_levels = [row for row in others if not row.is_of_levels]
        found = [*called, *unlike_levels, *others][0]
        cells = found.cells
    else:
        found, units = chosen, _units(rows)
        cells = [
            f"{cell} {unit}" if unit and to_number(cell) is not None else cell
            for cell, unit in zip(found.cells, units, strict=True)
        ]
        names = next((row.cells for row in others if row != found), None)
        if names and len({*zip(names, cells, strict=True)}) == len(cells):
            cells = numbered(cells)  # different samples of one concentration
    return replace(grid, headings=[(found.number, [_axis(rows), *cells])], signal=signal)


def _concentrations(rows: list[Heading]) -> Heading | None:
    """The row of concentrations; None if there is none."""
    levels = [row for row in rows if row.is_of_levels]
    for chosen in (
        [row for row in rows if role(row.corner) == "concentration"],
        levels,
        [row for row in levels if role(row.corner) != "other"],
    ):
        if len(chosen) == 1:
            return chosen[0]
    if not levels:
        return None
    one, other = levels[:2]
    raise SpectraError(
        f"rows {one.number} and {other.number}: found two rows that may be the concentrations, "
        f"{', '.join(one.cells[:3])}, ... and {', '.join(other.cells[:3])}, ...; call one of them "
        "concentration in its first cell, or remove the other"
    )


def _units(rows: list[Heading]) -> list[str | None]:
    """Unit of each concentration, from rows of the header and from their first cells."""
    said = [[_unit(cell) for cell in row.cells] for row in rows]
    said += [[concentration_header(row.corner)[1]] * len(row.cells) for row in rows]
    found: list[str | None] = [None] * len(rows[0].cells)
    for units in said:
        for place, unit in enumerate(units):
            known = found[place]
            if known and unit and not same_unit(known, unit):
                raise SpectraError(
                    f"rows {rows[0].number} to {rows[-1].number}: found concentrations in {known} "
                    f"and in {unit}, expected one unit"
                )
            found[place] = known or unit
    return found


def _unit(cell: str) -> str | None:
    """The unit of a concentration that a cell is; per cent alone may be that of the spectra."""
    bare = cell.strip().strip("()[]")
    return bare if bare not in ("", "%") and re.fullmatch(CONCENTRATION_UNIT, bare) else None


def _axis(rows: list[Heading]) -> str:
    """Name of the axis, with its unit from another row if it has none."""
    corners = [row.corner for row in rows]
    units = [bare for corner in corners if (bare := corner.strip("()[]")).lower() in UNITS]
    named = next(
        (one for one in corners if role(one) == "axis" and one.strip("()[]") not in units), None
    )
    if named is None and units:
        unit = UNITS[units[0].lower()]
        return f"{AXIS_OF_UNIT[unit]} ({unit})"
    if named is None:
        return next((corner for corner in corners if corner and role(corner) is None), "axis")
    return f"{named} ({units[0]})" if axis_header(named)[1] == "1" and units else named
