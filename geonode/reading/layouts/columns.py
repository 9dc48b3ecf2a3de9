"""Spectra in columns: one each, right of the axis; one in all; or two each, of axis and values.

A header may have several rows, such as names above units or samples above concentrations. A row
that is the same above every spectrum, or units alone, names units; a row of numbers, with or
without units, is the concentrations; any other row is the names. Two rows of numbers are
distinguished by their first cells, or refused.
"""

import re
from dataclasses import replace
from functools import partial, reduce
from typing import NamedTuple

import numpy as np

from geonode.errors import SpectraError
from geonode.reading.amounts import Asked, named_spectra
from geonode.reading.headers import (
    AXIS_OF_UNIT,
    CONCENTRATION_UNIT,
    axis_header,
    axis_unit,
    concentration_header,
    labelled_level,
    level,
    role,
)
from geonode.reading.layouts.rows import (
    axis_of,
    corner_parts,
    direction,
    refuse_turned,
    runs_one_way,
)
from geonode.reading.layouts.table_place import counts_rows
from geonode.reading.levels import SECOND_TABLE, common_unit, with_scan_marks
from geonode.reading.sheet import (
    NOT_KNOWN,
    Cells,
    Labels,
    Row,
    Sheet,
    is_word,
    places_called,
    to_number,
)
from geonode.spectra.common_axis import on_common_axis

_OF_OTHERS = re.compile("laser|excit|slit|band|resol|interval|step|^\\W*y", re.I)
"""Lines above a spectrum whose units are not of its axis."""


class OneSpectrum:
    """Columns of numbers, the axis and a signal or channels, whatever stands above and below."""

    name = "two columns, one spectrum"

    def fit(self, grid: Cells, asked: Asked) -> tuple[bool, str]:  # noqa: ARG002
        """Two columns, of which the first ascends or descends, or channels without a header."""
        if len(grid.header) != 2 and grid.understood.header_rows:
            return False, f"there are {len(grid.header)} columns"
        if len(grid.headings) > 1 or role(grid.header[0]) in ("axis", "concentration", "other"):
            return False, "the header names the columns"
        if len(grid.rows) < 2 or not runs_one_way(grid.column(0)):
            return False, "the first column does not ascend or descend throughout"
        return True, "two columns, of which the first ascends or descends, and text around"

    def spectra(self, grid: Cells, asked: Asked) -> Sheet:
        """The spectrum, with the unit of the axis from the text above where it is named there."""
        name, *signals = grid.header
        header = name or "axis"
        if axis_header(header)[1] == "1" and (unit := _unit_in(grid.preamble)):
            header = f"{header} ({unit})"
        wanted = places_called(signals, asked.target or "")
        at = wanted[0] if len(wanted) == 1 else 0
        called = signals[at] if len(signals) == 1 or wanted else ""
        others = ", ".join(signals[:at] + signals[at + 1 :])
        if others:
            grid = replace(grid.only([0, at + 1], f"channels {others}"), signal=signals[at])
        names = (grid.header_row, [header, called or asked.called])
        return OneColumn().spectra(replace(grid, headings=[names]), asked)


def _unit_in(preamble: tuple[str, ...]) -> str | None:
    """The unit of the axis that the text above a spectrum names; None if none, or several."""
    units = set()
    for line in preamble:
        if not _OF_OTHERS.search(line):  # alone, or as XUNITS: nm or #AxisUnit[1]=<tab>1/cm
            value = re.split(r"[=:\t;,]", line.strip(' \t";,'))[-1].strip(' \t"()[]')
            of_axis = axis_header(value)[1] if role(value) == "axis" else "1"
            units |= {axis_unit(value) or of_axis} - {"1"}
    return units.pop() if len(units) == 1 else None


class TwoColumnsEach:
    """Two columns a spectrum; each may have an axis of its own, and end where it likes."""

    name = "two columns a spectrum"

    def fit(self, grid: Cells, asked: Asked) -> tuple[bool, str]:  # noqa: ARG002
        """A row of the header names an axis above every second column."""
        row = _axis_row(grid)
        if row is None:
            return False, "no row of the header names an axis above every second column"
        return True, f"row {row[0]} names an axis above every second column"

    def spectra(self, grid: Cells, asked: Asked) -> Sheet:
        """The spectra on their common axis, without those of a baseline."""
        axis_row = _axis_row(grid) or grid.headings[-1]
        header_row, cells = axis_row
        others = [row for row in grid.headings if row != axis_row]
        if len(others) > 1:
            raise SpectraError(
                f"rows {others[0][0]} and {others[1][0]}: found two rows above those of the axis, "
                "expected one row of names or concentrations"
            )
        names, signal = cells[1::2], None
        if others:
            header_row, above = others[0]
            names = [one or two for one, two in zip(above[::2], above[1::2], strict=True)]
        pairs = [at for at, name in enumerate(names) if not name.lower().startswith("baseline")]
        left = [name for name in names if name.lower().startswith("baseline")]
        if others:
            signals = {cells[2 * pair + 1] for pair in pairs}
            signal = signals.pop() if len(signals) == 1 else None
        axes, values = [], []
        for pair in pairs:
            at, spectrum = grid.numbers([2 * pair])[:, 0], grid.numbers([2 * pair + 1])[:, 0]
            lost = np.flatnonzero(np.isnan(at) & np.isfinite(spectrum))
            if lost.size:
                row, name = grid.row_numbers[lost[0]], names[pair]
                raise SpectraError(f"row {row}: found a value of {name!r} without its wavelength")
            axes.append(at[~np.isnan(at)])
            values.append(spectrum[~np.isnan(at)])
        if not pairs:
            raise SpectraError("found baselines alone, expected spectra beside them")
        names = [names[pair] for pair in pairs]
        axis, spectra, notes = on_common_axis(
            axes, values, [f"spectrum {name!r}" for name in names]
        )
        axis_name, axis_unit = axis_header(cells[0])
        skipped = (f"baselines: {', '.join(left)}",) if left else ()
        places = [f"row {header_row}, column {2 * pair + 1}" for pair in pairs]
        return named_spectra(
            [Labels("", with_scan_marks(names) if asked.series else names, places)],
            asked,
            grid.understood.also(skipped=skipped, notes=notes),
            axis=axis,
            axis_name=axis_name,
            axis_unit=axis_unit,
            axis_places=[f"wavelength {value:.10g}" for value in axis],
            values=spectra,
            signal=signal,
            columns=True,
            of_samples=counts_rows([*dict.fromkeys(names)]),
        )


def _axis_row(grid: Cells) -> Row | None:
    """The row of the header that names an axis above every second column; None: there is none."""
    for number, cells in grid.headings:
        named = {cell.lower() for cell in cells[::2]}
        if len(cells) >= 4 and len(cells) % 2 == 0 and len(named) == 1 and role(cells[0]) == "axis":
            return number, cells
    return None


class OneColumn:
    """One column a spectrum, right of the axis."""

    name = "one column a spectrum"

    def fit(self, grid: Cells, asked: Asked) -> tuple[bool, str]:
        """Fit by `direction`; a header of several rows is always above columns."""
        if len(grid.headings) > 1:
            return True, "the header has several rows"
        way, reason = direction(grid, asked)
        return way == "columns", reason

    def spectra(self, grid: Cells, asked: Asked) -> Sheet:
        """The spectra, and the names above them; columns of remarks are left out."""
        grid, amounts = _without_remarks(grid), list[Labels]()
        if len(grid.headings) > 1:
            grid, amounts = _with_one_header(grid, series=asked.series)
        elif asked.series:
            refuse_turned(grid, rows=False)
        of_rows, of_columns = corner_parts(grid.header[0])
        if role(of_rows) in ("concentration", "other"):  # of the headers beside it
            of_rows, of_columns = "axis", of_rows
        names = grid.header[1:]
        places = [grid.place(column) for column in range(2, len(names) + 2)]
        for place, name in zip(places, names, strict=True):
            if role(name) == "axis":
                raise SpectraError(
                    f"{place}: found a second axis, {name!r}, expected one axis in "
                    "the first column and one column a spectrum"
                )
        axis_name, unit = axis_header(of_rows)
        rows = [f"row {row}" for row in grid.row_numbers]
        values = grid.numbers(range(1, len(grid.header)))
        axis, unit = axis_of(
            grid.column(0), [f"{row}, column {grid.header[0]!r}" for row in rows], unit
        )
        return named_spectra(
            [Labels("sample" if amounts else of_columns, names, places), *amounts],
            asked,
            grid.understood,
            axis=axis,
            axis_name=axis_name,
            axis_unit=unit,
            axis_places=rows,
            values=values.T,
            signal=grid.signal,
            columns=not amounts,
        )


def _without_remarks(grid: Cells) -> Cells:
    """A table without columns of words that no concentration stands above."""
    words = []
    for at, name in enumerate(grid.header[1:], start=1):
        cells = [cell for cell in grid.column(at) if cell]
        if cells and all(map(is_word, cells)) and not (level(name) or labelled_level(name)):
            words.append(at)
    kept = [at for at in range(len(grid.header)) if at not in words]
    if not words or len(kept) < 2:
        return grid
    return grid.only(kept, f"columns {', '.join(grid.header[at] for at in words)}")


class _Heading(NamedTuple):
    """One row of a header."""

    number: int  # of the row
    corner: str  # its first cell
    cells: list[str]  # the others

    @property
    def is_of_units(self) -> bool:
        """True if it names units, or one signal, above every spectrum."""
        if all(_unit_of_cell(cell) for cell in self.cells):
            return True
        return len({*self.cells}) == 1 and bool(self.cells[0]) and not self.is_of_levels

    @property
    def is_of_levels(self) -> bool:
        """True if every cell is a concentration, or unknown in a row that is called so."""
        is_called = role(self.corner) == "concentration"
        known = [cell for cell in self.cells if not (is_called and cell.lower() in NOT_KNOWN)]
        if len(known) > 1 and len({*known}) == 1 and not is_called:
            return False  # a unit such as 10^-6 M
        return bool(known) and all(level(cell) or labelled_level(cell) for cell in known)


def _with_one_header(grid: Cells, *, series: bool) -> tuple[Cells, list[Labels]]:
    """A table with a header of one row above one column a spectrum, and amounts of some spectra."""
    rows = [_Heading(number, cells[0], cells[1:]) for number, cells in grid.headings]
    others = [row for row in rows if not row.is_of_units] or rows[:1]
    signals = (
        row.cells[0] for row in rows if row not in others and not _unit_of_cell(row.cells[0])
    )
    signal, amounts = next(signals, grid.signal), list[Labels]()
    are_named = any(role(row.cells[0]) == "concentration" for row in rows if not row.is_of_levels)
    chosen = _concentrations(others, are_named=are_named) if series else None
    if chosen is None:
        named = [row for row in others if all(row.cells)] or others  # labels may be of some columns
        called = [row for row in named if role(row.corner) == "other"]
        unlike_levels = [row for row in named if not row.is_of_levels]
        unique = [row for row in unlike_levels if len({*row.cells}) == len(row.cells)]
        found = [*called, *unique, *unlike_levels, *named][0]
        cells = found.cells
    else:
        found, units, of_amounts = chosen, _units(rows), "concentration"
        is_whole = re.fullmatch(CONCENTRATION_UNIT, units[0] or "ppb")
        if not is_whole:  # as 10^-6 M is, which does not stand behind a number
            of_amounts, units = f"concentration ({units[0]})", [None] * len(units)
        cells = [
            f"{cell} {unit}" if unit and to_number(cell) is not None else cell
            for cell, unit in zip(found.cells, units, strict=True)
        ]
        names = next((row.cells for row in others if row != found), None)
        if not is_whole or (names and any(cell.lower() in NOT_KNOWN for cell in cells)):
            places = [f"row {found.number}, column {at}" for at in range(2, len(cells) + 2)]
            amounts, cells = [Labels(of_amounts, cells, places)], names or cells
        elif names and len({*zip(names, cells, strict=True)}) == len(cells):
            cells = with_scan_marks(cells)  # different samples of one concentration
    header = found.number, [_axis_of_headings(rows), *cells]
    return replace(grid, headings=[header], signal=signal), amounts


def _concentrations(rows: list[_Heading], *, are_named: bool) -> _Heading | None:
    """The row of concentrations, which another one may name above all; None if there is none."""
    levels = [
        row for row in rows if row.is_of_levels and role(row.corner) not in ("about", "replicate")
    ]
    called = [row for row in rows if role(row.corner) == "concentration"]
    with_units = [row for row in levels if all(to_number(cell) is None for cell in row.cells)]
    unlike_names = [row for row in levels if role(row.corner) != "other"]
    if len(levels) == 1 and not (levels[0].corner or are_named) and counts_rows(levels[0].cells):
        unlike_names = []  # the columns of a plate, or samples
    for chosen in (called, with_units, unlike_names):
        if len(chosen) == 1:
            return chosen[0]
    if not levels:
        return None
    first, *others = (f"{', '.join(row.cells[:3])}, ..." for row in levels)
    if not others:
        raise SpectraError(
            f"row {levels[0].number}: found {levels[0].corner!r} beside {first}, which may number "
            f"samples; call the row concentration, or write the unit (30 ppb), or {SECOND_TABLE}"
        )
    raise SpectraError(
        f"rows {levels[0].number} and {levels[1].number}: found two rows that may be the "
        f"concentrations, {first} and {others[0]}; call one of them concentration in its first "
        f"cell, or remove the other; of several substances, {SECOND_TABLE}"
    )


def _units(rows: list[_Heading]) -> list[str | None]:
    """Unit of each concentration, from rows of the header and from their first cells."""
    headers = [[cell.partition("__r")[0] for cell in row.cells] for row in rows]
    units = [[_unit_of_cell(concentration_header(one)[1] or one) for one in row] for row in headers]
    of_amounts = [row.corner for row in rows if role(row.corner) != "about"]
    units += [[concentration_header(one)[1]] * len(rows[0].cells) for one in of_amounts]
    place = f"rows {rows[0].number} to {rows[-1].number}"
    return [reduce(partial(common_unit, place), of_cell) for of_cell in zip(*units, strict=True)]


def _unit_of_cell(cell: str) -> str | None:
    """The unit of a concentration that a cell is; per cent alone may be that of the spectra."""
    bare = cell.strip().strip("()[]")
    return bare if bare not in ("", "%") and re.fullmatch(CONCENTRATION_UNIT, bare) else None


def _axis_of_headings(rows: list[_Heading]) -> str:
    """Name of the axis, with its unit from another row if it has none."""
    corners = [row.corner for row in rows]
    units = [unit for corner in corners if (unit := axis_unit(corner))]
    named = next((one for one in corners if role(one) == "axis" and not axis_unit(one)), None)
    if named is None and units:
        return f"{AXIS_OF_UNIT[units[0]]} ({units[0]})"
    if named is None:
        return next((corner for corner in corners if corner and role(corner) is None), "axis")
    return f"{named} ({units[0]})" if axis_header(named)[1] == "1" and units else named
