"""Tables: columns with units and digits, as CSV, as records and as lines on a terminal.

Workbooks and pages are made of the same object. Its CSV has no text that a spreadsheet would take
for a formula.
"""

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from geonode.terminal import aligned

Cell = str | float | int | Sequence[Sequence[float]] | None
"""Cell of a table: a text, a number, a truth, or ends of intervals; None: there is no value."""

SHOWN = 4
"""Most significant digits of a number where people read it: on a terminal and on a page."""

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


@dataclass(frozen=True, eq=False)
class Column:
    """Column of a table."""

    name: str
    values: Sequence[Cell] | np.ndarray
    """Cells, or numbers of an array with one axis."""
    unit: str = "1"
    """Unit of the numbers; "1" for none."""
    digits: int | None = 6
    """Significant digits of numbers in a file; None: as many as give the same number back."""
    exponent: bool = False
    """True where numbers in a file may have one."""
    group: str = ""
    """Subject of the column, where a table has the same columns of several things."""

    @property
    def title(self) -> str:
        """Header: the name with the unit."""
        return self.name if self.unit == "1" else f"{self.name} ({self.unit})"

    @cached_property
    def cells(self) -> list[Cell]:
        """The values as plain objects."""
        return self.values.tolist() if isinstance(self.values, np.ndarray) else [*self.values]

    @property
    def is_numeric(self) -> bool:
        """True if it has numbers alone, none of which is NaN."""
        if not isinstance(self.values, np.ndarray) or self.values.dtype.kind != "f":
            return False
        return not np.isnan(self.values).any()

    def texts(self, most: int | None = None) -> list[str]:
        """Texts of the cells, with at most `most` digits if it is given."""
        digits = self.digits if most is None else min(self.digits or most, most)
        if self.is_numeric and self.exponent and digits:  # of large files
            form = f"%.{digits}g"
            return [form % one for one in self.cells]
        return [cell_text(one, digits, exponent=self.exponent) for one in self.cells]


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length, with a name and a title."""

    name: str
    """Name of its file and sheet."""
    title: str
    """Title above it."""
    columns: Sequence[Column]
    marked: frozenset[int] = frozenset()
    """Indices of highlighted rows."""
    is_facts: bool = False
    """True where it is a list of facts, which needs no headers where people read it."""

    @classmethod
    def of_facts(cls, name: str, facts: Iterable[tuple[str, Cell]]) -> "Table":
        """A list of facts: what each is about, and its value."""
        what, values = zip(*facts, strict=True)
        return cls(name, "", [Column("what", what), Column("value", values)], is_facts=True)

    @property
    def rows(self) -> list[tuple[Cell, ...]]:
        """Cells by row."""
        return [*zip(*(one.cells for one in self.columns), strict=True)]

    def csv(self, *, header: bool = True) -> str:
        """CSV text; truths are true and false, values that are not there are empty."""
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        if header:
            writer.writerow([without_formula(one.title) for one in self.columns])
        texts = ((one.is_numeric, one.texts()) for one in self.columns)
        safe = (found if numeric else map(without_formula, found) for numeric, found in texts)
        writer.writerows(zip(*safe, strict=True))
        return stream.getvalue()

    def records(self) -> list[dict[str, Any]]:
        """Rows as cells by header."""
        titles = [one.title for one in self.columns]
        return [dict(zip(titles, row, strict=True)) for row in self.rows]

    def lines(self, most: int | None = None, others: str = "", digits: int = SHOWN) -> list[str]:
        """Aligned lines for a terminal: the headers and the rows, at most some.

        Args:
            most: number of rows; None: all.
            others: where the others are.
            digits: most significant digits of numbers.
        """
        rows = [*zip(*(one.texts(digits) for one in self.columns), strict=True)]
        lines = aligned([[one.title for one in self.columns], *rows[:most]])
        left = len(rows) - len(rows[:most])
        return [*lines, f"and {left} more; {others}"] if left else lines

    def only(self, *names: str) -> "Table":
        """The table with some of its columns, by their names."""
        return replace(self, columns=[one for one in self.columns if one.name in names])

    def parts(self) -> list["Table"]:
        """Narrower tables: each has the columns without a group, and those of one group."""
        parts = []
        for group in dict.fromkeys(one.group for one in self.columns if one.group):
            columns = [one for one in self.columns if one.group in ("", group)]
            parts.append(replace(self, title=f"{self.title}: {group}", columns=columns))
        return parts


@lru_cache(maxsize=4096)
def without_formula(text: str) -> str:
    """CSV cell of a text that no spreadsheet interprets as a formula; numbers stay as they are.

    Texts that begin like a formula get an apostrophe: OWASP, CSV Injection. A carriage return would
    begin another row, unquoted as `csv` writes it; it becomes a line feed.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text.lstrip("'").startswith(_FORMULA_STARTS):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


def unescaped(text: str) -> str:
    """Text of which `without_formula` makes this one; any other text as it is."""
    inner = text.removeprefix("'")
    return inner if without_formula(inner) == text else text


def shortest(number: float) -> str:
    """The shortest decimal text that reads back as exactly this number."""
    return np.format_float_positional(number, trim="-")


def number_text(number: float, digits: int | None = 6, *, exponent: bool = False) -> str:
    """A number with some significant digits, or with all of them; NaN is empty.

    Args:
        number: the number.
        digits: significant digits; None: as many as give the same number back.
        exponent: whether it may have one.
    """
    if math.isnan(number):
        return ""
    if exponent:
        return repr(number) if digits is None else f"{number:.{digits}g}"
    return shortest(number if digits is None else float(f"{number:.{digits}g}"))


def cell_text(value: Cell, digits: int | None = 6, *, exponent: bool = False) -> str:
    """Text of a cell; intervals are "1 to 2; 5 to 6"."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int):
        return str(value).lower()
    if isinstance(value, float):
        return number_text(value, digits, exponent=exponent)
    return "; ".join(" to ".join(number_text(end, digits) for end in one) for one in value)
