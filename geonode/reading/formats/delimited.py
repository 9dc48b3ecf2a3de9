"""Tables as text: the delimiter and the decimal mark are found, and never guessed.

Text is UTF-8, UTF-16 with a byte order mark, or else Windows-1252, which contains Latin-1. Files
that mix UTF-8 with other bytes, or end within a character, are refused.

Lines are parted by every delimiter in turn, and the table is looked for among the cells. The
delimiter is the one whose table has equally many cells in every row, numbers below the header and
right of the first column. A comma between digits is a decimal mark wherever it is not the
delimiter. A file with two possible readings that differ is refused.
"""

import codecs
import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from geonode.errors import SpectraError
from geonode.reading.headers import marked_number
from geonode.reading.layouts.table_place import FIRST_ROWS, Place, grid_of, trimmed, units_joined
from geonode.reading.refusals import require_at_most
from geonode.reading.sheet import (
    LONGEST_NAME,
    MOST_COLUMNS,
    Cells,
    Decimal,
    Row,
    Understood,
    to_number,
)
from geonode.spectra.arrays import require_values

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar", " ": "blanks"}

_FIRST_LINES = 2000  # among which the delimiter is looked for at first
_QUOTED_OR_NOT = re.compile(r'"([^"]*)"|(\S+)')
_COMMENT = re.compile(r"\s*#(?!\s*[,;\t|])")  # a column may be called #
_JCAMP = re.compile(r"\s*##\s*JCAMP[\s_/-]*DX\s*=", re.I)
_OPEN = re.compile(r'(?:^|[,;\t|])\s*"(?:[^"]|"")*$')  # a quoted cell that goes on below
_CLOSED = re.compile(r'(?:[^"]|"")*"\s*(?:[,;\t|]|$)')
_LINES_OF_CELL = 5  # at most; a quote that is not closed in them is a mark, as of inches
_SAYS_SOMETHING = re.compile(r'[^\s,;|"]')
_GROUPS = re.compile(r"[+-]?[1-9][0-9]{0,2}(?:[.,][0-9]{3})+")  # of thousands, or decimals
_WITH_MARKS = re.compile(r"[+-]?[0-9.,]*[0-9][0-9.,]*(?:[eE][+-]?[0-9]+)?")

LOOK_AT_SIGNS = "the bytes are no UTF-8, and are read as Windows-1252: look at signs such as µ"

Numbered = list[tuple[int, str]]
"""Lines with the numbers of their rows, counted from 1."""


def read_delimited(path: Path, *, of_names: bool = False) -> Cells:
    """Cells of a text file; blanks part names and amounts only if nothing else does.

    Raises:
        SpectraError: it is no text or no table, or can be read in two ways; the message names row
            and column.
        OSError, UnicodeDecodeError: it cannot be read.
    """
    texts, encoding = read_text(path)
    if any(map(_JCAMP.match, texts)):  # whose factors would be lost
        raise SpectraError("found JCAMP-DX, expected a table; give the file the ending .jdx")
    lines = _joined(texts)
    comments = [line for line in lines if _COMMENT.match(line[1])]
    lines = [line for line in lines if not _COMMENT.match(line[1])]
    if not any(_SAYS_SOMETHING.search(line) for _, line in lines):
        raise SpectraError(
            "found an empty file, expected a header such as wavelength_nm,0,10,20,30,60"
        )
    first = lines[:_FIRST_LINES]
    delimiter = _delimiter(first, clear=True, of_names=of_names) or _delimiter(lines) or ","
    rows = _rows_of_lines(lines, delimiter)
    place = Place.of(rows, delimiter, of_names=of_names)
    cells = [row for _, row in place.table]
    decimal = _decimal_mark(cells, delimiter)
    if delimiter != ",":
        refuse_groups(cells)
    point = "point" if decimal == "." else "comma"
    about = Understood(
        f"text, delimiter {DELIMITERS[delimiter]}, decimal {point}",
        encoding=encoding,
        notes=(LOOK_AT_SIGNS,) if encoding == "Windows-1252" else (),
    )
    remarks = _rows_of_lines(
        [(number, line.lstrip("# \t")) for number, line in comments], delimiter
    )
    grid = grid_of(rows, place, decimal, about, even=True, comments=remarks, mark=delimiter)
    return replace(grid, understood=grid.understood.also(notes=_commented(remarks, grid)))


def _commented(comments: list[Row], grid: Cells) -> tuple[str, ...]:
    """A note on comments that look like rows of a table below its header."""
    below = [(number, trimmed(cells)) for number, cells in comments if number > grid.header_row]
    marked = [
        str(number)
        for number, cells in below
        if len(cells) == len(grid.header) and to_number(cells[-1], None) is not None
    ]
    note = f"rows {', '.join(marked[:10])} are left out as comments, as they begin with #"
    return (f"{note}: if they are part of the table, remove the mark",) if marked else ()


def _joined(texts: list[str]) -> Numbered:
    """Lines of a text, with those that a quoted cell goes on in as one."""
    lines: Numbered = []
    at = 0
    while at < len(texts):
        line, end = texts[at], at + 1
        while _OPEN.search(line):
            below = texts[end : end + _LINES_OF_CELL]
            more = next((n for n, text in enumerate(below, 1) if _CLOSED.match(text)), 0)
            if not more:
                break
            parts = [line, *texts[end : end + more]]
            line, end = " ".join(map(str.rstrip, parts)), end + more
        lines.append((at + 1, line))
        at = end
    return lines


def _rows_of_lines(lines: Iterable[tuple[int, str]], delimiter: str) -> list[Row]:
    """Rows of cells without blanks around them; a line of delimiters alone has none."""
    rows, count = [], 0
    for number, line in lines:
        cells = [cell.strip() for cell in _parted(line, delimiter)]
        require_at_most(MOST_COLUMNS, len(cells), "columns")
        count += len(cells) if any(cells) else 0
        require_values(count)
        rows.append((number, cells if any(cells) else []))
    left = min((cells.index(next(filter(None, cells))) for _, cells in rows if cells), default=0)
    return units_joined([(number, cells[left:]) for number, cells in rows])


def _parted(line: str, delimiter: str) -> list[str]:
    if delimiter == " ":
        return [quoted or plain for quoted, plain in _QUOTED_OR_NOT.findall(line)]
    if '"' in line:
        try:
            return next(csv.reader([line], delimiter=delimiter, skipinitialspace=True, strict=True))
        except csv.Error:  # quotes within a cell, which is then no number
            pass
    return line.split(delimiter)


def _delimiter(lines: Numbered, *, clear: bool = False, of_names: bool = False) -> str | None:
    """The delimiter that comes closest to a table; None if all leave one cell a row."""
    found: dict[str, tuple[float, list[list[str | float | None]]]] = {}
    tabs = False
    for delimiter in DELIMITERS:
        if delimiter != " " and not any(delimiter in line for _, line in lines):
            continue
        if delimiter == " " and of_names and found:
            break
        try:
            place = Place.of(_rows_of_lines(lines, delimiter), delimiter, of_names=of_names)
        except SpectraError:  # raised again if none is better
            continue
        rows = [cells for _, cells in place.table[: FIRST_ROWS + 1]]
        if delimiter == "\t":
            tabs = all(len(cells) > 1 for cells in rows)
        # Two tabs are no blanks.
        parts = bool(rows) and len(rows[0]) > 1 and not (tabs and delimiter == " ")
        if parts and (place.is_clear or not clear):
            found[delimiter] = _score(rows, delimiter)
    if not found:
        return None
    best = max(fit for fit, _ in found.values())
    first, *others = (delimiter for delimiter, (fit, _) in found.items() if fit == best)
    for other in others:
        if found[other] != found[first]:
            raise SpectraError(
                f"found two ways to read the cells, delimiter {DELIMITERS[first]} and delimiter "
                f"{DELIMITERS[other]}; save with semicolons or tabs"
            )
    return first


def _score(rows: list[list[str]], delimiter: str) -> tuple[float, list[list[str | float | None]]]:
    """Score of the first rows as a table (2: all is right), and their cells."""
    decimal = _decimal_mark(rows, delimiter)
    header, *body = rows
    cells: list[list[str | float | None]] = [list(header)]
    right = total = 0
    for row in body:
        numbers = [to_number(cell or "nan", decimal) for cell in row[1:]]
        right += sum(number is not None for number in numbers)
        total += len(numbers)
        cells.append([*row[:1], *(None if n is None or np.isnan(n) else n for n in numbers)])
    others = {*DELIMITERS} - {delimiter, " ", ","}
    even = all(
        len(row) == len(header) and not others & {*row[0]} and row[0][-1:] != "," for row in body
    )
    return even + (right / total if total else 0.0), cells


def _decimal_mark(rows: list[list[str]], delimiter: str) -> Decimal:
    """Decimal mark of the cells that are numbers; a point where commas part the cells."""
    if delimiter == ",":
        return "."
    return "," if any("," in number for cells in rows for number in marked_numbers(cells)) else "."


def marked_numbers(cells: list[str]) -> Iterator[str]:
    """Numbers among cells with a comma or a point, and those of levels and wavelengths."""
    for text in cells:
        if ("," not in text and "." not in text) or len(text) > LONGEST_NAME:
            continue
        if _WITH_MARKS.fullmatch(text):
            yield text
        elif number := marked_number(text):
            yield number


def refuse_groups(rows: list[list[str]]) -> None:
    """Refuse commas or points that may all be decimal marks, or all part thousands."""
    # Between commas a point is a decimal mark: who parts thousands by points writes commas.
    for mark, word in ((",", "comma"), (".", "point")):
        example = None
        for number in (number for cells in rows for number in marked_numbers(cells)):
            if mark in number:
                if not _GROUPS.fullmatch(number) or {",", "."} <= {*number}:
                    break
                example = number
        else:
            if example is not None:
                raise SpectraError(
                    f"found {example!r} and no number that shows whether its {word} is a "
                    f"decimal mark or parts thousands: it is {example.replace(',', '.')} or "
                    f"{example.replace(mark, '')}; save with commas between the cells and a "
                    "decimal point, without thousands"
                )


LARGEST_TEXT = 2**27
"""Bytes of a file."""

MOST_TEXT_LINES = 2**21
"""Lines of a file."""

LONGEST_LINE = 2**20
"""Bytes of a line; no table has longer ones."""

_UTF8 = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}")


def read_text(
    path: Path, longest: int = LONGEST_LINE, largest: int = LARGEST_TEXT
) -> tuple[list[str], str]:
    """Lines of a file with their ends, and its encoding.

    Args:
        path: the file.
        longest: limit of a line (bytes).
        largest: limit of the file (bytes).

    Raises:
        SpectraError: the file is not text, or is larger.
        OSError, UnicodeDecodeError: the file cannot be read.
    """
    with path.open("rb") as file:
        content = file.read(largest + 1)
    encoding = "UTF-8"
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding, content = "UTF-16", content.decode("utf-16").encode()
    ends = content.count(b"\n") + content.count(b"\r") - content.count(b"\r\n")
    require_at_most(largest, len(content))
    require_at_most(MOST_TEXT_LINES, ends, "lines")
    content = content.replace(codecs.BOM_UTF8, b"").replace(b"\r\r\n", b"\r\n")
    lines = content.splitlines(keepends=True)
    if b"\0" in content or any(len(line) >= longest for line in lines):
        raise SpectraError(
            f"found binary data or a line of {longest} characters, expected text saved as UTF-8"
        )
    try:
        return [line.decode() for line in lines], encoding
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data":  # the file was cut
            raise
    decoded = [line.decode("cp1252") for line in lines]
    if _UTF8.search(content):
        raise SpectraError("found bytes partly of UTF-8, expected text saved as UTF-8 throughout")
    return decoded, "Windows-1252"
