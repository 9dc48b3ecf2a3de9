"""Content of a file of spectra, before its spectra are given a meaning."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from jaxtyping import Float

from geonode.errors import SpectraError

MOST_COLUMNS = 100_000
"""Of a table; a file with more is none that anybody exported on purpose."""

MOST_VALUES = 20_000_000
"""Of all spectra together: 160 MB."""

LARGEST_NUMBER = 1e100
"""Its square, and sums of squares, are finite; no spectrum reaches it."""

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
        cell_place: where the value of a spectrum (first) at a wavelength (second) is.
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
    cell_place: Callable[[int, int], str]
    understood: Understood
    names_are: Literal["concentrations", "other", "unknown"] = "unknown"
    concentration_unit: str | None = None
    signal: str | None = None
    columns: bool = False

    def __post_init__(self) -> None:
        units = self.axis_unit, self.concentration_unit or ""
        _refuse_long([*self.names, self.axis_name, *units, self.signal or ""])
        _check_order(self.axis, self.axis_places)
        require_size(self.axis)
        require_size(self.values)
        require_measured(self.values)


@dataclass(frozen=True, eq=False)
class Grid:
    """Cells of a table, before it is known which way its spectra run.

    Attributes:
        header: the row above the numbers.
        row_numbers: of the rows below it, counted from 1 as an editor shows them.
        first: their first cells.
        rest: their other cells, as numbers where all of them are.
        decimal: mark of the decimals.
        understood: how the file was understood.
        header_row: number of the header.
        above: further rows of the header, from the top, each with its number and as wide as it.
        signal: what the header says was measured; None if it does not.

    Raises:
        SpectraError: a header or a first cell is too long to be one.
    """

    header: list[str]
    row_numbers: list[int]
    first: list[str]
    rest: Float[np.ndarray, "row column"] | list[list[str]]
    decimal: Literal[".", ","]
    understood: Understood
    header_row: int = 1
    above: list[tuple[int, list[str]]] = field(default_factory=list)
    signal: str | None = None

    def __post_init__(self) -> None:
        cells = (cell for _, row in self.above for cell in row)
        _refuse_long([*self.header, *self.first, *cells])

    def place(self, column: int) -> str:
        """Place of a cell of the header, for messages; columns are counted from 1."""
        return f"row {self.header_row}, column {column}"

    def numbers(self) -> Float[np.ndarray, "row column"]:
        """Numbers of the other cells, NaN where a cell is missing.

        Raises:
            SpectraError: a cell is text, or infinite.
        """
        if isinstance(self.rest, np.ndarray):
            return self.rest
        numbers = np.empty((len(self.rest), len(self.header) - 1))
        for place, cells in enumerate(self.rest):
            numbers[place] = self._row(place, cells)
        return numbers

    def column_of_numbers(self, column: int) -> Float[np.ndarray, "row"]:
        """Numbers of one column, the first included, NaN where a cell is missing.

        Raises:
            SpectraError: a cell is text, or infinite.
        """
        if column and isinstance(self.rest, np.ndarray):
            return self.rest[:, column - 1]
        cells = self.column(column)
        return np.array([self._number(row, column, cell) for row, cell in enumerate(cells)])

    def column(self, column: int) -> list[str]:
        """Texts of one column, the first included."""
        if column == 0:
            return self.first
        if isinstance(self.rest, np.ndarray):
            numbers, places = np.unique(self.rest[:, column - 1], return_inverse=True)
            return np.array([shortest(number) for number in numbers])[places].tolist()
        return [cells[column - 1] for cells in self.rest]

    def _row(self, place: int, cells: list[str]) -> list[float]:
        """Numbers of a row, at once where nothing is wrong and one by one to say what is."""
        if self.decimal == "." and (text := "".join(cells)).isascii() and "_" not in text:
            try:
                row = [float(cell or "nan") for cell in cells]
            except ValueError:
                row = [np.inf]
            if not any(map(np.isinf, row)):
                return row
        return [self._number(place, column, cell) for column, cell in enumerate(cells, start=1)]

    def _number(self, place: int, column: int, cell: str) -> float:
        where = f"row {self.row_numbers[place]}, column {self.header[column]!r}"
        number = to_number(cell or "nan", self.decimal)
        if number is None:
            mark = "point" if self.decimal == "." else "comma"
            raise SpectraError(
                f"{where}: found {cell[:40]!r}, expected a number with a decimal {mark}"
            )
        if np.isinf(number):
            raise SpectraError(f"{where}: found {cell[:40]!r}, expected a finite number")
        return number


def to_number(text: str, decimal: str = ".") -> float | None:
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
    """Refuse numbers that overflow once they are computed with; NaN passes.

    Raises:
        SpectraError: one is infinite, or larger than `LARGEST_NUMBER`.
    """
    wrong = np.abs(numbers) > LARGEST_NUMBER
    if wrong.any():
        raise SpectraError(
            f"found {numbers[wrong][0]}, expected finite numbers of at most {LARGEST_NUMBER:g}; "
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
