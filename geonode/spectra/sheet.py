"""Content of a file of spectra, before its spectra are given a meaning."""

from dataclasses import dataclass, replace
from math import isinf
from typing import Literal

import numpy as np
from jaxtyping import Float

from geonode.errors import SpectraError

MOST_COLUMNS = 100_000
"""Of a table; a file with more is none that anybody exported on purpose."""

MOST_VALUES = 20_000_000
"""Of all spectra together: 160 MB."""

LARGEST_NUMBER, SMALLEST_NUMBER = 1e30, 1e-30
"""Sizes whose fourth powers, summed, neither overflow nor vanish, nor they in single precision."""

NEVER_WRITTEN = 9.969209968386869e36
"""NC_FILL_FLOAT and NC_FILL_DOUBLE of netcdf.h."""

LONGEST_NAME = 256
"""Characters of a header, a label or a unit."""


@dataclass(frozen=True)
class Understood:
    """Report for people on how a file was understood.

    Attributes:
        format: in words.
        encoding: of text.
        header_rows: rows of names and units above the table; none where a format has no rows.
        skipped: what was left out, such as "rows 1 to 12 (above the table)".
        notes: what a reader should know before trusting the numbers.
    """

    format: str
    encoding: str | None = None
    header_rows: tuple[int, ...] = ()
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def also(
        self, words: str = "", *, skipped: tuple[str, ...] = (), notes: tuple[str, ...] = ()
    ) -> "Understood":
        """Report with further lines."""
        return replace(
            self,
            format=f"{self.format}, {words}" if words else self.format,
            skipped=self.skipped + skipped,
            notes=self.notes + notes,
        )


@dataclass(frozen=True, eq=False)
class Sheet:
    """Labelled spectra on one spectral axis, in the order of the file.

    Attributes:
        names: what the file calls every spectrum.
        axis: spectral axis, which ascends or descends.
        axis_name: what the axis is, such as "wavelength" or "raman_shift".
        axis_unit: its unit; "1" if unknown.
        values: the spectra, NaN where a value is missing.
        name_places: where every name is, for messages.
        axis_places: where every value of the axis is, for messages.
        understood: how the file was understood.
        names_are: what the file says that the names are.
        concentration_unit: unit of the concentrations that the names are, where the file gives
            one for all; None if it does not.
        signal: what was measured, as the file says it; None if it does not.
        columns: whether the names are headers of columns.

    Raises:
        SpectraError: the axis repeats a value, or neither ascends nor descends throughout; a name
            is too long to be one, or a number too large.
    """

    names: list[str]
    axis: Float[np.ndarray, "wavelength"]
    axis_name: str
    axis_unit: str
    values: Float[np.ndarray, "spectrum wavelength"]
    name_places: list[str]
    axis_places: list[str]
    understood: Understood
    names_are: Literal["concentrations", "other", "unknown"] = "unknown"
    concentration_unit: str | None = None
    signal: str | None = None
    columns: bool = False

    def __post_init__(self) -> None:
        units = self.axis_unit, self.concentration_unit or ""
        _refuse_long([*self.names, self.axis_name, *units, self.signal or ""])
        _check_order(self.axis, self.axis_places)
        require_measured(self.values)
        require_size(self.axis)
        require_size(self.values)

    def cell_place(self, spectrum: int, wavelength: int) -> str:
        """Place of a value, for messages."""
        at, (row, _, column) = (
            self.axis_places[wavelength],
            self.name_places[spectrum].partition(", "),
        )
        if self.columns:
            return f"{at}, column {self.names[spectrum]!r}"
        if at.startswith("column"):
            at = f"{row}, {at}"
        elif at.startswith("row"):
            at = f"{at}, {column}"
        return f"{at}, spectrum {self.names[spectrum]!r}"


Decimal = Literal[".", ","]
"""Mark of the decimals."""

Row = tuple[int, list[str]]
"""Number of a row, counted from 1 as an editor shows it, and its cells."""


@dataclass(frozen=True, eq=False)
class Grid:
    """Cells of a table, before it is known which way its spectra run.

    Attributes:
        headings: rows of the header from the top, one at least; the last is `header`.
        rows: below them, all as wide.
        decimal: mark of the decimals.
        understood: how the file was understood.
        signal: what the header says was measured; None if it does not.

    Raises:
        SpectraError: a header or a first cell is too long to be one.
    """

    headings: list[Row]
    rows: list[Row]
    decimal: Decimal
    understood: Understood
    signal: str | None = None

    def __post_init__(self) -> None:
        _refuse_long([*(cell for _, cells in self.headings for cell in cells), *self.column(0)])

    @property
    def header(self) -> list[str]:
        """Cells of the row above the numbers."""
        return self.headings[-1][1]

    @property
    def header_row(self) -> int:
        """Number of that row."""
        return self.headings[-1][0]

    @property
    def row_numbers(self) -> list[int]:
        """Numbers of the rows below it."""
        return [number for number, _ in self.rows]

    def without_column(self) -> "Grid":
        """The table without its first column."""
        above, below = (
            [(number, cells[1:]) for number, cells in rows] for rows in (self.headings, self.rows)
        )
        return replace(self, headings=above, rows=below)

    def place(self, column: int) -> str:
        """Place of a cell of the header, for messages; columns are counted from 1."""
        return f"row {self.header_row}, column {column}"

    def column(self, column: int) -> list[str]:
        """Texts of one column."""
        return [cells[column] for _, cells in self.rows]

    def column_of_numbers(self, column: int) -> Float[np.ndarray, "row"]:
        """Numbers of one column, NaN where a cell is missing.

        Raises:
            SpectraError: a cell is text, or infinite.
        """
        return np.array(
            [self._number(number, column, cells[column]) for number, cells in self.rows]
        )

    def numbers(self) -> Float[np.ndarray, "row column"]:
        """Numbers of all columns but the first, NaN where a cell is missing.

        Raises:
            SpectraError: a cell is text, or infinite.
        """
        numbers = np.empty((len(self.rows), len(self.header) - 1))
        for place, (number, cells) in enumerate(self.rows):
            numbers[place] = self._row(number, cells)
        return numbers

    def _row(self, row: int, cells: list[str]) -> list[float]:
        """Numbers of a row, at once where nothing is wrong and one by one to say what is."""
        if self.decimal == "." and (text := "".join(cells[1:])).isascii() and "_" not in text:
            try:
                numbers = [float(cell or "nan") for cell in cells[1:]]
            except ValueError:
                numbers = [np.inf]
            if not any(map(isinf, numbers)):
                return numbers
        return [self._number(row, column, cells[column]) for column in range(1, len(cells))]

    def _number(self, row: int, column: int, cell: str) -> float:
        where = f"row {row}, column {self.header[column]!r}"
        number = to_number(cell or "nan", self.decimal)
        if number is None:
            mark = "point" if self.decimal == "." else "comma"
            raise SpectraError(
                f"{where}: found {cell[:40]!r}, expected a number with a decimal {mark}"
            )
        if np.isinf(number):
            raise SpectraError(f"{where}: found {cell[:40]!r}, expected a finite number")
        return number


def to_number(text: str, decimal: Decimal = ".") -> float | None:
    """A number as data files write it, which is less than `float` takes; None: it is none."""
    if len(text) > LONGEST_NAME:
        return None
    if decimal == ",":
        if "." in text:
            return None
        text = text.replace(",", ".")
    if "_" in text or not text.isascii():
        return None
    try:
        return float(text)
    except ValueError:
        return None


def shortest(number: float) -> str:
    """Shortest text that is exactly this number."""
    return np.format_float_positional(number, trim="-")


def require_columns(count: int) -> None:
    """Refuse a table that is too wide to be one.

    Raises:
        SpectraError: it has more than `MOST_COLUMNS` columns.
    """
    if count > MOST_COLUMNS:
        raise SpectraError(
            f"found {count} columns, expected at most {MOST_COLUMNS}; keep those of spectra"
        )


def require_values(count: int) -> None:
    """Refuse more numbers than spectra have.

    Raises:
        SpectraError: there are more than `MOST_VALUES`.
    """
    if count > MOST_VALUES:
        raise SpectraError(
            f"found {count} values, expected at most {MOST_VALUES}; read the spectra from several "
            "files"
        )


def require_measured(numbers: Float[np.ndarray, "..."]) -> None:
    """Refuse the number that NetCDF has where nothing was written, in a file of any format.

    Raises:
        SpectraError: it is there.
    """
    if bool((np.abs(numbers / NEVER_WRITTEN - 1) < 1e-6).any()):
        raise SpectraError(
            f"found {NEVER_WRITTEN:.6g}, which NetCDF has where nothing was written, expected a "
            "measured number; leave the cell empty"
        )


def require_size(numbers: Float[np.ndarray, "..."]) -> None:
    """Refuse numbers that overflow or vanish once they are computed with; NaN passes.

    Raises:
        SpectraError: one is infinite, or larger than `LARGEST_NUMBER`; all are smaller than
            `SMALLEST_NUMBER`, and not all zero.
    """
    sizes = np.abs(numbers)
    wrong = sizes > LARGEST_NUMBER
    if wrong.any():
        raise SpectraError(
            f"found {numbers[wrong][0]}, expected finite numbers of at most {LARGEST_NUMBER:g}; "
            "change the unit, or empty the cell if nothing was measured"
        )
    if 0 < (largest := np.nanmax(sizes, initial=0.0)) < SMALLEST_NUMBER:
        raise SpectraError(
            f"found no number larger than {largest:g}, expected some above {SMALLEST_NUMBER:g}; "
            "change the unit"
        )


def _refuse_long(names: list[str]) -> None:
    longest = max(names, key=len, default="")
    if len(longest) > LONGEST_NAME:
        raise SpectraError(
            f"found a name of {len(longest)} characters, {longest[:40]!r}..., expected at most "
            f"{LONGEST_NAME}; shorten it"
        )


def _check_order(axis: Float[np.ndarray, "wavelength"], places: list[str]) -> None:
    """Refuse an axis that repeats a value or neither ascends nor descends throughout."""
    wrong = np.flatnonzero(~np.isfinite(axis))
    if wrong.size:
        raise SpectraError(
            f"{places[wrong[0]]}: found {axis[wrong[0]]} on the axis, expected a finite number"
        )
    steps = np.diff(axis)
    ascending = np.sum(steps > 0) >= np.sum(steps < 0)
    wrong = np.flatnonzero(steps <= 0 if ascending else steps >= 0)
    if not wrong.size:
        return
    last = wrong[0]
    value, place = axis[last + 1], places[last + 1]
    earlier = np.flatnonzero(axis[: last + 1] == value)
    if earlier.size:
        raise SpectraError(
            f"{place}: found {value:.10g} on the axis again, first in {places[earlier[0]]}; "
            "expected every value once"
        )
    raise SpectraError(
        f"{place}: found {value:.10g} on the axis after {axis[last]:.10g}, expected it to "
        f"{'ascend' if ascending else 'descend'} as elsewhere; sort it"
    )
