"""Texts of estimates and of the cells of tables.

Concentrations have `DIGITS` significant digits and no exponent.
"""

import csv
import io
from collections.abc import Iterable, Sequence

import numpy as np

from geonode.spectra.table import shortest
from geonode.storage.document import cell

CELL_DIGITS = 6

Cell = str | float | bool | None
"""Cell of a table; None: there is no value."""


def alternatives_text(alternatives: Sequence[float], digits: int = CELL_DIGITS) -> str:
    """Concentrations that are as likely, as "18.3 or 41.7"; empty for one alone."""
    if len(alternatives) < 2:
        return ""
    return " or ".join(plain_number(one, digits) for one in alternatives)


def csv_text(columns: Iterable[str], rows: Iterable[Iterable[Cell]]) -> str:
    """CSV text of a table, whose texts are no formulas and whose numbers have `DIGITS` digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([cell(column) for column in columns])
    writer.writerows([cell_text(one) for one in row] for row in rows)
    return text.getvalue()


def cell_text(one: Cell) -> str:
    """Text of a cell: no formula, and numbers of `DIGITS` digits."""
    if one is None:
        return ""
    if isinstance(one, bool):
        return str(one).lower()
    return cell(one) if isinstance(one, str) else plain_number(one)


def plain_number(number: float, digits: int = CELL_DIGITS) -> str:
    """A number of some significant digits, without an exponent."""
    return shortest(np.float64(f"{number:.{digits}g}"))
