"""Layout of a table: spectra by column, by row, or one value a row.

Headers decide. A table whose first cell names a spectral axis has one column a spectrum; one whose
first cell names concentrations or samples has one row a spectrum. Where the first cell says
neither, the other headers do if they carry units, marks of scans or text; a table of bare numbers
is only read if one of its two sides is too long for the levels of a series.
"""

from typing import Literal, NoReturn

import numpy as np
from jaxtyping import Float

from geonode.errors import SpectraError
from geonode.spectra.formats.pairs import axis_row, sheet_of_pairs
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
from geonode.spectra.headings import merged, without_index
from geonode.spectra.sheet import Grid, Sheet, require_values, to_number

PLAUSIBLE = {"nm": (100, 1e5), "um": (0.1, 1e3), "cm-1": (10, 5e4), "eV": (1e-3, 124)}
"""Ends of what is measured as spectra, by unit; of an axis without one as of nm."""

FEWEST_EVEN = 10
"""Headers whose even steps say that they are an axis rather than levels."""


def sheet_of(grid: Grid, most_levels: int | None) -> Sheet:
    """The spectra of a table.

    Args:
        grid: its cells.
        most_levels: of a series, if the spectra are one; None: they need not be.

    Raises:
        SpectraError: it is no such table, or cannot be told which way its spectra run; the message
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
    if (pairs := axis_row(grid)) is not None:
        return sheet_of_pairs(grid, pairs)
    if len(grid.headings) > 1:
        several = merged(grid, series=most_levels is not None)
        return _by_column(several, several.header[0], "")
    roles = [role(name) for name in header]
    if _is_long(grid, roles):
        return _long(grid, roles)
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
    if _direction(grid, role(of_rows), most_levels) == "columns":
        if most_levels is not None:
            _refuse_turned(grid, most_levels)
        return _by_column(grid, of_rows, of_columns)
    return _by_row(grid, of_rows, of_columns)


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
    """Refuse a first cell that calls an axis what looks like levels, above what looks like an axis.

    Raises:
        SpectraError: the first column is no axis in its unit and the headers would be one, or there
            are more spectra than values of the axis and the headers are as even as one.
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


# one column a spectrum


def _by_column(grid: Grid, of_rows: str, of_columns: str) -> Sheet:
    names = grid.header[1:]
    for column, name in enumerate(names, start=2):
        if role(name) == "axis":
            raise SpectraError(
                f"{grid.place(column)}: found a second axis, {name!r}, expected one axis in the "
                "first column and one column a spectrum"
            )
    values = grid.numbers()
    axis = _axis_of_rows(grid)
    axis_name, axis_unit = axis_header(of_rows)
    return Sheet(
        names=names,
        axis=axis,
        axis_name=axis_name,
        axis_unit=axis_unit,
        values=values.T,
        name_places=[grid.place(column) for column in range(2, len(names) + 2)],
        axis_places=[f"row {row}" for row in grid.row_numbers],
        understood=grid.understood.also("one column a spectrum"),
        names_are="concentrations" if of_columns else "unknown",
        concentration_unit=concentration_header(of_columns)[1],
        signal=grid.signal,
        columns=True,
    )


def _axis_of_rows(grid: Grid) -> Float[np.ndarray, "row"]:
    axis = np.empty(len(grid.rows))
    for place, (row, cells) in enumerate(grid.rows):
        number = to_number(cells[0])
        if number is None or not np.isfinite(number):
            raise SpectraError(
                f"row {row}, column {grid.header[0]!r}: found {cells[0][:40]!r} on the axis, "
                "expected a finite number"
            )
        axis[place] = number
    return axis


# one row a spectrum


def _by_row(grid: Grid, of_rows: str, of_columns: str) -> Sheet:
    axis, unit = _axis_of_columns(grid)
    axis_name = AXIS_OF_UNIT[unit]
    if of_columns:
        axis_name, named = axis_header(of_columns)
        if "1" not in (unit, named) and unit != named:
            _refuse_units(grid, 1, named, unit)
        unit = named if unit == "1" else unit
    return Sheet(
        names=grid.column(0),
        axis=axis,
        axis_name=axis_name,
        axis_unit=unit,
        values=grid.numbers(),
        name_places=[f"row {row}, column 1" for row in grid.row_numbers],
        axis_places=[f"column {column}" for column in range(2, len(grid.header) + 1)],
        understood=grid.understood.also("one row a spectrum"),
        names_are=_names_are(role(of_rows)),
        concentration_unit=concentration_header(of_rows)[1],
    )


def _axis_of_columns(grid: Grid) -> tuple[Float[np.ndarray, "column"], str]:
    """Axis and its unit."""
    axis, unit = np.empty(len(grid.header) - 1), "1"
    for place, text in enumerate(grid.header[1:]):
        found = wavelength(text)
        if found is None or not np.isfinite(found[0]):
            raise SpectraError(
                f"{grid.place(place + 2)}: found {text[:40]!r} on the axis, expected a finite "
                "number"
            )
        axis[place], own = found
        if own is not None and unit not in ("1", own):
            _refuse_units(grid, place + 2, unit, own)
        unit = own or unit
    return axis, unit


def _refuse_units(grid: Grid, column: int, one: str, other: str) -> NoReturn:
    raise SpectraError(f"{grid.place(column)}: found units {one} and {other} on one axis")


def _names_are(found: Role | None) -> Literal["concentrations", "other", "unknown"]:
    if found == "concentration":
        return "concentrations"
    return "other" if found == "other" else "unknown"


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
    # Spectra may be called sample and blank. Of those, the axis would not repeat itself.
    axis = grid.column(roles.index("axis"))
    return len(set(axis)) < len(axis)


def _long(grid: Grid, roles: list[Role | None]) -> Sheet:
    at_name, at_axis, at_value = _columns_of_long(grid, roles)
    rows = grid.row_numbers
    wavelengths = grid.column_of_numbers(at_axis)
    wrong = np.flatnonzero(~np.isfinite(wavelengths))
    if wrong.size:
        raise SpectraError(
            f"row {rows[wrong[0]]}, column {grid.header[at_axis]!r}: found no number on the axis, "
            "expected a finite one"
        )
    axis, columns = np.unique(wavelengths, return_inverse=True)
    names, spectra = _spectra_of_rows(grid, at_name, roles)
    require_values(len(names) * len(axis))
    cells = spectra * len(axis) + columns
    _, counts = np.unique(cells, return_counts=True)
    if (counts > 1).any():
        first, second = np.flatnonzero(cells == np.unique(cells)[np.argmax(counts > 1)])[:2]
        raise SpectraError(
            f"row {rows[second]}: found {names[spectra[second]]} at {axis[columns[second]]:.10g} "
            f"again, first in row {rows[first]}; number scans in a column called replicate"
        )
    values = np.full((len(names), len(axis)), np.nan)
    values[spectra, columns] = grid.column_of_numbers(at_value)
    first_rows = [rows[place] for place in np.unique(spectra, return_index=True)[1]]
    axis_name, axis_unit = axis_header(grid.header[at_axis])
    return Sheet(
        names=names,
        axis=axis,
        axis_name=axis_name,
        axis_unit=axis_unit,
        values=values,
        name_places=[f"row {row}, column {at_name + 1}" for row in first_rows],
        axis_places=[f"wavelength {value:.10g}" for value in axis],
        understood=grid.understood.also("one row a value"),
        names_are=_names_are(roles[at_name]),
        concentration_unit=concentration_header(grid.header[at_name])[1],
        signal=grid.header[at_value],
    )


def _columns_of_long(grid: Grid, roles: list[Role | None]) -> tuple[int, int, int]:
    """Columns of the names, the axis and the values."""
    wanted: Role = "concentration" if "concentration" in roles else "other"
    others = sorted(str(found) for found in roles if found not in ("axis", wanted))
    if roles.count(wanted) != 1 or others not in (["None"], ["None", "replicate"]):
        names = ", ".join(map(repr, grid.header[:10]))
        raise SpectraError(
            f"row {grid.header_row}: found the columns {names}, expected one of concentrations, "
            "one of wavelengths, one of values and at most one of replicates"
        )
    return roles.index(wanted), roles.index("axis"), roles.index(None)


def _spectra_of_rows(
    grid: Grid, at_name: int, roles: list[Role | None]
) -> tuple[list[str], np.ndarray]:
    """Names of the spectra, in the order of the file, and the spectrum of every row."""
    levels = grid.column(at_name)
    marks = grid.column(roles.index("replicate")) if "replicate" in roles else [""] * len(levels)
    numbers = {name: level(name) for name in set(levels)}
    places: dict[tuple[str | Level, str], int] = {}
    scans: dict[str | Level, int] = {}
    names: list[str] = []
    spectra = np.empty(len(levels), dtype=np.int64)
    for row, (name, mark) in enumerate(zip(levels, marks, strict=True)):
        found = numbers[name]
        # 10 is also 10.0, but 10 ppb is not 10 ppm.
        of = name if found is None else found
        if (of, mark) not in places:
            places[of, mark] = len(places)
            scans[of] = scans.get(of, 0) + 1
            names.append(name if scans[of] == 1 else f"{name}__r{scans[of]}")
        spectra[row] = places[of, mark]
    return names, spectra
