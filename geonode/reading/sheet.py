"""Contents of a file, before its spectra are given a meaning: cells, or named spectra."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from geonode.errors import SpectraError
from geonode.reading.refusals import require_at_most, unexpected
from geonode.spectra.arrays import require_size, require_values
from geonode.spectra.common_axis import on_common_axis
from geonode.spectra.quantities import one_quantity, quantity_of
from geonode.spectra.table import FEWEST_WAVELENGTHS
from geonode.storage.table import unescaped

MOST_COLUMNS = 100_000
"""Columns of a table; nobody exports more on purpose."""

OVERFLOW = re.compile(r"\W*(?:over|ovr|ovrflw|overflow|o\.l|sat|saturated)\W*|\*+|#+|>.*", re.I)
"""Words that instruments write in place of a number that is too large."""

EMPTY = ("", "nan", "na", "n/a", "none", "-")
"""Cells of which nothing is known (lower case)."""

NOT_KNOWN = (*EMPTY, "?", "unknown", "unk", "unk.", "n.d.", "nd", "n.a.", "#n/a", "--", "---")
"""Cells in place of the amount of a sample of which it is not known (lower case)."""

THOUSANDS = re.compile(r"[1-9][0-9]{0,2}(?:,[0-9]{3})+")
"""A number whose commas may be of thousands."""

MINUS = "\u2212"
"""Sign that some programs write in place of a hyphen."""

LONGEST_NAME = 256
"""Characters of a header, a label or a unit."""


@dataclass(frozen=True)
class Understood:
    """Reading of a file, in words for people."""

    format: str
    """Format, in words."""
    encoding: str | None = None
    """Encoding of a text file."""
    header_rows: tuple[int, ...] = ()
    """Rows of names and units above the table; empty for formats without rows."""
    skipped: tuple[str, ...] = ()
    """Parts left out, such as "rows 1 to 12 (above the table)"."""
    notes: tuple[str, ...] = ()
    """Remarks to read before trusting the numbers."""
    layouts: tuple[str, ...] = ()
    """The layout that was chosen and why, and why each other was not."""

    def also(
        self, words: str = "", *, skipped: tuple[str, ...] = (), notes: tuple[str, ...] = ()
    ) -> "Understood":
        """Copy with more words, parts left out and notes."""
        return replace(
            self,
            format=f"{self.format}, {words}" if words else self.format,
            skipped=self.skipped + skipped,
            notes=self.notes + notes,
        )


class Labels(NamedTuple):
    """Texts about spectra below one header: their names, or amounts of one substance in them."""

    header: str
    """Header of them, such as the name of the substance, with its unit if it has one."""
    cells: list[str]
    """Text of every spectrum; numbers have a decimal point."""
    places: list[str]
    """Place of each, for messages."""
    is_sure: bool = True
    """True where the file calls them amounts, or else only a wish for them makes them so."""

    @property
    def known(self) -> list[bool]:
        """True where a label is an amount, or a mark in place of one."""
        return [cell.lower() not in NOT_KNOWN for cell in self.cells]

    def at(self, kept: Sequence[int]) -> "Labels":
        """Labels of some of the spectra, by their places."""
        cells, places = ([of[at] for at in kept] for of in (self.cells, self.places))
        return self._replace(cells=cells, places=places)


@dataclass(frozen=True, eq=False)
class Sheet:
    """Named spectra on one spectral axis, in the order of the file.

    Raises:
        SpectraError: the axis repeats a value or changes direction, a name is too long, or a
            number too large.
    """

    names: list[str]
    """Name of each spectrum in the file."""
    axis: Float[np.ndarray, "wavelength"]
    """Spectral axis, ascending or descending."""
    axis_name: str
    """Name of the axis, such as "wavelength" or "raman_shift"."""
    axis_unit: str
    """Its unit; "1" if unknown."""
    values: Float[np.ndarray, "spectrum wavelength"]
    """The spectra, NaN where a value is missing."""
    name_places: list[str]
    """Place of each name, for messages."""
    axis_places: list[str]
    """Place of each value of the axis, for messages."""
    understood: Understood
    """Reading of the file."""
    of_samples: bool = False
    """True where the names are those of samples, of which a bare number is no level."""
    concentration_unit: str | None = None
    """Unit that the file gives for the concentrations in the names; None if it gives none."""
    signal: str | None = None
    """Quantity measured, in the words of the file; None if it names none."""
    columns: bool = False
    """True where the names are headers of columns."""
    amounts: tuple[Labels, ...] = ()
    """Of the substances beside the spectra, of which none is in the names."""
    unknown: "Sheet | None" = None
    """Spectra of the file of which no amount is known, by their own names."""

    def __post_init__(self) -> None:
        units = self.axis_unit, self.concentration_unit or ""
        _require_short([*self.names, self.axis_name, *units, self.signal or ""])
        _require_order(self.axis, self.axis_places)
        require_size(self.axis)
        require_size(self.values)

    @property
    def sure_amounts(self) -> list[Labels]:
        """Amounts that the file calls so; none where one of them was chosen."""
        return [labels for labels in self.amounts if labels.is_sure]

    @property
    def known_amounts(self) -> list[tuple[bool, ...]]:
        """True where an amount of a spectrum is known."""
        return [*zip(*(labels.known for labels in self.sure_amounts), strict=True)]

    @property
    def quantity(self) -> str | None:
        """Quantity that the file names for its spectra, beside their names or in each of them.

        Raises:
            SpectraError: they are of several quantities.
        """
        named = [quantity_of(name) for name in self.names]
        return quantity_of(self.signal) or (one_quantity(named) if all(named) else None)

    def at(self, kept: Sequence[int]) -> "Sheet":
        """Some of the spectra, by their places."""
        names, places = ([of[one] for one in kept] for of in (self.names, self.name_places))
        amounts = tuple(one.at(kept) for one in self.amounts)
        values = self.values[np.array(kept, dtype=np.int64)]
        return replace(self, names=names, name_places=places, values=values, amounts=amounts)

    def apart(self, unknown: Sequence[int], amount: str) -> "Sheet":
        """The other spectra, with a note on those of unknown amount, which stay beside them."""
        if not len(unknown):
            return self
        others = sorted({*range(len(self.names))} - {*unknown})
        left = replace(self.at(unknown), amounts=())
        found = replace(self.at(others), unknown=left)
        return found.noted(f"spectra without a {amount} are unknowns: {some_of(left.names)}")

    def noted(self, *notes: str) -> "Sheet":
        """Copy of the sheet with notes for people."""
        return replace(self, understood=self.understood.also(notes=notes))

    def selected(
        self, window: tuple[float, float] | None, missing: str
    ) -> tuple[Int[np.ndarray, "kept"], Float[np.ndarray, "masked"]]:
        """Places of the wavelengths that are kept, ascending, and the wavelengths left out.

        Args:
            window: the part of the axis to keep; None: all of it.
            missing: "mask" leaves out wavelengths at which a value is missing.

        Raises:
            SpectraError: too few are left, or a value is missing that must not be.
        """
        axis = self.axis
        inside = np.full(axis.shape, True)
        if window is not None and len(axis) >= FEWEST_WAVELENGTHS:
            low, high = window
            inside = (low <= axis) & (axis <= high)
            if inside.sum() < FEWEST_WAVELENGTHS:
                raise SpectraError(
                    f"window [{low:g}, {high:g}] keeps {inside.sum()} wavelengths, expected at "
                    f"least {FEWEST_WAVELENGTHS}; the axis runs from {axis.min():.10g} to "
                    f"{axis.max():.10g}"
                )
        gaps = np.isnan(self.values).any(axis=0) & inside
        if missing == "refuse" and gaps.any():
            place = int(np.flatnonzero(gaps)[0])
            spectrum = int(np.flatnonzero(np.isnan(self.values[:, place]))[0])
            raise SpectraError(
                f"{self.cell_place(spectrum, place)}: found an empty or NaN cell, expected a "
                "number; fill it in, or take the wavelength out (as spectra.missing: mask does for "
                "a series)"
            )
        kept = inside & ~gaps
        if gaps.any() and kept.sum() < FEWEST_WAVELENGTHS:
            raise SpectraError(
                f"missing cells leave {kept.sum()} of {inside.sum()} wavelengths, "
                f"expected at least {FEWEST_WAVELENGTHS}"
            )
        ascending = np.argsort(axis)
        return ascending[kept[ascending]], np.sort(axis[gaps])

    def cell_place(self, spectrum: int, wavelength: int) -> str:
        """Place of a value, for messages."""
        at, name = self.axis_places[wavelength], self.names[spectrum]
        row, _, column = self.name_places[spectrum].partition(", ")
        if self.columns:
            return f"{at}, column {name!r}"
        if at.startswith("column"):
            at = f"{row}, {at}"
        elif at.startswith("row"):
            at = f"{at}, {column}"
        return f"{at}, spectrum {name!r}"


def some_of(names: Sequence[str]) -> str:
    """The first ten names, and the number of the others."""
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def plain_name(name: str) -> str:
    """A name as names are compared: composed (NFC), each blank a space, none at the ends.

    It is that of a cell, before it was kept from being a formula.
    """
    return unescaped(re.sub(r"\s", " ", unicodedata.normalize("NFC", name)).strip())


def same_name(one: str, other: str) -> bool:
    """True if two names are the same, but for large and small letters."""
    return plain_name(one).lower() == plain_name(other).lower()


def places_called(names: Sequence[str], wanted: str) -> list[int]:
    """Places of the names that are the wanted one, or else are so without their unit."""
    exact = [at for at, name in enumerate(names) if same_name(name, wanted)]
    bare = (re.split(r"[(\[]", name)[0] for name in names)
    return exact or [at for at, name in enumerate(bare) if same_name(name, wanted)]


def joined_amounts(
    samples: list[dict[str, str]], places: list[str], *, is_sure: bool
) -> tuple[Labels, ...]:
    """Amounts of spectra of which each gives its own.

    Args:
        samples: cells by header, of every spectrum.
        places: where each spectrum stands, for messages.
        is_sure: as of `Labels`.
    """
    headers = dict.fromkeys(header for sample in samples for header in sample)
    return tuple(
        Labels(header, [sample.get(header, "") for sample in samples], places, is_sure)
        for header in headers
    )


def joined(sheets: dict[str, Sheet], *, by_title: bool) -> Sheet:
    """The spectra of several files, on one axis.

    Args:
        sheets: contents of each file, by its name.
        by_title: whether spectra have the names in the files, rather than those of their files.

    Raises:
        SpectraError: two files have one name, units differ, or the axes cannot be brought to one.
    """
    (first_file, first), *_ = sheets.items()
    called: dict[str, str] = {}
    one_quantity(sheet.quantity for sheet in sheets.values())
    for file, sheet in sheets.items():
        found, expected = (
            f"{each.signal or 'no YUNITS'} over {each.axis_name} in {each.axis_unit}, "
            f"named by {'TITLE' if each.of_samples else 'CONCENTRATIONS'}"
            if by_title
            else f"an axis in {each.axis_unit}"
            for each in (sheet, first)
        )
        if found.lower() != expected.lower():
            raise SpectraError(f"{file}: found {found}, expected {expected} as in {first_file}")
        if (other := called.setdefault(sheet.names[0], file)) != file and not by_title:
            raise SpectraError(f"found {other} and {file}, expected one file a spectrum")
    require_values(sum(sheet.values.size for sheet in sheets.values()))
    names = [name for sheet in sheets.values() for name in sheet.names]
    places = [place for sheet in sheets.values() for place in sheet.name_places]
    values = [spectrum for sheet in sheets.values() for spectrum in sheet.values]
    axes = [sheet.axis for sheet in sheets.values() for _ in sheet.names]
    axis, common, notes = on_common_axis(axes, values, places)
    about = {file: sheet.understood for file, sheet in sheets.items()}
    understood = replace(
        first.understood,
        format=f"{len(sheets)} files of one spectrum each, {first.understood.format}",
        skipped=tuple(f"{file}: {part}" for file, one in about.items() for part in one.skipped),
        notes=(*dict.fromkeys(note for one in about.values() for note in one.notes), *notes),
    )
    return replace(
        first,
        names=names,
        axis=axis,
        values=common,
        name_places=places,
        axis_places=[f"wavelength {value:.10g}" for value in axis],
        understood=understood,
        concentration_unit=None,
        columns=False,
        amounts=joined_amounts(
            [
                {one.header: one.cells[at] for one in sheet.amounts}
                for sheet in sheets.values()
                for at in range(len(sheet.names))
            ],
            places,
            is_sure=any(one.is_sure for sheet in sheets.values() for one in sheet.amounts),
        ),
    )


Decimal = Literal[".", ","]
"""Decimal mark."""

Row = tuple[int, list[str]]
"""Number of a row, counted from 1 as an editor shows it, and its cells."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of a table, before it is known which way its spectra run.

    Raises:
        SpectraError: a header or a first cell is too long.
    """

    headings: list[Row]
    """Rows of the header from top to bottom, at least one; the last is `header`."""
    rows: list[Row]
    """Rows below them, all equally wide."""
    decimal: Decimal
    """Decimal mark of all columns but the first, which has points."""
    understood: Understood
    """Reading of the file."""
    signal: str | None = None
    """Quantity measured, by the header; None if it names none."""
    preamble: tuple[str, ...] = ()
    """Lines above the table."""
    across: bool = False
    """True where the header is known to be an axis, beside columns about samples."""

    def __post_init__(self) -> None:
        _require_short([*(cell for _, cells in self.headings for cell in cells), *self.column(0)])

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

    def place(self, column: int) -> str:
        """Place of a cell of the header, for messages; columns count from 1."""
        return f"row {self.header_row}, column {column}"

    def column(self, column: int) -> list[str]:
        """Texts of one column."""
        return [cells[column] for _, cells in self.rows]

    def only(self, columns: Sequence[int], skipped: str) -> "Cells":
        """Some of its columns, and a remark for people on what is left out."""
        above, below = (
            [(row, [cells[at] for at in columns]) for row, cells in part]
            for part in (self.headings, self.rows)
        )
        understood = self.understood.also(skipped=(skipped,))
        return replace(self, headings=above, rows=below, understood=understood)

    def numbers(self, columns: Sequence[int]) -> Float[np.ndarray, "row column"]:
        """Numbers of some columns, NaN where a cell is empty.

        Raises:
            SpectraError: a cell is text, or infinite.
        """
        numbers = np.empty((len(self.rows), len(columns)))
        for place, (row, cells) in enumerate(self.rows):
            numbers[place] = [self._number(row, at, cells[at]) for at in columns]
        return numbers

    def _number(self, row: int, column: int, cell: str) -> float:
        number = to_number(cell, self.decimal if column else ".")
        if number is None and cell.lower() in EMPTY:
            return np.nan
        if number is not None and not np.isinf(number):
            return number
        mark = "point" if self.decimal == "." else "comma"
        expected = f"number with a decimal {mark}" if number is None else "finite number"
        is_grouped = re.fullmatch(r"[+-]?[0-9][0-9.,' \u00a0\u202f]*", cell)
        empty = "; empty the cell if nothing was measured"
        expected += ", without marks of thousands" if is_grouped else empty
        if OVERFLOW.fullmatch(cell):
            expected = "measured number: the detector was at its end; empty the cell, and take its "
            expected += "wavelength out (spectra.missing: mask) or dilute the sample"
        raise unexpected(f"row {row}, column {self.header[column]!r}", cell, f"a {expected}")


def to_number(text: str, decimal: Decimal | None = ".") -> float | None:
    """The number that a cell is, by either mark if none is given.

    None if it is none, as `1_000`, which `float` takes.
    """
    text = text.replace(MINUS, "-")
    if len(text) > LONGEST_NAME or "_" in text or not text.isascii():
        return None
    if decimal == "," or (decimal is None and "," in text):
        if "." in text or text.endswith(","):
            return None
        text = text.replace(",", ".")
    try:
        return float(text)
    except ValueError:
        return None


def is_one_way(numbers: Sequence[float] | Float[np.ndarray, "number"]) -> bool:
    """True if numbers ascend or descend throughout."""
    steps = np.diff(numbers)
    return bool((steps > 0).all() or (steps < 0).all())


def is_word(cell: str) -> bool:
    """True if a cell is a word that stands in place of no number."""
    is_number = OVERFLOW.fullmatch(cell) or cell.lower() in EMPTY or to_number(cell) is not None
    return cell[:1].isalpha() and not is_number


def _require_short(names: list[str]) -> None:
    longest = max(names, key=len, default="")
    require_at_most(LONGEST_NAME, len(longest), f"characters in a name, {longest[:40]!r}...")


def _require_order(axis: Float[np.ndarray, "wavelength"], places: list[str]) -> None:
    """Refuse an axis that is not finite, repeats a value or changes direction."""
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
