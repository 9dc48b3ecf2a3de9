"""Tables as text: the delimiter and the decimal mark are found, and never guessed.

A delimiter is taken if it parts the first rows into equally many cells that are numbers below the
header and right of the first column. A comma between digits is a decimal mark wherever it is not
the delimiter. Where two readings are possible and differ, the file is refused. Comments (`#`) and
text above and below the table are left out and said.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from geonode.errors import SpectraError
from geonode.spectra.block import Row, find_block, grid_of, kind_of_line, rows_said
from geonode.spectra.headers import level, wavelength
from geonode.spectra.sheet import (
    LONGEST_NAME,
    Grid,
    Understood,
    require_columns,
    require_values,
    to_number,
)
from geonode.spectra.text import Text, read_text

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar", " ": "blanks"}

_HEAD = 20  # rows below the header from which the delimiter is found
_QUOTED_OR_NOT = re.compile(r'"([^"]*)"|(\S+)')
_COMMENT = re.compile(r"\s*#(?!\s*[,;\t|])")  # a column may be called #
_SAYS_SOMETHING = re.compile(r'[^\s,;|"]')
_GROUPS = re.compile(r"[+-]?[1-9][0-9]{0,2}(?:[.,][0-9]{3})+")  # of thousands, or decimals
_WITH_MARKS = re.compile(r"[+-]?[0-9.,]*[0-9][0-9.,]*(?:[eE][+-]?[0-9]+)?")


Numbered = list[tuple[int, str]]
"""Lines with the numbers of their rows."""


class Dialect(NamedTuple):
    """Separator of cells and mark of decimals."""

    delimiter: str
    decimal: Literal[".", ","]


@dataclass(frozen=True)
class Lines:
    """Lines of a file that are its table.

    Attributes:
        texts: with their ends.
        numbers: of the rows, counted from 1.
        candidates: how many of them may be its header.
        understood: what is known of the file.
    """

    texts: list[str]
    numbers: list[int]
    candidates: int
    understood: Understood

    @classmethod
    def of(cls, text: Text) -> "Lines":
        """Lines of the table in a text, without comments, preamble and footer."""
        every = list(enumerate(text.lines, start=1))
        rows = [(number, line) for number, line in every if not _COMMENT.match(line)]
        block = find_block([kind_of_line(line) for _, line in rows])
        candidates = 1
        if block is not None:
            header = rows[block.top : block.start] or _commented_header(every, rows[block.start])
            # Of names and numbers without a row above them, the first is the header.
            candidates, rows = max(1, len(header)), header + rows[block.start : block.end]
        understood = Understood("text", encoding=text.encoding, notes=text.notes)
        return cls(
            [line for _, line in rows],
            [number for number, _ in rows],
            candidates,
            understood.also(skipped=_skipped(every, rows)),
        )


def _commented_header(every: Numbered, first: tuple[int, str]) -> Numbered:
    """The comment right above a body that begins with numbers, as NumPy writes a header."""
    above = [(number, line) for number, line in every if number < first[0] and line.strip()]
    if not above or not _COMMENT.match(above[-1][1]) or kind_of_line(first[1]) != "data":
        return []
    number, line = above[-1]
    return [(number, line.lstrip("# "))]


def _skipped(every: Numbered, rows: Numbered) -> tuple[str, ...]:
    """Lines that are no part of the table, for people."""
    if not rows:
        return ()
    inside, (first, _), (last, _) = {number for number, _ in rows}, rows[0], rows[-1]
    parts: dict[str, list[int]] = {}
    for number, line in every:
        if number not in inside and _SAYS_SOMETHING.search(line):
            where = "above the table" if number < first else "comments"
            parts.setdefault("below the table" if number > last else where, []).append(number)
    return tuple(rows_said(numbers, where) for where, numbers in parts.items())


def read_delimited(path: Path) -> Grid:
    """Cells of a text file.

    Raises:
        SpectraError: it is no text or no table, or can be read in two ways; the message names row
            and column.
        OSError, UnicodeDecodeError: it cannot be read.
    """
    text = read_text(path)
    said = (line for line in text.lines if not _COMMENT.match(line))
    if not any(map(_SAYS_SOMETHING.search, said)):
        raise SpectraError(
            "found an empty file, expected a header such as wavelength_nm,0,10,20,30,60"
        )
    lines = Lines.of(text)
    body = lines.texts[lines.candidates - 1 :]
    dialect = _find_dialect(body)
    _refuse_long(lines, dialect)
    _refuse_groups(body, dialect)
    require_values(sum(_cells_of(line, dialect) for line in body))
    decimal = "point" if dialect.decimal == "." else "comma"
    lines = replace(
        lines,
        understood=lines.understood.also(
            f"delimiter {DELIMITERS[dialect.delimiter]}, decimal {decimal}"
        ),
    )
    return _at_once(lines, dialect) or _by_cell(lines, dialect)


# the dialect


def _find_dialect(lines: list[str]) -> Dialect:
    """The one reading of the first rows, or the one that comes closest to a table."""
    found: dict[Dialect, tuple[float, list[list[str | float | None]]]] = {}
    for delimiter in DELIMITERS:
        dialect = Dialect(delimiter, _decimal_mark(lines, delimiter))
        try:
            rows = [cells for _, cells in islice(_rows(lines, dialect), _HEAD + 1)]
        except SpectraError:
            continue
        require_columns(max(map(len, rows)))
        if len(rows[0]) > 1:
            found[dialect] = _fit(rows, dialect)
    if not found:
        return Dialect(",", ".")
    best = max(fit for fit, _ in found.values())
    readings = {dialect: cells for dialect, (fit, cells) in found.items() if fit == best}
    first = next(iter(readings))
    for other, cells in readings.items():
        if cells != readings[first]:
            raise SpectraError(
                f"found two ways to read the cells, delimiter {DELIMITERS[first.delimiter]} and "
                f"delimiter {DELIMITERS[other.delimiter]}; save with semicolons or tabs"
            )
    return first


def _fit(rows: list[list[str]], dialect: Dialect) -> tuple[float, list[list[str | float | None]]]:
    """Score of the first rows as a table (2: all is right), and the reason."""
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


def _decimal_mark(lines: list[str], delimiter: str) -> Literal[".", ","]:
    """Mark of the decimals, where the delimiter is no comma: that of cells that are numbers."""
    if delimiter == ",":
        return "."
    found = (_marked(line, delimiter) for line in lines if "," in line)
    return "," if any("," in number for numbers in found for number in numbers) else "."


def _marked(line: str, delimiter: str) -> Iterator[str]:
    """Numbers of a line with a comma or a point in them; of levels and wavelengths the number.

    A comma in a name is none of these: 2,4-D is no level.
    """
    for cell in line.split(None if delimiter == " " else delimiter):
        text = cell.strip(' "\t\r\n')
        if ("," in text or "." in text) and len(text) <= LONGEST_NAME:
            if _WITH_MARKS.fullmatch(text):
                yield text
            elif _named_number(text):
                yield text[: len(text) - len(text.lstrip("+-0123456789.,"))]


def _named_number(text: str) -> str | None:
    """A level or a wavelength with a decimal point instead of its comma; None if it is none."""
    if text[:1] not in "+-0123456789.,":
        return None
    changed = text.replace(",", ".", 1)
    return changed if level(changed) or wavelength(changed) else None


def _refuse_long(lines: Lines, dialect: Dialect) -> None:
    """Refuse cells that are no numbers by their length, before a pattern meets them."""
    for number, line in zip(lines.numbers, lines.texts, strict=True):
        if len(line) <= LONGEST_NAME:
            continue
        longest = max(line.split(None if dialect.delimiter == " " else dialect.delimiter), key=len)
        if len(longest) > LONGEST_NAME:
            what = "found a name" if number == 1 else "field larger than field limit, found one"
            raise SpectraError(
                f"row {number}: {what} of {len(longest)} characters, {longest[:40]!r}..., "
                f"expected at most {LONGEST_NAME}"
            )


def _refuse_groups(lines: list[str], dialect: Dialect) -> None:
    """Refuse commas or points of which every one may be a decimal mark or part thousands.

    Between commas a point is a decimal mark: who parts thousands by points, writes decimal commas.
    """
    if dialect.delimiter == ",":
        return
    for mark in ",.":
        _refuse_groups_by(mark, lines, dialect)


def _refuse_groups_by(mark: str, lines: list[str], dialect: Dialect) -> None:
    example = None
    for line in lines:
        for number in _marked(line, dialect.delimiter) if mark in line else ():
            if mark not in number:
                continue
            if not _GROUPS.fullmatch(number) or len({*number} & {",", "."}) > 1:
                return
            example = number
    if example is None:
        return
    thousands, decimal = example.replace(mark, ""), example.replace(",", ".")
    word = "comma" if mark == "," else "point"
    raise SpectraError(
        f"found {example!r} and no number that tells whether its {word} is a decimal mark or parts "
        f"thousands: it is {decimal} or {thousands}; save with commas between the cells and a "
        "decimal point, without thousands"
    )


# the cells


def _rows(lines: list[str], dialect: Dialect, numbers: Sequence[int] = ()) -> Iterator[Row]:
    """Row number and stripped cells of every row down to the blank ones at the end."""
    blank = None
    for place, row in _raw_rows(lines, dialect):
        number = numbers[place - 1] if numbers else place
        cells = [cell.strip() for cell in row]
        if not any(cells):
            blank = blank or number
        elif blank:
            raise SpectraError(f"row {blank}: found a blank row above data; remove it")
        else:
            yield number, cells


def _raw_rows(lines: list[str], dialect: Dialect) -> Iterator[Row]:
    if dialect.delimiter == " ":
        for number, line in enumerate(lines, start=1):
            yield number, [quoted or plain for quoted, plain in _QUOTED_OR_NOT.findall(line)]
        return
    reader = csv.reader(lines, delimiter=dialect.delimiter, skipinitialspace=True, strict=True)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise SpectraError(f"row {reader.line_num}: {error}; expected plain cells") from error


def _cells_of(line: str, dialect: Dialect) -> int:
    """Largest number of cells of a line."""
    if dialect.delimiter == " ":
        return len(line.split())
    return line.count(dialect.delimiter) + 1


def _names(cells: list[str], dialect: Dialect) -> list[str]:
    """Header or first column, with a decimal point where it is numbers with a decimal comma."""
    if dialect.decimal == ".":
        return cells
    return [(_named_number(c) or c) if "," in c and len(c) <= LONGEST_NAME else c for c in cells]


def _at_once(lines: Lines, dialect: Dialect) -> Grid | None:
    """Cells by numpy's parser; None where wrong and missing cells have to be distinguished."""
    texts = lines.texts
    if '"' in texts[0] or lines.candidates > 1:
        return None
    _, header = next(_rows(texts[:1], dialect), (1, []))
    delimiter = None if dialect.delimiter == " " else dialect.delimiter
    end = len(texts)
    while end and not texts[end - 1].strip():
        end -= 1
    first, rest = [], []
    for line in texts[1:end]:
        head, *tail = line.split(delimiter, 1)
        if not tail or '"' in line or not tail[0].strip():
            return None
        if dialect.decimal == ",":
            if "." in tail[0]:
                return None
            tail[0] = tail[0].replace(",", ".")
        first.append(head.strip())
        rest.append(tail[0])
    if not rest or not header:
        return None
    numbers = _load(rest, delimiter)
    if numbers is None or numbers.shape != (len(rest), len(header) - 1):
        return None
    names = _names(header, dialect), _names(first, dialect)
    return Grid(
        names[0],
        lines.numbers[1:end],
        names[1],
        numbers,
        dialect.decimal,
        replace(lines.understood, header_rows=(lines.numbers[0],)),
        lines.numbers[0],
    )


def _load(lines: list[str], delimiter: str | None) -> Float[np.ndarray, "row column"] | None:
    try:
        numbers = np.loadtxt(lines, delimiter=delimiter, comments=None, ndmin=2)
    except ValueError:
        return None
    return None if np.isinf(numbers).any() else numbers


def _by_cell(lines: Lines, dialect: Dialect) -> Grid:
    """Cells as text, one by one."""
    last = lines.candidates - 1
    above = [_above(line, dialect) for line in lines.texts[:last]]
    header, *body = _rows(lines.texts[last:], dialect, lines.numbers[last:])
    named = [(number, _names(cells[:1], dialect) + cells[1:]) for number, cells in body]
    rows = [*zip(lines.numbers, above, strict=False), (header[0], _names(header[1], dialect))]
    return grid_of([*rows, *named], len(rows), dialect.decimal, lines.understood, even=True)


def _above(line: str, dialect: Dialect) -> list[str]:
    """Cells of a line that may be a row of the header; none where it is no row at all."""
    try:
        return [cell for _, cells in _rows([line], dialect) for cell in _names(cells, dialect)]
    except SpectraError:
        return []
