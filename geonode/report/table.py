"""Tables: the same cells for CSV, for a workbook and for a page."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Cell = str | float | bool | None
"""Cell of a table; None: there is no value."""

Columns = list[tuple[str, Any]]
"""Headers, each with its numbers: an array, or a list of cells."""


@dataclass(frozen=True)
class Table:
    """Table of a page, of a file and of a workbook.

    Attributes:
        name: name of its file and sheet.
        title: what it says.
        columns: headers with units; empty for a list of facts.
        rows: cells, the first of a row its header; None: there is no value.
        marked: indices of highlighted rows.
    """

    name: str
    title: str
    columns: Sequence[str]
    rows: list[list[Cell]]
    marked: frozenset[int] = frozenset()

    @classmethod
    def of_columns(cls, name: str, title: str, columns: Columns) -> "Table":
        """A table of columns of equal length."""
        headers, values = zip(*columns, strict=True)
        listed = (one.tolist() if isinstance(one, np.ndarray) else one for one in values)
        return cls(name, title, headers, [list(row) for row in zip(*listed, strict=True)])
