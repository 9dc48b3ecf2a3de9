"""One row a spectrum: columns about the sample, and the axis in the header."""

import re
from collections.abc import Sequence
from typing import Literal

import numpy as np
from jaxtyping import Float

from geonode.errors import SpectraError
from geonode.reading.amounts import Asked, column_labels, named_spectra
from geonode.reading.headers import (
    AXIS_OF_UNIT,
    axis_header,
    is_marked_amount,
    level,
    role,
    wavelength,
)
from geonode.reading.layouts.table_place import counts_rows
from geonode.reading.sheet import Cells, Sheet, is_one_way, to_number
from geonode.spectra.table import FEWEST_WAVELENGTHS, MOST_LEVELS

PLAUSIBLE = {"nm": (100, 1e5), "um": (0.1, 1e3), "cm-1": (10, 5e4), "eV": (1e-3, 124)}
"""Range in which spectra are measured, by unit; an axis without a unit is taken to be in nm."""

INDEX_NAMES = {
    *("", "unnamed: 0", "index", "#", "no", "no.", "nr", "nr.", "n", "row", "point", "pixel"),
    *("number", "s.no", "s.no.", "sno", "sample no", "sample no.", "data point"),
}
"""Headers of a column that counts rows (lower case)."""

FEWEST_EVEN = 10
"""Numbers from which even steps make an axis rather than levels."""

Way = Literal["columns", "rows"] | None


def axis_of(
    texts: Sequence[str], places: Sequence[str], unit: str
) -> tuple[Float[np.ndarray, "wavelength"], str]:
    """Spectral axis and its unit.

    Args:
        texts: cells of the axis, with or without a unit.
        places: where each stands, for messages.
        unit: unit in the name of the axis; "1" if it has none.

    Raises:
        SpectraError: a cell is no finite number, or has another unit.
    """
    axis = np.empty(len(texts))
    for at, (text, place) in enumerate(zip(texts, places, strict=True)):
        found, own = wavelength(text) or (np.nan, None)
        if not np.isfinite(found):
            raise SpectraError(
                f"{place}: found {text[:40]!r} on the axis, expected a finite number, such as 400 "
                "or 400 nm"
            )
        if own is not None and unit not in ("1", own):
            raise SpectraError(
                f"{place}: found units {unit} and {own} on one axis, expected one; convert it first"
            )
        axis[at], unit = found, own or unit
    return axis, unit


def corner_parts(corner: str) -> tuple[str, str]:
    r"""Meaning of rows and of columns by a first cell such as `wavelength \ conc` or `nm / ppm`.

    Of columns, an empty text if it names one thing.
    """
    parts = [part.strip() for part in re.split(r"[\\/]", corner)]
    if len(parts) == 2 and {role(part) for part in parts} == {"axis", "concentration"}:
        return parts[0], parts[1]
    return corner, ""


def direction(grid: Cells, asked: Asked) -> tuple[Way, str]:
    """Direction of the spectra, in columns or rows, and why: by headers first, by sizes last.

    None if the table leaves it open.
    """
    header, rows = grid.header, len(grid.rows)
    corner = corner_parts(header[0])[0]
    across = len(header) - 1
    is_above_names = rows > 0 and all(cell[:1].isalpha() for cell in grid.column(0))
    found: tuple[Way, str] = (None, f"{corner!r} does not show which way the spectra run")
    if grid.across:
        found = ("rows", "the headers number an axis")
    elif axis_leads(header):
        found = ("rows", "the headers are an axis, and columns about samples stand behind it")
    elif role(corner) == "axis" and not (is_above_names and axis_columns(header)):
        found = ("columns", f"the first header, {corner[:40]!r}, names an axis")
    elif role(corner) in ("concentration", "other") and (
        counts_rows(grid.column(0)) or any(map(wavelength, header[1:]))
    ):
        found = ("rows", f"the first header, {corner[:40]!r}, is about samples")
    elif reason := why_rows(grid, asked):
        found = ("rows", reason)
    elif any(to_number(name) is None for name in header[1:]):
        found = ("columns", "the headers are names or have units")
    elif _may_be_axis(grid) and asked.series and (across > MOST_LEVELS) != (rows > MOST_LEVELS):
        way: Way = "rows" if across > MOST_LEVELS else "columns"
        found = (way, f"no series has {max(across, rows)} levels")
    return found


def _may_be_axis(grid: Cells) -> bool:
    """True if the first column may be an axis; row numbers beside what looks like one may not."""
    across = [to_number(name) or 0.0 for name in grid.header[1:]]
    is_axis = len(axis_columns(grid.header)) == len(across) and min(across) >= PLAUSIBLE["nm"][0]
    return not (is_index(grid) or (is_axis and counts_rows(grid.column(0))))


def first_may_be_axis(grid: Cells) -> bool:
    """True if the first column is in order and counts no rows; concentrations begin lower."""
    low, cells = PLAUSIBLE["nm"][0], grid.column(0)
    is_of_levels = role(grid.header[0]) == "concentration"
    is_low = is_of_levels and any((to_number(cell) or 0) < low for cell in cells)
    return runs_one_way(cells) and not is_low and not counts_rows(cells)


def runs_one_way(cells: Sequence[str]) -> bool:
    """True if cells are numbers that ascend or descend."""
    numbers = [to_number(cell) for cell in cells]
    return is_one_way([np.nan if number is None else number for number in numbers])


def is_index(grid: Cells) -> bool:
    """True if the first column counts rows, from 0 or 1 on, below a name such as Index or No."""
    return grid.header[0].strip().lower() in INDEX_NAMES and counts_rows(grid.column(0))


def why_rows(grid: Cells, asked: Asked) -> str:
    """Reason why the headers are an axis, beside columns about samples; empty: they need not be."""
    header, axis = grid.header, axis_columns(grid.header)
    about = [at for at in range(len(header)) if at not in axis]
    known = next((at for at in about if _is_about_samples(grid, at, asked)), None)
    reasons = {
        f"column {header[known][:40]!r} is about samples" if known is not None else "": True,
        "the headers are values of an axis with their unit": all(
            to_number(header[at]) is None for at in axis
        ),
        "the headers are an axis, and the first column is none": not runs_one_way(grid.column(0)),
        f"{len(axis)} headers in order are an axis": len(axis) > MOST_LEVELS
        and (is_index(grid) or len(about) > 1),
    }
    return next((why for why, is_so in reasons.items() if why and is_so), "") if axis else ""


def axis_columns(header: Sequence[str]) -> range:
    """Columns whose headers are an axis: the only run of axis values, if they are in order."""
    values = {at: value[0] for at, name in enumerate(header) if (value := wavelength(name))}
    axis = range(min(values, default=0), max(values, default=-1) + 1)
    is_run = len(axis) == len(values) >= FEWEST_WAVELENGTHS
    return axis if is_run and is_one_way([*values.values()]) else range(0)


def axis_leads(header: Sequence[str]) -> bool:
    """True where the headers begin with an axis, and end with others."""
    axis = axis_columns(header)
    return bool(axis) and axis.start == 0 and axis.stop < len(header)


def _is_about_samples(grid: Cells, column: int, asked: Asked) -> bool:
    """True if a column can only be about samples."""
    header, cells = grid.header[column], grid.column(column)
    is_called = role(header) in ("concentration", "other", "replicate") or is_marked_amount(header)
    is_text = any(cell and to_number(cell) is None and not level(cell) for cell in cells)
    is_wanted = asked.target is not None and asked.target.lower() in header.lower()
    return is_called or is_text or is_wanted


def refuse_turned(grid: Cells, *, rows: bool) -> None:
    """Refuse a first cell that names the axis where the levels are, or the levels where it is.

    Args:
        grid: a table of numbers below and beside its first cell.
        rows: whether by the first cell rows are the spectra.

    Raises:
        SpectraError: the levels could be an axis, and the axis either could not in its unit, or is
            shorter than they are, who are as even as an axis.
    """
    down, across = (
        np.array([number for text in texts if (number := to_number(text)) is not None])
        for texts in (grid.column(0), grid.header[1:])
    )
    if len(across) < len(grid.header) - 1 or len(down) < len(grid.rows):
        return
    axis, levels = (across, down) if rows else (down, across)
    unit = axis_header(corner_parts(grid.header[0])[rows])[1]
    low, high = PLAUSIBLE.get(unit, PLAUSIBLE["nm"])
    is_axis, would_be_axis = (
        bool((low <= found).all() and (found <= high).all()) for found in (axis, levels)
    )
    steps = np.diff(levels)
    would_be_axis = would_be_axis and is_one_way(levels)
    even = len(levels) >= FEWEST_EVEN and bool(np.allclose(steps, steps[:1], rtol=1e-3))
    doubtful = not is_axis or (even and len(levels) > len(axis))
    if would_be_axis and doubtful and len(axis) <= MOST_LEVELS:
        raise SpectraError(
            f"{grid.place(1)}: found {grid.header[0]!r} above {down.min():g} to {down.max():g} and "
            f"beside {across.min():g} to {across.max():g}, of which either may be the axis; write "
            "concentration in the first cell and headers such as 400 nm if rows are the spectra, "
            "or wavelength_nm and headers such as 10 ppb if columns are"
        )


def refuse_matrix(grid: Cells, sheet: Sheet) -> None:
    """Refuse levels as even as excitation wavelengths, with which the signal rises and falls.

    Levels in even steps begin near zero, and the largest part of the variation of their spectra
    (first principal component) ends far from where it began.

    Raises:
        SpectraError: the levels may be wavelengths of one sample.
    """
    texts = [*(one.cells for one in sheet.amounts), sheet.names][0]
    levels = np.array([to_number(text) or 0.0 for text in texts])
    roles = {role(part) for name in grid.header for part in corner_parts(name)}
    is_called = "concentration" in roles or any(map(is_marked_amount, grid.header))
    if len(sheet.amounts) > 1 or len(levels) < 6 or is_called:
        return
    steps, (low, high) = np.diff(levels), PLAUSIBLE["nm"]
    is_even = bool(np.allclose(steps, steps[0], rtol=1e-3, atol=0))
    if not is_even or not max(low, 2 * abs(steps[0])) <= levels.min() <= levels.max() <= high:
        return
    values = np.nan_to_num(sheet.values)
    along = np.linalg.svd(values - values.mean(axis=0), full_matrices=False)[0][:, 0]
    if abs(along[-1] - along[0]) < np.ptp(along) / 2:
        raise SpectraError(
            f"{sheet.name_places[0]}: found {levels[0]:g} to {levels[-1]:g} in even steps with a "
            "signal that rises and falls: concentrations, or excitation wavelengths of one sample; "
            f"write their unit, such as {levels[0]:g} ppb, or take one spectrum of each sample"
        )


class OneRow:
    """One row a spectrum; names, groups and amounts stand beside the axis of the header."""

    name = "one row a spectrum"

    def fit(self, grid: Cells, asked: Asked) -> tuple[bool, str]:
        """Fit of the spectra in rows, as `direction` finds, below a header of one row."""
        if len(grid.headings) > 1:
            return False, "the header has several rows"
        way, reason = direction(grid, asked)
        return way == "rows", reason

    def spectra(self, grid: Cells, asked: Asked) -> Sheet:
        """The spectra, and the columns beside them."""
        header = grid.header
        axis = axis_columns(header) or range(1, len(header))
        for at in axis[1:-1]:
            before, after = wavelength(header[at - 1]), wavelength(header[at + 1])
            if before and after and not wavelength(header[at]):
                raise SpectraError(
                    f"{grid.place(at + 1)}: found {header[at][:40]!r} on the axis, between "
                    f"{before[0]:g} and {after[0]:g}, expected a number; move a column about the "
                    "samples to the front, or remove it"
                )
        about = [at for at in range(len(header)) if at not in axis]
        if asked.series and about == [0]:
            refuse_turned(grid, rows=True)
        of_rows, of_axis = corner_parts(header[0])
        axis_name, unit = axis_header(of_rows if role(of_rows) == "axis" else of_axis)
        texts, places = [header[at] for at in axis], [grid.place(at + 1) for at in axis]
        values, unit = axis_of(texts, places, unit)
        labels = [column_labels(grid, at) for at in about]
        return named_spectra(
            [one._replace(header=corner_parts(one.header)[0]) for one in labels],
            asked,
            grid.understood,
            axis=values,
            axis_name=axis_name or AXIS_OF_UNIT[unit],
            axis_unit=unit,
            axis_places=[f"column {at + 1}" for at in axis],
            values=grid.numbers(axis),
            of_samples=len(about) == 1 and counts_rows(grid.column(about[0])),
        )
