"""Where the table stands within the rows of a file, what its header is, and what is around it.

Instruments write text before and after their tables. Rows are told apart by what they look like.
Nothing that looks like a row of numbers is ever left out: if such a row stands outside of the
table, the file is read as if all of it were one, and is then refused for the row that does not fit.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from geonode.errors import SpectraError
from geonode.spectra.headers import UNITS, role
from geonode.spectra.sheet import Decimal, Grid, Row, Understood, to_number

Kind = Literal["data", "paired", "lone", "named", "number", "text", "blank"]
"""Kind of a row: numbers throughout, or in every second cell, or in the first one before empty
ones, numbers behind a name, a single number, no numbers, nothing."""

FEWEST_ROWS = 3
"""Successive rows that make a body."""

_NUMBER = r"[+-]?(?:[0-9]+(?:[.,][0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_DATA = re.compile(rf'[ "]*{_NUMBER}"?(?:[ ]*[,;\t|]|\s+[-+.,0-9])')
_NUMBER_FIRST = re.compile(r'[ "]*[+-]?\.?[0-9]')
_PARTS = re.compile(r'[,;\t| "]+')
_SOME_EMPTY = re.compile(r"([,;\t|])[ \"]*(?:\1|\s*$)")


class TablePlace(NamedTuple):
    """Where a table stands among the rows of a file.

    Attributes:
        top: first row that may belong to its header.
        start: first row of its body.
        end: row behind its last one.
    """

    top: int
    start: int
    end: int


def kind_of_line(line: str) -> Kind:
    """Kind of a line of text, whatever separates its cells."""
    if not line.strip(' \t\r\n,;|"'):
        return "blank"
    if _DATA.match(line):
        return _kind_of_data(re.split(r"[,;\t|]", line)) if _SOME_EMPTY.search(line) else "data"
    parts = [part for part in _PARTS.split(line.strip()) if part]
    if _NUMBER_FIRST.match(line):
        return "data" if _ends_in_numbers(parts) else "number"
    return _kind_of_named(parts, named=line.lstrip(" ")[0] not in ",;\t|")


def kind_of_cells(cells: Sequence[str]) -> Kind:
    """Kind of a row of cells."""
    filled = [cell for cell in cells if cell]
    if not filled:
        return "blank"
    if cells[0] and to_number(cells[0]) is not None:
        return _kind_of_data(cells) if len(filled) > 1 else "number"
    return _kind_of_named(filled, named=bool(cells[0]))


def _kind_of_data(cells: Sequence[str]) -> Kind:
    """Kind of a row of numbers; every second cell is empty above two columns a spectrum."""
    found = trimmed([cell.strip(' "\r\n') for cell in cells])
    if len(found) == 1:
        return "lone"
    return "paired" if len(found) > 4 and all(found[::2]) and not any(found[1::2]) else "data"


def _kind_of_named(parts: list[str], *, named: bool) -> Kind:
    """Kind of a row that does not begin with a number; without a name its axis has ended."""
    alone = not named and all(to_number(part) is not None for part in parts)
    return "named" if alone or _ends_in_numbers(parts) else "text"


def _ends_in_numbers(parts: list[str]) -> bool:
    return len(parts) > 2 and all(to_number(part) is not None for part in parts[-2:])


def find_table(kinds: Sequence[Kind]) -> TablePlace | None:
    """Where the table stands among rows of some kinds; None if that is not clear."""
    # Numbers that name samples stand above the names of their axes, and again behind the table.
    settled: list[Kind] = []
    rows, ended = 0, False
    for kind, following in zip(kinds, [*kinds[1:], "blank"], strict=True):
        rows += kind == "data"
        ended = ended or (kind == "blank" and rows >= FEWEST_ROWS)
        as_data: Kind = "named" if kind == "paired" and following == "text" else "data"
        names: Kind = "number" if kind == "lone" and ended else as_data
        settled.append(names if kind in ("paired", "lone") else kind)
    kinds = settled
    body: Kind = "data" if _run(kinds, "data") is not None else "named"
    start = _run(kinds, body)
    others = {"data"} if body == "data" else {"data", "named"}
    if start is None or others & set(kinds[:start]):
        return None
    top = start
    if kinds[max(0, start - 2) : start] == ["text", "blank"]:
        top -= 1  # a blank row below the header
    while top and kinds[top - 1] in ("text", "named", "number"):
        top -= 1
    end = max(place for place, kind in enumerate(kinds) if kind == body) + 1
    # What follows directly and begins or ends like the body is a damaged row of it.
    while end < len(kinds) and kinds[end] in ("named", "number", "data"):
        end += 1
    if body == "named" and kinds[end : end + 1] == ["text"]:
        end += 1
    behind = [kind for kind in kinds[end:] if kind != "blank"]
    # A block of its own below a title is another table, unless its rows look like those of this.
    is_apart = body == "data" and kinds[end : end + 1] == ["blank"] and behind[:1] == ["text"]
    if ({"data"} if is_apart else {"data", "named"}) & {*behind}:
        end = len(kinds)
    return TablePlace(top, start, end)


def _run(kinds: Sequence[Kind], body: Kind) -> int | None:
    """Where the first run of rows of one kind begins."""
    runs = range(len(kinds) - FEWEST_ROWS + 1)
    return next((at for at in runs if {*kinds[at : at + FEWEST_ROWS]} == {body}), None)


def names_columns(above: list[Row], first: int, width: int) -> bool:
    """Whether the last of the rows above a body may be its header, and not text around it.

    Above two columns stands the name of an axis, or a row unlike the one above it that gives no
    value to a key, as `User: x` does.

    Args:
        above: rows, their cells up to the last one that is not empty.
        first: number of the first row of the body.
        width: number of columns of the body.

    Raises:
        SpectraError: it looks like a damaged row of the body.
    """
    number, cells = above[-1]
    numbers = [to_number(cell) is not None for cell in cells]
    damaged = len(cells) == 2 == width and cells[0][:1].isdigit() and numbers[1]
    if number + 1 == first and (numbers == [True] or damaged):
        raise SpectraError(
            f"row {number}: found {' '.join(cells)[:40]!r} right above the numbers, expected "
            f"{width} numbers, or a header; mend the row or remove it"
        )
    if width > 2:
        return len(cells) >= width - 1
    if len(cells) != 2:
        return False
    is_key = "=" in cells[0] or cells[0].endswith(":") or numbers[1]
    return role(cells[0]) == "axis" or not (is_key or any(len(row) == 2 for _, row in above[:-1]))


def grid_of(
    rows: list[Row],
    candidates: int,
    decimal: Decimal,
    understood: Understood,
    *,
    even: bool,
    preamble: tuple[str, ...] = (),
) -> Grid:
    """The table that rows of cells are.

    Args:
        rows: number and cells of each row, none blank.
        candidates: how many of them, at the top, may be its header.
        decimal: decimal mark.
        understood: what is known of the file.
        even: whether a row must have all its cells, or ends with its last filled one.
        preamble: lines above the header.

    Raises:
        SpectraError: a row has more cells than the header, or fewer where it must have all.
    """
    rows = _without_empty_columns(rows)
    bare = candidates == 1 and is_pair_of_numbers(rows[0][1], decimal)
    if bare:  # two columns of numbers say enough by themselves
        rows = [(rows[0][0], ["axis", ""]), *rows]
    top = candidates - _header_height([cells for _, cells in rows[:candidates]])
    left, header, body = rows[:top], rows[top:candidates], rows[candidates:]
    width = 2 if bare else len(trimmed(header[-1][1])) or 1
    longer = bool(body) and all(len(trimmed(cells)) == width + 1 for _, cells in body)
    if longer and counts_rows([cells[0] for _, cells in body]):
        header, width = [(number, ["", *cells]) for number, cells in header], width + 1
    for number, cells in body:
        found = len(trimmed(cells)) if len(cells) > width else len(cells)
        if found > width or (even and len(cells) < width):
            missing = "; add the name of the first column if it has none, as R writes tables"
            raise SpectraError(
                f"row {number}: found {found} cells, expected {width} as in the header"
                + (missing if longer else "")
            )
    said = (rows_said([number for number, _ in left], "above the table"),) if left else ()
    header_rows = () if bare else tuple(number for number, _ in header)
    understood = replace(understood, skipped=said + understood.skipped, header_rows=header_rows)
    above, below = (
        [(number, (cells + [""] * width)[:width]) for number, cells in part]
        for part in (header, body)
    )
    return Grid(above, below, decimal, understood, preamble=preamble)


def is_pair_of_numbers(cells: Sequence[str], decimal: Decimal) -> bool:
    """Whether a row is two numbers."""
    found = [to_number(cell, mark) for cell, mark in zip(cells, (".", decimal), strict=False)]
    return len(cells) == 2 and None not in found


def _without_empty_columns(rows: list[Row]) -> list[Row]:
    """Rows without the columns that are empty in all of them."""
    width = max((len(cells) for _, cells in rows), default=0)
    filled = [any(cells[at] for _, cells in rows if at < len(cells)) for at in range(width)]
    if all(filled):
        return rows
    return [
        (row, [cell for cell, is_filled in zip(cells, filled, strict=False) if is_filled])
        for row, cells in rows
    ]


def counts_rows(cells: Sequence[str]) -> bool:
    """Whether cells count the rows of a table, from 0 or 1 on."""
    counted = [to_number(cell) for cell in cells]
    return counted in ([*range(len(counted))], [*range(1, len(counted) + 1)])


def _header_height(rows: Sequence[Sequence[str]]) -> int:
    """Number of rows above a body that are its header, counted from the last one up.

    A row belongs to it if all of its cells but one are filled, or every second one. Of two columns,
    the row above the last one belongs to it if the last one has a unit of the axis.
    """
    width, height = len(trimmed(rows[-1])), 1
    for row in reversed(rows[:-1]):
        cells = trimmed(row)
        filled = sum(map(bool, cells))
        pairs = width > 3 and len(cells) >= width - 1 and (all(cells[::2]) or all(cells[1::2]))
        units = width > 2 or rows[-1][0].strip("()[]").lower() in UNITS
        if len(cells) > width or not units or (filled < max(2, width - 1) and not pairs):
            break
        height += 1
    return height


def trimmed(row: Sequence[str]) -> list[str]:
    """Cells up to the last one that is not empty."""
    end = len(row)
    while end and not row[end - 1]:
        end -= 1
    return list(row[:end])


def rows_said(numbers: Sequence[int], where: str) -> str:
    """Rows for people."""
    if len(numbers) == 1:
        return f"row {numbers[0]} ({where})"
    return f"rows {numbers[0]} to {numbers[-1]} ({where})"
