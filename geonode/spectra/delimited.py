"""Tables as text: the delimiter and the decimal mark are found, and never guessed.

A delimiter is taken if it parts the first rows into equally many cells that are numbers below the
header and right of the first column. A comma between digits is a decimal mark wherever it is not
the delimiter. Where two readings are possible and differ, the file is refused.
"""

import csv
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple, TextIO

import numpy as np
from jaxtyping import Float

from geonode.errors import SpectraError
from geonode.spectra.headers import level, wavelength
from geonode.spectra.sheet import (
    LONGEST_NAME,
    Grid,
    require_columns,
    require_values,
    to_number,
)

LARGEST_TEXT = 2**27
"""Characters of a file."""

MOST_LINES = 2**21
"""Of a file."""

LONGEST_LINE = 2**20
"""Characters; a longer line is no line of a table, and is not read into memory."""

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar", " ": "blanks"}

_HEAD = 20  # rows below the header from which the delimiter is found
_QUOTED_OR_NOT = re.compile(r'"([^"]*)"|(\S+)')
_SAYS_SOMETHING = re.compile(r'[^\s,;|"]')
_GROUPS = re.compile(r"[+-]?[1-9][0-9]{0,2}(?:[.,][0-9]{3})+")  # of thousands, or decimals
_WITH_MARKS = re.compile(r"[+-]?[0-9.,]*[0-9][0-9.,]*(?:[eE][+-]?[0-9]+)?")


class Dialect(NamedTuple):
    """How cells are parted and numbers are written."""

    delimiter: str
    decimal: Literal[".", ","]


def read_delimited(path: Path) -> Grid:
    """Cells of a text file, UTF-8 with or without byte order mark.

    Raises:
        SpectraError: it is no text or no table, or can be read in two ways; the message names row
            and column.
        OSError, UnicodeDecodeError: it cannot be read.
    """
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = list(text_lines(file))
    if not any(_SAYS_SOMETHING.search(line) for line in lines):
        raise SpectraError(
            "found an empty file, expected a header such as wavelength_nm,0,10,20,30,60"
        )
    dialect = _find_dialect(lines)
    _refuse_long(lines, dialect)
    _refuse_groups(lines, dialect)
    require_values(sum(_cells_of(line, dialect) for line in lines))
    decimal = "point" if dialect.decimal == "." else "comma"
    words = f"text, delimiter {DELIMITERS[dialect.delimiter]}, decimal {decimal}"
    return _at_once(lines, dialect, words) or _by_cell(lines, dialect, words)


def text_lines(
    file: TextIO, longest: int = LONGEST_LINE, largest: int = LARGEST_TEXT
) -> Iterator[str]:
    """Lines of a file, refusing what no text file has.

    Raises:
        SpectraError: there is a null character or a line that is too long, or the file is.
    """
    characters = count = 0
    while line := file.readline(longest):
        characters, count = characters + len(line), count + 1
        if characters > largest or count > MOST_LINES:
            raise SpectraError(
                f"found more than {largest} characters or {MOST_LINES} lines, expected at "
                "most that; read the spectra from several files"
            )
        if "\0" in line or len(line) == longest:
            raise SpectraError(
                f"found binary data or a line of {longest} characters, expected text saved as UTF-8"
            )
        yield line


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
    """How well the first rows are a table, 2 for one in which all is right, and what they say."""
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


def _refuse_long(lines: list[str], dialect: Dialect) -> None:
    """Refuse cells that are no numbers by their length, before a pattern meets them."""
    for number, line in enumerate(lines, start=1):
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


def _rows(lines: list[str], dialect: Dialect) -> Iterator[tuple[int, list[str]]]:
    """Row number and stripped cells of every row down to the blank ones at the end."""
    blank = None
    for number, row in _raw_rows(lines, dialect):
        cells = [cell.strip() for cell in row]
        if not any(cells):
            blank = blank or number
        elif blank:
            raise SpectraError(f"row {blank}: found a blank row above data; remove it")
        else:
            yield number, cells


def _raw_rows(lines: list[str], dialect: Dialect) -> Iterator[tuple[int, list[str]]]:
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
    """How many cells a line has at most."""
    if dialect.delimiter == " ":
        return len(line.split())
    return line.count(dialect.delimiter) + 1


def _names(cells: list[str], dialect: Dialect) -> list[str]:
    """Header or first column, with a decimal point where it is numbers with a decimal comma."""
    if dialect.decimal == ".":
        return cells
    return [(_named_number(c) or c) if "," in c and len(c) <= LONGEST_NAME else c for c in cells]


def _at_once(lines: list[str], dialect: Dialect, words: str) -> Grid | None:
    """Cells by numpy's parser; None where it has to be told apart what is wrong or missing."""
    if '"' in lines[0]:
        return None
    _, header = next(_rows(lines[:1], dialect), (1, []))
    delimiter = None if dialect.delimiter == " " else dialect.delimiter
    end = len(lines)
    while end and not lines[end - 1].strip():
        end -= 1
    first, rest = [], []
    for line in lines[1:end]:
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
    row_numbers = list(range(2, end + 1))
    return Grid(names[0], row_numbers, names[1], numbers, dialect.decimal, words)


def _load(lines: list[str], delimiter: str | None) -> Float[np.ndarray, "row column"] | None:
    try:
        numbers = np.loadtxt(lines, delimiter=delimiter, comments=None, ndmin=2)
    except ValueError:
        return None
    return None if np.isinf(numbers).any() else numbers


def _by_cell(lines: list[str], dialect: Dialect, words: str) -> Grid:
    """Cells as text, one by one."""
    rows = _rows(lines, dialect)
    _, header = next(rows)
    row_numbers, first, rest = [], [], []
    for number, cells in rows:
        if len(cells) != len(header):
            raise SpectraError(
                f"row {number}: found {len(cells)} cells, expected {len(header)} as in the header"
            )
        row_numbers.append(number)
        first.append(cells[0])
        rest.append(cells[1:])
    names = _names(header, dialect), _names(first, dialect)
    return Grid(names[0], row_numbers, names[1], rest, dialect.decimal, words)
