"""Tables with two columns a spectrum, its wavelengths and its values, as Cary instruments write."""

import numpy as np

from geonode.errors import SpectraError
from geonode.spectra.common_axis import on_common_axis
from geonode.spectra.headers import axis_header, role
from geonode.spectra.sheet import Grid, Row, Sheet


def axis_row(grid: Grid) -> Row | None:
    """The row of the header that names an axis above every second column; None: there is none."""
    for number, cells in grid.headings:
        named = {cell.lower() for cell in cells[::2]}
        if len(cells) >= 4 and len(cells) % 2 == 0 and len(named) == 1 and role(cells[0]) == "axis":
            return number, cells
    return None


def sheet_of_pairs(grid: Grid, axis: Row) -> Sheet:
    """The spectra of such a table, on one axis.

    Raises:
        SpectraError: there is more than one row of names, an axis has gaps or text in it, or the
            axes cannot be brought to one.
    """
    header_row, cells = axis
    others = [row for row in grid.headings if row != axis]
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
    places = [f"row {header_row}, column {2 * pair + 1}" for pair in range(len(names))]
    axes, values = [], []
    for pair, name in enumerate(names):
        at, of_axis = grid.column_of_numbers(2 * pair), grid.column_of_numbers(2 * pair + 1)
        there = ~np.isnan(at)
        if np.isfinite(of_axis[~there]).any():
            row = grid.row_numbers[int(np.flatnonzero(~there & np.isfinite(of_axis))[0])]
            raise SpectraError(f"row {row}: found a value of {name!r} without its wavelength")
        axes.append(at[there])
        values.append(of_axis[there])
    found, spectra, notes = on_common_axis(axes, values, [f"spectrum {name!r}" for name in names])
    axis_name, axis_unit = axis_header(cells[0])
    return Sheet(
        names=names,
        axis=found,
        axis_name=axis_name,
        axis_unit=axis_unit,
        values=spectra,
        name_places=places,
        axis_places=[f"wavelength {value:.10g}" for value in found],
        understood=grid.understood.also("two columns a spectrum", notes=notes),
        signal=signal,
        columns=True,
    )
