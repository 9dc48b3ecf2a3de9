"""Concentration series as wide CSV: one row a wavelength, one column a spectrum.

The first column is the spectral axis; the header of every other column is its concentration, and
`30__r2` is a further scan of level 30. Messages count rows from 1, header included, as an editor
shows them.
"""

import csv
import io
import re
from array import array
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Literal, TextIO

import numpy as np
from jaxtyping import Bool, Float

from geonode.errors import SpectraError
from geonode.spectra.table import FEWEST_WAVELENGTHS, SpectraTable

LONGEST_LINE = 2**20
"""Characters; a longer line is no line of a table, and is not read into memory."""

UNITS = {
    "nm": "nm",
    "um": "um",
    "µm": "um",  # micro sign
    "μm": "um",  # Greek mu
    "cm1": "cm-1",
    "cm-1": "cm-1",
    "cm^-1": "cm-1",
    "ev": "eV",
}
"""CF spelling of the units of a spectral axis, by how headers spell them (lower case)."""

_AXIS_HEADER = re.compile(r"(?P<name>.*?)[\s_/]*[\s_/(\[](?P<unit>[^\s_/()\[\]]+)[)\]]?")
_SCAN_MARK = re.compile(r"(?P<level>.+)__r(?P<scan>[1-9][0-9]{0,5})")


def read_csv(
    path: Path,
    *,
    window: tuple[float, float] | None = None,
    missing: Literal["refuse", "mask"] = "refuse",
) -> SpectraTable:
    """Read a concentration series.

    Args:
        path: comma-separated UTF-8 text, with or without byte order mark. The axis ascends or
            descends, the columns stand in any order; the table is ascending in both.
        window: part of the axis to keep, ends included (axis unit).
        missing: whether an empty or NaN cell within the window is an error, or its wavelength is
            left out and reported as masked.

    Raises:
        SpectraError: the file cannot be read, or is not such a table; the message names file,
            row, column, what was found and what was expected.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return _read_table(file, window, missing)
    except OSError as error:
        raise SpectraError(f"{path}: {error.strerror}; expected a CSV file") from error
    except UnicodeDecodeError as error:
        raise SpectraError(f"{path}: not UTF-8 text; expected CSV saved as UTF-8") from error
    except SpectraError as error:
        raise SpectraError(f"{path}: {error}") from error


def to_csv(table: SpectraTable) -> str:
    """Text of a table in the format of `read_csv`, every number in its shortest exact form."""
    unit = {"1": "", "cm-1": "_cm1"}.get(table.axis_unit, f"_{table.axis_unit}")
    header = [table.axis_name + unit]
    for concentration, scans in zip(table.concentrations, table.scans, strict=True):
        level = _shortest(concentration)
        header += [level, *(f"{level}__r{scan}" for scan in range(2, len(scans) + 1))]
    rows = np.column_stack([table.axis, *(scans.T for scans in table.scans)])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_shortest(number) for number in row] for row in rows)
    return text.getvalue()


def _shortest(number: float) -> str:
    return np.format_float_positional(number, trim="-")


def _read_table(
    file: TextIO, window: tuple[float, float] | None, missing: Literal["refuse", "mask"]
) -> SpectraTable:
    """Table in an open file; errors do not name the file."""
    rows = _rows(file)
    _, header = next(rows, (1, []))
    axis_name, axis_unit = _axis(header)
    columns = _columns(header)
    row_numbers, cells = _cells(rows, header)
    axis = cells[:, 0]
    _check_order(axis, row_numbers)

    inside = _inside(axis, window)
    gaps = np.isnan(cells) & inside[:, np.newaxis]
    if missing == "refuse" and gaps.any():
        row, column = np.argwhere(gaps)[0]
        raise SpectraError(
            f"row {row_numbers[row]}, column {header[column]!r}: found an empty or NaN cell, "
            "expected a number; fill it in, or leave the wavelength out with missing: mask"
        )
    masked = gaps.any(axis=1)
    kept = inside & ~masked
    if masked.any() and kept.sum() < FEWEST_WAVELENGTHS:
        raise SpectraError(
            f"missing cells leave {kept.sum()} of {inside.sum()} wavelengths, "
            f"expected at least {FEWEST_WAVELENGTHS}"
        )

    ascending = np.argsort(axis)
    kept_rows = ascending[kept[ascending]]
    by_level = groupby(sorted(columns), key=itemgetter(0))
    columns_of = {level: [columns[key] for key in keys] for level, keys in by_level}
    return SpectraTable(
        axis=axis[kept_rows],
        axis_name=axis_name,
        axis_unit=axis_unit,
        concentrations=np.array(list(columns_of)),
        scans=[cells[np.ix_(kept_rows, scans)].T for scans in columns_of.values()],
        masked=np.sort(axis[masked]),
    )


def _lines(file: TextIO) -> Iterator[str]:
    """Lines of a file, refusing what no text file has."""
    while line := file.readline(LONGEST_LINE):
        if "\0" in line or len(line) == LONGEST_LINE:
            raise SpectraError(
                f"found binary data or a line of {LONGEST_LINE} characters, expected CSV "
                "saved as UTF-8"
            )
        yield line


def _rows(file: TextIO) -> Iterator[tuple[int, list[str]]]:
    """Row number and stripped cells of every row down to the blank ones at the end."""
    reader = csv.reader(_lines(file), skipinitialspace=True, strict=True)
    blank = None
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if not any(cells):
                blank = blank or reader.line_num
            elif blank:
                raise SpectraError(f"row {blank}: found a blank row above data; remove it")
            else:
                yield reader.line_num, cells
    except csv.Error as error:
        raise SpectraError(f"row {reader.line_num}: {error}; expected plain CSV") from error


def _axis(header: list[str]) -> tuple[str, str]:
    """Name and unit of the axis, from the header of the first column."""
    if not header:
        raise SpectraError(
            "found an empty file, expected a header such as wavelength_nm,0,10,20,30,60"
        )
    for name, delimiter in (("semicolon", ";"), ("tab", "\t")):
        if any(delimiter in cell for cell in header):
            raise SpectraError(
                f"row 1: found {name} as delimiter, expected comma; save as comma-separated with "
                "a decimal point (decimal commas are not read)"
            )
    name = header[0]
    if not name or _is_number(name):
        raise SpectraError(
            f"row 1: found {name!r}, expected a header that starts with the name of the axis, "
            "such as wavelength_nm"
        )
    match = _AXIS_HEADER.fullmatch(name)
    if match and match["name"] and match["unit"].lower() in UNITS:
        return match["name"], UNITS[match["unit"].lower()]
    return name, "1"


def _columns(header: list[str]) -> dict[tuple[float, int], int]:
    """Position of every spectrum in the header, by level and scan (1: the unmarked scan)."""
    columns: dict[tuple[float, int], int] = {}
    for column, name in enumerate(header[1:], start=1):
        mark = _SCAN_MARK.fullmatch(name)
        level, scan = (mark["level"], int(mark["scan"])) if mark else (name, 1)
        if not _is_number(level) or not 0 <= float(level) < np.inf or (mark and scan == 1):
            raise SpectraError(
                f"row 1, column {column + 1}: found {name[:40]!r}, expected a concentration that "
                "is finite and not negative, such as 30, or 30__r2 for its second scan"
            )
        key = float(level), scan
        if key in columns:
            other = columns[key]
            raise SpectraError(
                f"row 1: columns {other + 1} ({header[other]!r}) and {column + 1} ({name!r}) are "
                f"the same scan of one level; mark further scans as {_shortest(key[0])}__r2, __r3"
            )
        columns[key] = column
    for (level, _), column in columns.items():
        if (level, 1) not in columns:
            raise SpectraError(
                f"row 1, column {column + 1}: found {header[column]!r} but no column "
                f"'{_shortest(level)}'; the first scan of a level has no mark"
            )
    return columns


def _cells(
    rows: Iterator[tuple[int, list[str]]], header: list[str]
) -> tuple[list[int], Float[np.ndarray, "row column"]]:
    """Row numbers, and the numbers of all rows with NaN where a cell is missing."""
    row_numbers: list[int] = []
    numbers = array("d")
    for row, cells in rows:
        if len(cells) != len(header):
            raise SpectraError(
                f"row {row}: found {len(cells)} cells, expected {len(header)} as in the header"
            )
        for name, cell in zip(header, cells, strict=True):
            if cell and not _is_number(cell):
                raise SpectraError(
                    f"row {row}, column {name!r}: found {cell[:40]!r}, expected a number with a "
                    "decimal point"
                )
            number = float(cell or "nan")
            if np.isinf(number):
                raise SpectraError(
                    f"row {row}, column {name!r}: found {cell[:40]!r}, expected a finite number"
                )
            numbers.append(number)
        if np.isnan(numbers[-len(header)]):
            raise SpectraError(
                f"row {row}, column {header[0]!r}: found {cells[0]!r} on the axis, expected a "
                "finite number"
            )
        row_numbers.append(row)
    return row_numbers, np.array(numbers).reshape(-1, len(header))


def _is_number(text: str) -> bool:
    """Whether text is a number as data files write it, which is less than `float` takes."""
    if "_" in text or not text.isascii():
        return False
    try:
        float(text)
    except ValueError:
        return False
    return True


def _check_order(axis: Float[np.ndarray, "row"], row_numbers: list[int]) -> None:
    """Refuse an axis that repeats a value or neither ascends nor descends throughout."""
    steps = np.diff(axis)
    ascending = np.sum(steps > 0) >= np.sum(steps < 0)
    wrong = np.flatnonzero(steps <= 0 if ascending else steps >= 0)
    if not wrong.size:
        return
    last = wrong[0]
    value, row = axis[last + 1], row_numbers[last + 1]
    earlier = np.flatnonzero(axis[: last + 1] == value)
    if earlier.size:
        raise SpectraError(
            f"row {row}: found {value:.10g} on the axis again, first in row "
            f"{row_numbers[earlier[0]]}; expected every value once"
        )
    raise SpectraError(
        f"row {row}: found {value:.10g} on the axis after {axis[last]:.10g}, expected it to "
        f"{'ascend' if ascending else 'descend'} as elsewhere; sort the rows"
    )


def _inside(
    axis: Float[np.ndarray, "row"], window: tuple[float, float] | None
) -> Bool[np.ndarray, "row"]:
    """Which rows the window keeps."""
    if window is None or len(axis) < FEWEST_WAVELENGTHS:
        return np.full(axis.shape, True)
    low, high = window
    inside = (low <= axis) & (axis <= high)
    if inside.sum() < FEWEST_WAVELENGTHS:
        raise SpectraError(
            f"window [{low:g}, {high:g}] keeps {inside.sum()} wavelengths, expected at least "
            f"{FEWEST_WAVELENGTHS}; the axis runs from {axis.min():.10g} to {axis.max():.10g}"
        )
    return inside
