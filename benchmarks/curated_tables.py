"""Odd tables whose right reading is known: text and workbooks."""

import io
from collections.abc import Callable, Iterator
from datetime import date, time
from typing import Any, NamedTuple

import numpy as np
import openpyxl

from benchmarks.fuzz import AXIS, LEVELS, SIGNAL, Files

Rows = list[list[str]]


class Case(NamedTuple):
    """An input and what is right.

    Attributes:
        family: of inputs that are odd in the same way.
        name: of the case.
        files: that are read; none: `axis` is put on that of a model.
        refused: a part of the message; empty: the series is read.
        rounding: relative, of the numbers as they are stored.
        axis: its name, unit and values.
    """

    family: str
    name: str
    files: Files
    refused: str = ""
    rounding: float = 1e-14
    axis: tuple[str, str, np.ndarray] | None = None


# text

DIALECTS = {
    "comma": (",", "."),
    "semicolon": (";", ","),
    "semicolon and points": (";", "."),
    "tab": ("\t", "."),
    "tab and commas": ("\t", ","),
    "bar": ("|", "."),
}
"""What stands between cells, and before decimals."""


def wide() -> Rows:
    """One column a spectrum."""
    columns = zip(AXIS, SIGNAL.T, strict=True)
    header = ["wavelength_nm", *(f"{level:g}" for level in LEVELS)]
    return [header, *([f"{at:g}", *(f"{value:.3f}" for value in row)] for at, row in columns)]


def tall() -> Rows:
    """One row a spectrum."""
    header, *rows = map(list, zip(*wide(), strict=True))
    return [["concentration \\ wavelength_nm", *header[1:]], *rows]


def long() -> Rows:
    """One row a value."""
    (_, *levels), *rows = wide()
    header = ["concentration", "wavelength_nm", "absorbance"]
    return [header, *([n, at, v] for at, *row in rows for n, v in zip(levels, row, strict=True))]


LAYOUTS: dict[str, Callable[[], Rows]] = {"wide": wide, "tall": tall, "long": long}


def text_of(rows: Rows, dialect: str) -> str:
    """A table as text."""
    mark, point = DIALECTS[dialect]
    return "\n".join(mark.join(cell.replace(".", point) for cell in row) for row in rows) + "\n"


def each_cell(change: Callable[[str], str]) -> Callable[[Rows], Rows]:
    """Tables with cells written in another way."""
    return lambda rows: [rows[0], *([row[0], *map(change, row[1:])] for row in rows[1:])]


SAME_ROWS: dict[str, Callable[[Rows], Rows]] = {
    "columns in another order": lambda rows: [[row[0], *row[:0:-1]] for row in rows],
    "rows upside down": lambda rows: [rows[0], *rows[:0:-1]],
    "quotes": lambda rows: [[f'"{cell}"' for cell in row] for row in rows],
    "blanks": lambda rows: [[f" {cell}  " for cell in row] for row in rows],
    "zeros behind": each_cell(lambda cell: f"{float(cell):.6f}"),
    "powers of ten": each_cell(lambda cell: f"{float(cell):.6e}"),
    "large letters": each_cell(lambda cell: f"{float(cell):.6E}"),
    "signs": each_cell(lambda cell: f"{float(cell):+.3f}"),
    "a title without cells": lambda rows: [*rows, [""] * len(rows[0])],
}
SAME_BYTES: dict[str, Callable[[str], bytes]] = {
    "byte order mark": lambda text: text.encode("utf-8-sig"),
    "Windows": lambda text: text.replace("\n", "\r\n").encode(),
    "old Macintosh": lambda text: text.replace("\n", "\r").encode(),
    "blank lines": lambda text: (text + "\n\n\n").encode(),
    "no last line end": lambda text: text.rstrip("\n").encode(),
}


def same_tables() -> Iterator[Case]:
    """The series in every layout and dialect, said in another way."""
    for layout, make in LAYOUTS.items():
        for dialect in DIALECTS:
            if layout == "long":  # whose first columns both are names
                ways = {k: SAME_ROWS[k] for k in ("rows upside down", "quotes", "blanks")}
            else:
                ways = SAME_ROWS
            said = f"{layout}, {dialect}"
            for name, change in ways.items():
                text = text_of(change(make()), dialect)
                yield Case(f"text, {layout}", f"{name}: {said}", {".csv": text.encode()})
            for name, encode in SAME_BYTES.items():
                content = encode(text_of(make(), dialect))
                yield Case(f"text, {layout}", f"{name}: {said}", {".csv": content})


AXES = (
    *("wavelength (nm)", "Wavelength [nm]", "wavelength/nm", "λ (nm)", "nm", "lambda_nm"),
    *("WAVELENGTH_NM", "wavelength nm", "wavelengths (nanometers)", "Wavelength"),
)
UNITS = (" ppb", "ppb", " (ppb)", "_ppb", " µM", " mg/L", " %", " ng/ml")


def headers() -> Iterator[Case]:
    """Tables with other headers of axis and levels."""
    for dialect in ("comma", "semicolon", "tab"):
        for name in AXES:
            rows = wide()
            rows[0][0] = name
            yield _text("headers", name, rows, dialect)
        for unit in UNITS:
            rows = wide()
            rows[0][1:] = [level + unit for level in rows[0][1:]]
            yield _text("headers", unit, rows, dialect)


CELLS = {
    **dict.fromkeys(("abc", "<0.5", "0.5*", "$1", "12:30", "2024-01-01", "1_000", "0x1F", "1/2")),
    **dict.fromkeys(("#N/A", "True", "inf", "-inf", "1e999", "0.5 0.6", "--1", "1e", "٣")),
    **dict.fromkeys(("10%", "1.2.3", "0.5nm", "½", "1 000", "'0.5", "=A1", "０.5", "−", "1e2.5")),
    **{"": "empty", "NaN": "empty or NaN", "9.969209968386869e36": "NetCDF", "1e101": "1e+101"},
}
"""Cells that are no number that a spectrum has, by a part of what is said of them."""
LEVEL_CELLS = {
    **{"-10": "not negative", "": "", "x": "'x'", "20": "the same scan", "inf": "inf"},
    **{"10__r2": "first scan", "10__r0": "10__r0", "1e999": "1e999", "٣": "'٣'"},
}
AXIS_CELLS = {"": "row", "x": "'x'", "401": "401", "inf": "inf", "NaN": "row", "400 eV": "400 eV"}


def wrong_cells() -> Iterator[Case]:
    """One cell that is no number, or stands where it may not."""
    for dialect in DIALECTS:
        for cell, word in CELLS.items():
            rows = wide()
            rows[5][3] = cell
            yield _text("wrong cells", f"value {cell}", rows, dialect, word or "row 6")
    for dialect in ("comma", "semicolon"):
        for cell, word in LEVEL_CELLS.items():
            rows = wide()
            rows[0][2] = cell
            yield _text("wrong headers", f"level {cell}", rows, dialect, word or "row")
        for cell, word in AXIS_CELLS.items():
            rows = wide()
            rows[3][0] = cell
            yield _text("wrong headers", f"axis {cell}", rows, dialect, word)


def _three(rows: Rows) -> Rows:
    return [row[:4] for row in rows]


def _two_units(header: list[str]) -> list[str]:
    units = ("", " ppb", " ppm", " ppb", " ppm", " ppb")
    return [f"{name}{unit}" for name, unit in zip(header, units, strict=True)]


SHAPES: dict[str, tuple[Callable[[Rows], Rows], str]] = {
    "three levels": (_three, "3 concentrations"),
    "two wavelengths": (lambda rows: rows[:3], "2 wavelengths"),
    "a header alone": (lambda rows: rows[:1], "found"),
    "no header": (lambda rows: rows[1:], "row 1"),
    "a row too short": (lambda rows: [*rows[:4], rows[4][:-1], *rows[5:]], "row 5"),
    "a row too long": (lambda rows: [*rows[:4], [*rows[4], "1"], *rows[5:]], "row 5"),
    "a row twice": (lambda rows: [*rows, rows[4]], "403"),
    "a column twice": (lambda rows: [[*row, row[2]] for row in rows], "same scan"),
    "levels below an axis": (
        lambda rows: list(map(list, zip(*rows, strict=True))),
        "row 1, column 1",
    ),
    "no name of the axis": (lambda rows: [["", *rows[0][1:]], *rows[1:]], "row 1"),
    "units that differ": (lambda rows: [_two_units(rows[0]), *rows[1:]], "one unit"),
    "samples without levels": (lambda rows: [["sample", *rows[0][1:]], *rows[1:]], "row"),
}


def wrong_shapes() -> Iterator[Case]:
    """Tables that have too little in them, or contradict themselves."""
    for dialect in DIALECTS:
        for name, (change, word) in SHAPES.items():
            yield _text("wrong shapes", name, change(wide()), dialect, word)


def _text(family: str, name: str, rows: Rows, dialect: str, refused: str = "") -> Case:
    content = text_of(rows, dialect).encode()
    return Case(family, f"{name}: {dialect}", {".csv": content}, refused)


def other_text() -> Iterator[Case]:
    """Bytes that are no text of a table, and names of files that are none of spectra."""
    text = text_of(wide(), "comma")
    for name, content in {
        "UTF-32": text.encode("utf-32"),
        "EBCDIC": text.encode("cp037"),
        "nothing": b"",
        "blanks": b" \n \n",
        "a null": text.replace("401", "4\0").encode(),
        "half a character": text.encode() + b"\xc3",
    }.items():
        yield Case("bytes", name, {".csv": content}, "found" if content.isspace() else "expected")
    micro = text.replace("nm,0,", "nm,0 µM,")
    for name in ("utf-16", "cp1252"):
        yield Case("bytes", name, {".csv": micro.encode(name)})
    for suffix in (".dat", ".xls", ".json", ""):
        yield Case("bytes", f"suffix {suffix}", {suffix or ".": text.encode()}, "expected")


# workbooks


def workbook(rows: list[list[Any]], styles: dict[str, str] | None = None) -> Files:
    """A workbook of one sheet; number formats by cell."""
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for cell, number_format in (styles or {}).items():
        book.active[cell].number_format = number_format
    stream = io.BytesIO()
    book.save(stream)
    return {".xlsx": stream.getvalue()}


def numbers(rows: Rows) -> list[list[Any]]:
    """The cells below the header as numbers."""
    return [rows[0], *([float(cell) for cell in row] for row in rows[1:])]


def with_cell(value: Any) -> list[list[Any]]:
    """The series with one cell exchanged."""
    rows = numbers(wide())
    rows[5][3] = value
    return rows


SAME_BOOKS: dict[str, Callable[[], list[list[Any]]]] = {
    "numbers": lambda: numbers(wide()),
    "texts": lambda: [list(row) for row in wide()],
    "numbers above": lambda: [[wide()[0][0], *LEVELS], *numbers(wide())[1:]],
    "tall": lambda: [tall()[0], *([row[0], *map(float, row[1:])] for row in tall()[1:])],
    "long": lambda: numbers(long()),
    "rows upside down": lambda: [wide()[0], *numbers(wide())[:0:-1]],
    "empty rows below": lambda: [*numbers(wide()), [], []],
    "an empty column beside": lambda: [[*row, None] for row in numbers(wide())],
    "units": lambda: [["wavelength (nm)", *(f"{n:g} ppb" for n in LEVELS)], *numbers(wide())[1:]],
    "a number as text": lambda: with_cell(f"{SIGNAL[2, 4]:.3f}"),
}
SHOWN = ("0.00", "0.00E+00", "#,##0.00", '0.0" nm"', "[Red]0.000", '0.00" %"', "General", "@")
SCALED = ("0%", "0.0%", "0.00,", "#,##0,,")
BOOK_CELLS: dict[str, tuple[Any, str]] = {
    "a date": (date(2024, 1, 2), "row 6"),
    "a time": (time(12, 30), "row 6"),
    "truth": (True, "row 6"),
    "a formula never computed": ("=1+1", "row 6"),
    "an error": ("#DIV/0!", "row 6"),
    "nothing": (None, "row 6"),
    "a comma": ("0,5", "row 6"),
    "per cent": ("10%", "row 6"),
    "a word": ("high", "row 6"),
    "1e101": (1e101, "1e+101"),
    "what NetCDF never wrote": (9.969209968386869e36, "NetCDF"),
}


def workbooks() -> Iterator[Case]:
    """Workbooks that say the series, and such with one cell that is no number."""
    for name, make in SAME_BOOKS.items():
        yield Case("Excel", name, workbook(make()))
    for shown in SHOWN:
        yield Case("Excel", f"shown as {shown}", workbook(numbers(wide()), {"D6": shown}))
    for shown in SCALED:
        files = workbook(numbers(wide()), {"D6": shown})
        yield Case("Excel", f"shown as {shown}", files, "row 6")
    for name, (value, word) in BOOK_CELLS.items():
        yield Case("Excel", name, workbook(with_cell(value)), word)
    for name, (change, word) in SHAPES.items():
        yield Case("Excel", name, workbook([list(row) for row in change(wide())]), word)


def tables() -> Iterator[Case]:
    """All of them."""
    for family in (same_tables, headers, wrong_cells, wrong_shapes, other_text, workbooks):
        yield from family()
