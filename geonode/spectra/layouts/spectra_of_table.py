"""Layout of a table: spectra by column, by row, by pairs of columns, or one value a row.

Headers decide. A table whose first cell names a spectral axis has one column a spectrum; one whose
first cell names concentrations or samples has one row a spectrum. Where the first cell says
neither, the other headers do if they carry units, marks of scans or text; a table of bare numbers
is only read if one of its two sides is too long for the levels of a series.
"""

from typing import Literal

import numpy as np
from jaxtyping import Float

from geonode.errors import SpectraError
from geonode.spectra.common_axis import on_common_axis
from geonode.spectra.headers import (
    AXIS_OF_UNIT,
    Level,
    Role,
    axis_header,
    concentration_header,
    labelled_level,
    level,
    role,
    wavelength,
)
from geonode.spectra.layouts.headings import merged, without_index
from geonode.spectra.sheet import Grid, Row, Sheet, require_values, to_number

PLAUSIBLE = {"nm": (100, 1e5), "um": (0.1, 1e3), "cm-1": (10, 5e4), "eV": (1e-3, 124)}
"""Range in which spectra are measured, by unit; an axis without a unit is taken to be in nm."""

FEWEST_EVEN = 10
"""Headers from which even steps make an axis rather than levels."""

NamesAre = Literal["concentrations", "other", "unknown"]
_NAMES_ARE: dict[Role | None, NamesAre] = {"concentration": "concentrations", "other": "other"}


def sheet_of(grid: Grid, most_levels: int | None) -> Sheet:
    """The spectra of a table.

    Args:
        grid: its cells.
        most_levels: limit of the levels of a series; None: the spectra need not be a series.

    Raises:
        SpectraError: it is no such table, or does not tell which way its spectra run; the message
            names row and column.
    """
    grid = without_index(grid)
    header = grid.header
    row = f"row {grid.header_row}"
    if len(header) < 2:
        raise SpectraError(
            f"{row}: found one cell, {header[0][:40]!r}, expected several with a comma, "
            "semicolon, tab, | or blanks between them, such as wavelength_nm,0,10,20,30,60"
        )
    if (pairs := _row_of_pairs(grid)) is not None:
        return _by_pairs(grid, pairs)
    if len(grid.headings) > 1:
        several = merged(grid, series=most_levels is not None)
        return _by_column(several, several.header[0], "")
    roles = [role(name) for name in header]
    if _is_long(grid, roles):
        return _by_value(grid, roles)
    corner = header[0]
    if not corner or to_number(corner) is not None:
        raise SpectraError(
            f"{row}: found {corner!r}, expected a header that starts with the name of the axis, "
            "such as wavelength_nm, or with concentration above one row a spectrum"
        )
    parts = [part.strip() for part in corner.split("\\")]
    if len(parts) == 2 and {role(part) for part in parts} == {"axis", "concentration"}:
        of_rows, of_columns = parts
    else:
        of_rows, of_columns = corner, ""
    if _direction(grid, role(of_rows), most_levels) == "rows":
        return _by_row(grid, of_rows, of_columns)
    if most_levels is not None:
        _refuse_turned(grid, most_levels)
    return _by_column(grid, of_rows, of_columns)


def _direction(
    grid: Grid, corner: Role | None, most_levels: int | None
) -> Literal["columns", "rows"]:
    """Whether columns or rows are the spectra."""
    if corner == "axis":
        return "columns"
    if corner in ("concentration", "other"):
        return "rows"
    across, down = grid.header[1:], grid.column(0)
    if all(to_number(name) is None and wavelength(name) for name in across):
        return "rows"
    if any(to_number(name) is None for name in across):
        return "columns"
    if any(to_number(name) is None for name in down):
        return "rows"
    if most_levels is not None and (len(across) > most_levels) != (len(down) > most_levels):
        return "rows" if len(across) > most_levels else "columns"
    raise SpectraError(
        f"{grid.place(1)}: found {grid.header[0]!r}, which does not tell whether columns or rows "
        "are the spectra; write wavelength_nm (one column a spectrum) or concentration (one row)"
    )


def _refuse_turned(grid: Grid, most_levels: int) -> None:
    """Refuse a first cell that names an axis above levels, beside headers that look like an axis.

    Raises:
        SpectraError: the headers could be an axis, and the first column either could not in its
            unit, or is shorter than they are, who are as even as an axis.
    """
    down, across = (
        np.array([number for text in texts if (number := to_number(text)) is not None])
        for texts in (grid.column(0), grid.header[1:])
    )
    if len(across) < len(grid.header) - 1 or len(down) < len(grid.rows):
        return
    low, high = PLAUSIBLE.get(axis_header(grid.header[0])[1], PLAUSIBLE["nm"])
    is_axis, would_be_axis = (
        bool((low <= found).all() and (found <= high).all()) for found in (down, across)
    )
    steps = np.diff(across)
    would_be_axis = would_be_axis and bool((steps > 0).all() or (steps < 0).all())
    even = len(across) >= FEWEST_EVEN and bool(np.allclose(steps, steps[:1], rtol=1e-3))
    doubtful = not is_axis or (even and len(across) > len(down))
    if would_be_axis and doubtful and len(down) <= most_levels:
        raise SpectraError(
            f"{grid.place(1)}: found {grid.header[0]!r} above {down.min():g} to {down.max():g} and "
            f"beside {across.min():g} to {across.max():g}: levels from {across.min():g} on, or an "
            "axis in the header above one row a spectrum; write concentration in the first cell "
            "if rows are the spectra, and units in the headers if columns are"
        )


def _axis(
    texts: list[str], places: list[str], unit: str
) -> tuple[Float[np.ndarray, "wavelength"], str]:
    """Spectral axis and its unit.

    Args:
        texts: cells of the axis, with or without a unit.
        places: where each stands, for messages.
        unit: unit in the name of the axis; "1" if it has none.
    """
    axis = np.empty(len(texts))
    for at, (text, place) in enumerate(zip(texts, places, strict=True)):
        found, own = wavelength(text) or (np.nan, None)
        if not np.isfinite(found):
            raise SpectraError(
                f"{place}: found {text[:40]!r} on the axis, expected a finite number"
            )
        if own is not None and unit not in ("1", own):
            raise SpectraError(f"{place}: found units {unit} and {own} on one axis")
        axis[at], unit = found, own or unit
    return axis, unit


def _by_column(grid: Grid, of_rows: str, of_columns: str) -> Sheet:
    """One column a spectrum.

    Args:
        grid: the table.
        of_rows: what the first cell says of the rows, the name of the axis.
        of_columns: what it says of the columns; empty if nothing.
    """
    names = grid.header[1:]
    for column, name in enumerate(names, start=2):
        if role(name) == "axis":
            raise SpectraError(
                f"{grid.place(column)}: found a second axis, {name!r}, expected one axis in the "
                "first column and one column a spectrum"
            )
    axis_name, unit = axis_header(of_rows)
    rows = [f"row {row}" for row in grid.row_numbers]
    places = [f"{row}, column {grid.header[0]!r}" for row in rows]
    values = grid.numbers()
    axis, unit = _axis(grid.column(0), places, unit)
    return Sheet(
        names=names,
        axis=axis,
        axis_name=axis_name,
        axis_unit=unit,
        values=values.T,
        name_places=[grid.place(column) for column in range(2, len(names) + 2)],
        axis_places=rows,
        understood=grid.understood.also("one column a spectrum"),
        names_are="concentrations" if of_columns else "unknown",
        concentration_unit=concentration_header(of_columns)[1],
        signal=grid.signal,
        columns=True,
    )


def _by_row(grid: Grid, of_rows: str, of_columns: str) -> Sheet:
    """One row a spectrum.

    Args:
        grid: the table.
        of_rows: what the first cell says of the rows, the concentrations or samples.
        of_columns: what it says of the columns, the name of the axis; empty if nothing.
    """
    axis_name, unit = axis_header(of_columns)
    columns = range(2, len(grid.header) + 1)
    axis, unit = _axis(grid.header[1:], [grid.place(column) for column in columns], unit)
    return Sheet(
        names=grid.column(0),
        axis=axis,
        axis_name=axis_name or AXIS_OF_UNIT[unit],
        axis_unit=unit,
        values=grid.numbers(),
        name_places=[f"row {row}, column 1" for row in grid.row_numbers],
        axis_places=[f"column {column}" for column in columns],
        understood=grid.understood.also("one row a spectrum"),
        names_are=_NAMES_ARE.get(role(of_rows), "unknown"),
        concentration_unit=concentration_header(of_rows)[1],
    )


# two columns a spectrum, its wavelengths and its values, as Cary instruments write


def _row_of_pairs(grid: Grid) -> Row | None:
    """The row of the header that names an axis above every second column; None: there is none."""
    for number, cells in grid.headings:
        named = {cell.lower() for cell in cells[::2]}
        if len(cells) >= 4 and len(cells) % 2 == 0 and len(named) == 1 and role(cells[0]) == "axis":
            return number, cells
    return None


def _by_pairs(grid: Grid, axis_row: Row) -> Sheet:
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
        signal = cells[1] if len({*cells[1::2]}) == 1 else None
    axes, values = [], []
    for pair, name in enumerate(names):
        at, of_axis = grid.column_of_numbers(2 * pair), grid.column_of_numbers(2 * pair + 1)
        lost = np.flatnonzero(np.isnan(at) & np.isfinite(of_axis))
        if lost.size:
            row = grid.row_numbers[lost[0]]
            raise SpectraError(f"row {row}: found a value of {name!r} without its wavelength")
        axes.append(at[~np.isnan(at)])
        values.append(of_axis[~np.isnan(at)])
    axis, spectra, notes = on_common_axis(axes, values, [f"spectrum {name!r}" for name in names])
    axis_name, axis_unit = axis_header(cells[0])
    return Sheet(
        names=names,
        axis=axis,
        axis_name=axis_name,
        axis_unit=axis_unit,
        values=spectra,
        name_places=[f"row {header_row}, column {2 * pair + 1}" for pair in range(len(names))],
        axis_places=[f"wavelength {value:.10g}" for value in axis],
        understood=grid.understood.also("two columns a spectrum", notes=notes),
        signal=signal,
        columns=True,
    )


# one row a value


def _is_long(grid: Grid, roles: list[Role | None]) -> bool:
    """Whether columns are the concentration or the sample, the wavelength, and the value."""
    if roles.count("axis") != 1 or len(roles) < 3:
        return False
    if "concentration" in roles:
        if {*roles[1:]} == {"concentration"}:
            return False  # names with units, of which it is said that they are no levels
        # A level in a wide header has its number; a column of levels has none.
        return all(level(name) is None and labelled_level(name) is None for name in grid.header)
    if "other" not in roles:
        return False
    # Spectra may be called sample and blank, but then the axis would not repeat itself.
    axis = grid.column(roles.index("axis"))
    return len(set(axis)) < len(axis)


def _by_value(grid: Grid, roles: list[Role | None]) -> Sheet:
    wanted: Role = "concentration" if "concentration" in roles else "other"
    others = sorted(str(one) for one in roles if one not in ("axis", wanted))
    if roles.count(wanted) != 1 or others not in (["None"], ["None", "replicate"]):
        found = ", ".join(map(repr, grid.header[:10]))
        raise SpectraError(
            f"row {grid.header_row}: found the columns {found}, expected one of concentrations, "
            "one of wavelengths, one of values and at most one of replicates"
        )
    at_name, at_axis, at_value = roles.index(wanted), roles.index("axis"), roles.index(None)
    rows = grid.row_numbers
    wavelengths = grid.column_of_numbers(at_axis)
    wrong = np.flatnonzero(~np.isfinite(wavelengths))
    if wrong.size:
        raise SpectraError(
            f"row {rows[wrong[0]]}, column {grid.header[at_axis]!r}: found no number on the axis, "
            "expected a finite one"
        )
    axis, columns = np.unique(wavelengths, return_inverse=True)
    marks = grid.column(roles.index("replicate")) if "replicate" in roles else [""] * len(rows)
    names, spectra = _spectra_of_rows(grid.column(at_name), marks)
    require_values(len(names) * len(axis))
    values = np.full((len(names), len(axis)), np.nan)
    first: dict[tuple[int, int], int] = {}
    cells = zip(spectra, columns.tolist(), strict=True)
    for row, cell, value in zip(rows, cells, grid.column_of_numbers(at_value), strict=True):
        if cell in first:
            raise SpectraError(
                f"row {row}: found {names[cell[0]]} at {axis[cell[1]]:.10g} again, first in row "
                f"{first[cell]}; number scans in a column called replicate"
            )
        first[cell] = row
        values[cell] = value
    axis_name, axis_unit = axis_header(grid.header[at_axis])
    first_rows = dict(zip(reversed(spectra), reversed(rows), strict=True))
    return Sheet(
        names=names,
        axis=axis,
        axis_name=axis_name,
        axis_unit=axis_unit,
        values=values,
        name_places=[f"row {first_rows[n]}, column {at_name + 1}" for n in range(len(names))],
        axis_places=[f"wavelength {value:.10g}" for value in axis],
        understood=grid.understood.also("one row a value"),
        names_are=_NAMES_ARE.get(roles[at_name], "unknown"),
        concentration_unit=concentration_header(grid.header[at_name])[1],
        signal=grid.header[at_value],
    )


def _spectra_of_rows(levels: list[str], marks: list[str]) -> tuple[list[str], list[int]]:
    """Names of the spectra, in the order of the file, and the spectrum of each row."""
    places: dict[tuple[str | Level, str], int] = {}
    scans: dict[str | Level, int] = {}
    names: list[str] = []
    spectra = []
    numbers = {name: level(name) or name for name in set(levels)}
    for name, mark in zip(levels, marks, strict=True):
        found = numbers[name]  # 10 is also 10.0, but 10 ppb is not 10 ppm
        if (found, mark) not in places:
            places[found, mark] = len(places)
            scans[found] = scans.get(found, 0) + 1
            names.append(name if scans[found] == 1 else f"{name}__r{scans[found]}")
        spectra.append(places[found, mark])
    return names, spectra
