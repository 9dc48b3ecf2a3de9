"""Place of the table within the rows of a file, its header, and what is around it.

Instruments write text before and after their tables. Rows are distinguished by what they look like.
Nothing that looks like a row of numbers is ever left out: if such a row stands outside of the
table, the file is read as if all of it were one, and is then refused for the row that does not fit.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, zip_longest
from typing import Literal, NamedTuple

from geonode.errors import SpectraError
from geonode.reading.headers import CONCENTRATION_UNIT, axis_unit, level, role, with_point
from geonode.reading.sheet import Cells, Decimal, Row, Understood, is_word, to_number

Kind = Literal["data", "paired", "lone", "named", "number", "text", "blank"]
"""Kind of a row: numbers throughout, or in every second cell, or in the first one before empty
ones, numbers behind a name, a single number, no numbers, nothing."""

FEWEST_ROWS = 3
"""Successive rows that make a body."""

FIRST_ROWS = 20
"""Rows of a body from which its number of columns is known, and what parts them."""

_MARKS = re.compile(r'[,;\t| "]+')


class Place(NamedTuple):
    """The rows of a table among those of a file."""

    header: list[Row]
    """Rows that may belong to its header, the last of which does; none where it has none."""
    body: list[Row]
    """Rows below them, of which some may be blank."""
    is_clear: bool
    """True where it is clear that they are the table, or else they are all rows."""

    @property
    def table(self) -> list[Row]:
        """The last row of the header, and the rows below it."""
        return [row for row in (*self.header[-1:], *self.body) if row[1]]

    @classmethod
    def of(cls, rows: Sequence[Row], mark: str, *, of_names: bool = False) -> "Place":
        """The table among rows that a mark parts, all of them if it is not clear where it is.

        Raises:
            SpectraError: the row above the numbers looks like a damaged one of them.
        """
        filled = [at for at, (_, cells) in enumerate(rows) if cells]
        rows = rows[filled[0] : filled[-1] + 1] if filled else []
        if of_names:
            rows = units_joined(rows, fewest=0)
            top, end = _ends_of_names(rows)
            return cls(rows[top : top + 1], rows[top + 1 : end], True)
        found = _ends_of([_kind_of_row(cells, mark) for _, cells in rows])
        if found is None:
            return cls(list(rows[:1]), list(rows[1:]), False)
        top, start, end = found
        body = list(rows[start:end])
        header = [row for row in rows[top:start] if row[1]]
        width = len(trimmed(body[0][1])) - 1
        header[-2:] = [_completed(row, header[-2:], width) for row in header[-2:]]
        if not _names_columns(header[-2:], body):
            header = _above_keys(header, body)
        return cls(header, body, True)


def _ends_of_names(rows: Sequence[Row]) -> tuple[int, int]:
    """Place of the row of words above names and amounts, and the end of these above any notes."""
    # The row names concentrations, or stands behind a title and the last blank row.
    amounts = [any(level(with_point(cell)) for cell in cells) for _, cells in rows]
    last = max((at for at, is_one in enumerate(amounts) if is_one), default=0)
    blank = max((at for at in range(last) if not rows[at][1]), default=-1)
    words = [at for at in range(last) if not amounts[at] and sum(map(bool, rows[at][1])) > 1]
    near = [at for at in words if at > blank]
    called = [at for at in near if "concentration" in map(role, rows[at][1])]
    top = [*called[::-1], *near, *words, 0][0]
    end = next((at for at in range(last, len(rows)) if not rows[at][1]), len(rows))
    return top, end


def _kind_of_row(cells: Sequence[str], mark: str) -> Kind:
    """Kind of a row of cells that a mark parts."""
    filled = [cell for cell in cells if cell]
    if not filled:
        return "blank"
    # Between blanks a number may begin a sentence.
    sentence = mark == " " and cells[1:] and cells[1][:1] not in "+-.,0123456789"
    if _is_number(cells[0]) and not sentence:
        if len(filled) == 1:
            return "lone" if len(cells) > 1 else "number"
        above = trimmed(cells)
        paired = len(above) > 4 and all(above[::2]) and not any(above[1::2])
        return "paired" if paired else "data"
    # Whatever else may part it: rows of another table are not text around this one.
    parts = [part for part in _MARKS.split(" ".join(cells)) if part]
    if cells[0] and len(parts) > 1 and all(map(_is_number, parts)):
        return "data"
    numbers = sum(map(_is_number, filled))
    mostly = numbers >= FEWEST_ROWS and 2 * numbers > len(filled)
    ends_in_numbers = mostly or (len(parts) > 2 and all(map(_is_number, parts[-2:])))
    if cells[0][:1].isdigit():
        return "data" if ends_in_numbers else "number"
    # Where an axis has ended before its neighbours, numbers stand without a name.
    alone = not cells[0] and all(map(_is_number, filled))
    is_key = cells[0] and len(filled) == 2 and mark not in " ," and _is_number(filled[1])
    named: Kind = "number" if is_key else "named"  # as of a decimal comma
    return named if alone or ends_in_numbers else "text"


def units_joined(rows: Sequence[Row], fewest: int = FEWEST_ROWS) -> list[Row]:
    """Rows of which that of units below a header, with as many numbers of an axis, is joined to it.

    Below these numbers stand units of an axis alone.
    """
    for at, ((number, names), (_, units)) in enumerate(pairwise(rows)):
        if not _is_unit(next(filter(None, units), "")):
            continue
        each = list(zip_longest(names, units, fillvalue=""))
        are_units = (
            not unit or (axis_unit if _is_number(name) else _is_unit)(unit) for name, unit in each
        )
        if sum(map(_is_number, names)) >= fewest and all(are_units):
            bare = ((name, unit.strip("()[]")) for name, unit in each)
            joined = [f"{name} ({unit})" if name and unit else name or unit for name, unit in bare]
            return [*rows[:at], (number, joined), *rows[at + 2 :]]
    return list(rows)


def _is_unit(cell: str) -> bool:
    """True where a cell is a unit of an axis or of concentrations, in brackets or not."""
    return bool(axis_unit(cell) or re.fullmatch(CONCENTRATION_UNIT, cell.strip("()[]")))


def _is_number(cell: str) -> bool:
    """True where a cell is a number with a decimal point or comma."""
    return to_number(cell, None) is not None


def _ends_of(kinds: Sequence[Kind]) -> tuple[int, int, int] | None:
    """First row of what may be a header, first of the body, and the end; None if not clear."""
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
    return top, start, end


def _run(kinds: Sequence[Kind], body: Kind) -> int | None:
    """Begin of the first run of rows of one kind."""
    runs = range(len(kinds) - FEWEST_ROWS + 1)
    return next((at for at in runs if {*kinds[at : at + FEWEST_ROWS]} == {body}), None)


def _names_columns(above: list[Row], body: list[Row]) -> bool:
    """True if the last of the rows above a body may be its header; a damaged row is refused."""
    if not above:
        return False
    (width, _), *_ = Counter(len(trimmed(cells)) for _, cells in body[:FIRST_ROWS]).most_common()
    number, cells = above[-1][0], trimmed(above[-1][1])
    numbers = [_is_number(cell) for cell in cells]
    damaged = len(cells) == 2 == width and cells[0][:1].isdigit() and numbers[1]
    if number + 1 == body[0][0] and width > 1 and (numbers == [True] or damaged):
        raise SpectraError(
            f"row {number}: found {' '.join(cells)[:40]!r} right above the numbers, expected "
            f"{width} numbers, or a header; mend the row or remove it"
        )
    if width > 2:
        return len(cells) >= width - 1
    if len(cells) != 2:
        return False
    # Above two columns stands the name of an axis, or a row unlike the one above it that gives no
    # value to a key, as `User: x` does.
    is_key = "=" in cells[0] or cells[0].endswith(":") or numbers[1]
    alike = any(len(trimmed(row)) == 2 for _, row in above[:-1])
    return role(cells[0]) == "axis" or not (is_key or alike)


def _completed(row: Row, header: list[Row], width: int) -> Row:
    """A row of a header with a concentration, or a mark in place of one, above every spectrum.

    A concentration above the first of as many columns each is of all of them, unless these have
    names of their own. Marks are put into a row that is called concentration. It is refused above
    numbers, which would be taken for concentrations.
    """
    number, (corner, *cells) = row
    filled = [at for at, cell in enumerate(cells) if cell]
    if not filled or not all(level(with_point(cells[at])) for at in filled):
        return row
    names = [one[1:] for _, one in header if len({*filter(None, one[1:])}) == width]
    size, is_above = width // len(filled), not corner or role(corner) in ("axis", "concentration")
    is_even = 1 < size < width and filled == [*range(0, width, size)]
    if is_even and is_above and all(map(counts_rows, names)):
        marks = ["", *(f"__r{scan}" for scan in range(2, size + 1))]
        found = [f"{cells[at]}{mark}" for at in filled for mark in marks]
    elif role(corner) == "concentration" and not level(corner):
        found = [cell or "-" for cell in cells[:width]] + ["-"] * (width - len(cells))
    elif is_above and filled[-1] >= len(filled) and any(all(map(_is_number, one)) for one in names):
        raise SpectraError(
            f"row {number}: found concentrations above {len(filled)} of {width} columns, expected "
            "one above every spectrum"
        )
    else:
        return row
    return number, [corner, *found, *cells[width:]]


def _above_keys(above: list[Row], body: list[Row]) -> list[Row]:
    """The rows down to a full header above keys with values, or above labels of some columns."""
    inside = filled_columns(body)
    if len(inside) < 3 or not _is_number(body[0][1][0] or "0"):
        return []
    for last in reversed(range(len(above))):
        number, cells = above[last]
        filled = [at for at, cell in enumerate(cells) if cell]
        apart = {*inside}.isdisjoint(filled_columns(above[last + 1 :]))
        is_header = apart or "axis" in [role(cells[0]) for _, cells in above[last:]]
        if filled[-1] == inside[-1] and {*inside[1:]} <= {*filled} and is_header:
            kept = [cell if at in inside else "" for at, cell in enumerate(cells)]
            return [*above[:last], (number, kept)]
        units = len(filled) > 1 and any(role(cell) in ("axis", "concentration") for cell in cells)
        if len(filled) >= len(inside) or units:
            break
    return []


def grid_of(
    rows: list[Row],
    place: Place,
    decimal: Decimal,
    understood: Understood,
    *,
    even: bool = False,
    comments: Sequence[Row] = (),
    mark: str = "\t",
) -> Cells:
    """The table among the rows of a file.

    Args:
        rows: number and cells of each row.
        place: that of the table among them.
        decimal: decimal mark.
        understood: what is known of the file.
        even: whether a row must have all its cells, or ends with its last filled one.
        comments: rows marked as comments; the last one above a table without a header is its
            header, as NumPy writes it.
        mark: what parts the cells.

    Raises:
        SpectraError: a row is blank above another, has more cells than the header, or fewer where
            it must have all.
    """
    header, body, _ = place
    around = sorted([*rows, *comments])
    before = [row for row in around if body and row[0] < body[0][0] and row[1]]
    if not header and before and before[-1] in comments:
        numbers_first = _kind_of_row(body[0][1], mark) == "data"
        header = before[-1:] if numbers_first and _names_columns(before[-1:], body) else []
    if not header:  # of names and numbers without a row above them, the first is the header
        header, body = body[:1], body[1:]
    blank = next((number for number, cells in body if not cells), None)
    if blank is not None:
        raise SpectraError(
            f"row {blank}: found a blank row above data; remove it, or export one block of rows "
            "alone"
        )
    kept, height = filled_columns([*header, *body]), len(header)
    inside = [(row, [cells[at] for at in kept if at < len(cells)]) for row, cells in header + body]
    header, body = inside[:height], inside[height:]
    numbers = len(header) == 1 and all(map(_is_number, header[0][1]))
    channels = _channels(before) if numbers else []
    bare = numbers and len(header[0][1]) in (2, len(channels) + 1)
    if bare:  # two columns of numbers say enough by themselves, and so do channels
        names = channels if len(header[0][1]) > 2 else [""]
        header, body = [(header[0][0], ["axis", *names])], [*header, *body]
    above = header[: -_header_height([cells for _, cells in header])]
    header = header[len(above) :]
    beside = trimmed(above[-1][1]) if above else []
    if len(beside) == 1 and role(beside[0]) == "axis" and not header[0][1][0]:
        header[0] = (header[0][0], [*beside, *header[0][1][1:]])
    width = len(header[-1][1]) if bare else len(trimmed(header[-1][1])) or 1
    longer = bool(body) and all(len(trimmed(cells)) == width + 1 for _, cells in body)
    if longer and counts_rows([cells[0] for _, cells in body]):
        header, width = [(number, ["", *cells]) for number, cells in header], width + 1
    body, remarks = _without_words_behind(body, width)
    for number, cells in body:
        found = len(trimmed(cells)) if len(cells) > width else len(cells)
        if found > width or (even and found < width):
            missing = "; add the name of the first column if it has none, as R writes tables"
            raise SpectraError(
                f"row {number}: found {found} cells, expected {width} as in the header"
                + (missing if longer else "")
            )
    header_rows = () if bare else tuple(number for number, _ in header)
    outside = _around(around, {*header_rows, *(number for number, _ in body)})
    if decimal == ",":
        header = [(number, [with_point(cell) for cell in cells]) for number, cells in header]
        body = [(number, [with_point(cells[0]), *cells[1:]]) for number, cells in body]
    above, below = (
        [(number, (cells + [""] * width)[:width]) for number, cells in part]
        for part in (header, body)
    )
    skipped = (*understood.skipped, *outside, *remarks)
    understood = replace(understood, skipped=skipped, header_rows=header_rows)
    preamble = tuple(mark.join(cells) for _, cells in before)
    return Cells(above, below, decimal, understood, preamble=preamble)


def _without_words_behind(body: list[Row], width: int) -> tuple[list[Row], tuple[str, ...]]:
    """Rows without words behind the last column of the header, and where these are."""
    behind = {number: [cell for cell in cells[width:] if cell] for number, cells in body}
    noted = [str(number) for number, cells in behind.items() if cells]
    if not noted or not all(is_word(cell) for cells in behind.values() for cell in cells):
        return body, ()
    remarks = f"remarks behind the table, in rows {', '.join(noted[:10])}"
    return [(number, cells[:width]) for number, cells in body], (remarks,)


def _channels(before: Sequence[Row]) -> list[str]:
    """Names of the channels that the text above numbers lists, as Jasco instruments do."""
    if not before or trimmed(before[-1][1]) != ["XYDATA"]:
        return []
    units = {cells[0].upper(): cells[1] for _, cells in before if len(cells) > 1}
    return [units[key] or key for key in ("YUNITS", "Y2UNITS", "Y3UNITS") if key in units]


def _around(rows: Sequence[Row], inside: set[int]) -> tuple[str, ...]:
    """Rows in order that are no part of the table, for people."""
    parts: dict[str, list[int]] = {"above the table": [], "comments": [], "below the table": []}
    for number, cells in rows:
        if number not in inside and any(cells):
            within = "comments" if number < max(inside) else "below the table"
            parts["above the table" if number < min(inside) else within].append(number)
    return tuple(
        f"row{f's {found[0]} to' if len(found) > 1 else ''} {found[-1]} ({where})"
        for where, found in parts.items()
        if found
    )


def filled_columns(rows: Sequence[Row]) -> list[int]:
    """Columns that are not empty in all rows."""
    width = max((len(cells) for _, cells in rows), default=0)
    return [at for at in range(width) if any(cells[at] for _, cells in rows if at < len(cells))]


def without_notes_beside(rows: list[Row]) -> tuple[list[Row], tuple[str, ...]]:
    """Rows of a sheet without notes right of its table and of an empty column, and their places."""
    columns = filled_columns(rows)
    # No part of the table are columns of few cells beside those of the table.
    filled = Counter(at for _, cells in rows for at, cell in enumerate(cells) if cell)
    for gap in (at for at, other in pairwise(columns) if other > at + 1):
        inside = max(filled[at] for at in columns if at <= gap)
        if 2 * max(filled[at] for at in columns if at > gap) < inside:
            where = [number for number, cells in rows if any(cells[gap + 1 :])]
            note = f"notes right of the table, in rows {where[0]} to {where[-1]}"
            return [(number, trimmed(cells[: gap + 1])) for number, cells in rows], (note,)
    return rows, ()


def counts_rows(cells: Sequence[str]) -> bool:
    """True where cells count the rows of a table, from 0 or 1 on."""
    counted = [to_number(cell) for cell in cells]
    return counted in ([*range(len(counted))], [*range(1, len(counted) + 1)])


def _header_height(rows: Sequence[Sequence[str]]) -> int:
    """Number of rows above a body that are its header, counted from the last one up."""
    # All of their cells but one are filled, or every second one. Of two columns, the last row has
    # a unit of the axis.
    width, height = len(trimmed(rows[-1])), 1
    for row in reversed(rows[:-1]):
        cells = trimmed(row)
        filled = sum(map(bool, cells))
        pairs = width > 3 and len(cells) >= width - 1 and (all(cells[::2]) or all(cells[1::2]))
        units = width > 2 or axis_unit(rows[-1][0])
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
