"""Tables as text: the delimiter and the decimal mark are found, and never guessed.

A delimiter is taken if it parts the first rows into equally many cells that are numbers below the
header and right of the first column. A comma between digits is a decimal mark wherever it is not
the delimiter. A file with two possible readings that differ is refused. Comments (`#`) and text
above and below the table are left out and reported.
"""

import csv
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from geonode.errors import SpectraError
from geonode.spectra.formats.text import read_text
from geonode.spectra.headers import level, wavelength, with_point
from geonode.spectra.layouts.table_place import (
    find_table,
    grid_of,
    is_pair_of_numbers,
    kind_of_line,
    names_columns,
    rows_said,
    trimmed,
)
from geonode.spectra.sheet import (
    LONGEST_NAME,
    Decimal,
    Grid,
    Row,
    Understood,
    require_columns,
    require_values,
    to_number,
)

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar", " ": "blanks"}

_HEAD = 20  # rows below the header from which the delimiter is found
_QUOTED_OR_NOT = re.compile(r'"([^"]*)"|(\S+)')
_COMMENT = re.compile(r"\s*#(?!\s*[,;\t|])")  # a column may be called #
_SAYS_SOMETHING = re.compile(r'[^\s,;|"]')
_GROUPS = re.compile(r"[+-]?[1-9][0-9]{0,2}(?:[.,][0-9]{3})+")  # of thousands, or decimals
_WITH_MARKS = re.compile(r"[+-]?[0-9.,]*[0-9][0-9.,]*(?:[eE][+-]?[0-9]+)?")

Numbered = list[tuple[int, str]]
"""Lines with the numbers of their rows, counted from 1."""


def read_delimited(path: Path) -> Grid:
    """Cells of a text file.

    Raises:
        SpectraError: it is no text or no table, or can be read in two ways; the message names row
            and column.
        OSError, UnicodeDecodeError: it cannot be read.
    """
    text = read_text(path)
    every = list(enumerate(text.lines, start=1))
    if not any(_SAYS_SOMETHING.search(line) for _, line in every if not _COMMENT.match(line)):
        raise SpectraError(
            "found an empty file, expected a header such as wavelength_nm,0,10,20,30,60"
        )
    lines, candidates = _table_lines(every)
    above, body = lines[: candidates - 1], lines[candidates - 1 :]
    dialect = _find_dialect(body)
    dialect.refuse_groups(body)
    require_values(sum(dialect.most_cells(line) for _, line in body))
    rows = [dialect.row_above(*line) for line in above]
    for place, (number, cells) in enumerate(dialect.rows(body)):
        first = dialect.names(cells[:1])
        bare = is_pair_of_numbers([*first, *cells[1:]], dialect.decimal)
        # All of a header, and the first cell of every row.
        rows.append(
            (number, dialect.names(cells) if place == 0 and not bare else first + cells[1:])
        )
    decimal = "point" if dialect.decimal == "." else "comma"
    understood = Understood(
        f"text, delimiter {DELIMITERS[dialect.delimiter]}, decimal {decimal}",
        encoding=text.encoding,
        skipped=_skipped(every, lines),
        notes=text.notes,
    )
    preamble = tuple(line.strip() for number, line in every if number < body[0][0])
    return grid_of(rows, candidates, dialect.decimal, understood, even=True, preamble=preamble)


# the lines of the table


def _table_lines(every: Numbered) -> tuple[Numbered, int]:
    """Lines without comments, preamble and footer, and how many of them may be the header."""
    rows = [(number, line) for number, line in every if not _COMMENT.match(line)]
    table = find_table([kind_of_line(line) for _, line in rows])
    if table is None:
        return rows, 1
    body = rows[table.start : table.end]
    header = [row for row in rows[table.top : table.start] if row[1].strip()]
    before = [(number, line) for number, line in every if number < body[0][0] and line.strip()]
    is_bare = not header and before and kind_of_line(body[0][1]) == "data"
    if is_bare and _COMMENT.match(before[-1][1]):  # NumPy writes a header as comment
        header = [(before[-1][0], before[-1][1].lstrip("# "))]
    mark, width = _columns_of([line for _, line in body[:_HEAD]])
    if header and width:
        above = [(number, _parted(line, mark)) for number, line in header[-2:]]
        if not names_columns(above, body[0][0], width):
            header = []
    # Of names and numbers without a row above them, the first is the header.
    return header + body, max(1, len(header))


def _columns_of(lines: list[str]) -> tuple[str, int]:
    """Delimiter that parts all lines into equally many cells, and how many; 0 if none does."""
    for mark in ("\t", ";", "|", ",", " "):
        widths = {len(_parted(line, mark)) for line in lines}
        if len(widths) == 1 and (width := widths.pop()) > 1:
            return mark, width
    return "", 0


def _parted(line: str, mark: str) -> list[str]:
    """Cells of a line up to the last one that is not empty."""
    return trimmed(Dialect(mark, ".").row_above(0, line)[1])


def _skipped(every: Numbered, rows: Numbered) -> tuple[str, ...]:
    """Lines that are no part of the table, for people."""
    inside, (first, _), (last, _) = {number for number, _ in rows}, rows[0], rows[-1]
    parts: dict[str, list[int]] = {}
    for number, line in every:
        if number not in inside and _SAYS_SOMETHING.search(line):
            where = "above the table" if number < first else "comments"
            parts.setdefault("below the table" if number > last else where, []).append(number)
    return tuple(rows_said(numbers, where) for where, numbers in parts.items())


# the dialect


class Dialect(NamedTuple):
    """Separator of cells and decimal mark."""

    delimiter: str
    decimal: Decimal

    def most_cells(self, line: str) -> int:
        """Largest number of cells of a line."""
        return len(line.split()) if self.delimiter == " " else line.count(self.delimiter) + 1

    def rows(self, lines: Numbered) -> Iterator[Row]:
        """Rows down to the blank ones at the end, their cells without blanks around them.

        Raises:
            SpectraError: a row is blank above another, or has a cell with quotes within.
        """
        blank = None
        for number, row in self._raw_rows(lines):
            cells = [cell.strip() for cell in row]
            if not any(cells):
                blank = blank or number
            elif blank:
                raise SpectraError(
                    f"row {blank}: found a blank row above data; remove it, or "
                    "export one block of rows alone"
                )
            else:
                yield number, cells

    def _raw_rows(self, lines: Numbered) -> Iterator[Row]:
        if self.delimiter == " ":
            for number, line in lines:
                yield number, [quoted or plain for quoted, plain in _QUOTED_OR_NOT.findall(line)]
            return
        texts = (line for _, line in lines)
        reader = csv.reader(texts, delimiter=self.delimiter, skipinitialspace=True, strict=True)
        try:
            for row in reader:
                yield lines[reader.line_num - 1][0], row
        except csv.Error as error:
            number, _ = lines[reader.line_num - 1]
            raise SpectraError(f"row {number}: {error}; expected plain cells") from error

    def row_above(self, number: int, line: str) -> Row:
        """A row that may belong to a header; without cells if it cannot be parted."""
        try:
            return number, self.names(
                [cell for _, row in self.rows([(number, line)]) for cell in row]
            )
        except SpectraError:
            return number, []

    def names(self, cells: list[str]) -> list[str]:
        """Names with a decimal point where they are numbers with a decimal comma."""
        if self.decimal == ".":
            return cells
        return [with_point(cell) for cell in cells]

    def marked(self, line: str) -> Iterator[str]:
        """Numbers of a line with a comma or a point in them; of levels and wavelengths the number.

        A comma in a name is none of these: 2,4-D is no level.
        """
        for cell in line.split(None if self.delimiter == " " else self.delimiter):
            text = cell.strip(' "\t\r\n')
            if ("," in text or "." in text) and len(text) <= LONGEST_NAME:
                if _WITH_MARKS.fullmatch(text):
                    yield text
                elif _is_named_number(text):
                    yield text[: len(text) - len(text.lstrip("+-0123456789.,"))]

    def refuse_groups(self, lines: Numbered) -> None:
        """Refuse commas or points that may all be decimal marks, or all part thousands.

        Between commas a point is a decimal mark: who parts thousands by points writes decimal
        commas.
        """
        for mark, word in ((",", "comma"), (".", "point")) if self.delimiter != "," else ():
            texts = (line for _, line in lines if mark in line)
            example = None
            for number in (number for line in texts for number in self.marked(line)):
                if mark in number:
                    if not _GROUPS.fullmatch(number) or {",", "."} <= {*number}:
                        break
                    example = number
            else:
                if example is not None:
                    raise SpectraError(
                        f"found {example!r} and no number that tells whether its {word} is a "
                        f"decimal mark or parts thousands: it is {example.replace(',', '.')} or "
                        f"{example.replace(mark, '')}; save with commas between the cells and a "
                        "decimal point, without thousands"
                    )


def _find_dialect(lines: Numbered) -> Dialect:
    """The one reading of the first rows, or the one that comes closest to a table."""
    found: dict[Dialect, tuple[float, list[list[str | float | None]]]] = {}
    tabs = all("\t" in line for _, line in lines)
    for delimiter in DELIMITERS:
        if delimiter == " " and tabs:
            continue  # two tabs are no blanks
        dialect = Dialect(delimiter, _decimal_mark(lines, delimiter))
        try:
            rows = [cells for _, cells in islice(dialect.rows(lines), _HEAD + 1)]
        except SpectraError:
            continue
        require_columns(max(map(len, rows)))
        if len(rows[0]) > 1:
            found[dialect] = _fit(rows, dialect)
    if not found:
        return Dialect(",", ".")
    best = max(fit for fit, _ in found.values())
    first, *others = (dialect for dialect, (fit, _) in found.items() if fit == best)
    for other in others:
        if found[other] != found[first]:
            raise SpectraError(
                f"found two ways to read the cells, delimiter {DELIMITERS[first.delimiter]} and "
                f"delimiter {DELIMITERS[other.delimiter]}; save with semicolons or tabs"
            )
    return first


def _fit(rows: list[list[str]], dialect: Dialect) -> tuple[float, list[list[str | float | None]]]:
    """Score of the first rows as a table (2: all is right), and what they say."""
    header, *body = rows
    said: list[list[str | float | None]] = [list(header)]
    right = total = 0
    for row in body:
        numbers = [to_number(cell or "nan", dialect.decimal) for cell in row[1:]]
        right += sum(number is not None for number in numbers)
        total += len(numbers)
        said.append([row[0], *(None if n is None or np.isnan(n) else n for n in numbers)])
    others = set(DELIMITERS) - {dialect.delimiter, " ", ","}
    even = all(len(row) == len(header) and not others & set(row[0]) for row in body)
    return even + (right / total if total else 0.0), said


def _decimal_mark(lines: Numbered, delimiter: str) -> Decimal:
    """Decimal mark of the cells that are numbers; a point where commas part the cells."""
    if delimiter == ",":
        return "."
    marked = Dialect(delimiter, ",").marked
    found = (number for _, line in lines if "," in line for number in marked(line))
    return "," if any("," in number for number in found) else "."


def _is_named_number(text: str) -> bool:
    """Whether a text is a level or a wavelength, with a decimal point or comma."""
    changed = text.replace(",", ".", 1)
    return text[0] in "+-0123456789.," and bool(level(changed) or wavelength(changed))
