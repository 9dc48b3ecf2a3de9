"""Workbooks as people keep them: standards beside unknowns, notes around, a sheet of names."""

import numpy as np
import pytest

from geonode.errors import SpectraError
from geonode.reading.files import Choices, read_unknown_beside
from tests.reading.tables import (
    AXIS,
    LEVELS,
    PPB,
    SPECTRA,
    above,
    assert_refused,
    assert_series,
    inspect_file,
    numbers,
    read_table,
    wide,
)

TAP, WELL = np.round(SPECTRA[1] / 3, 3), np.round(SPECTRA[2] / 7, 3)
ALL = np.vstack([SPECTRA, TAP, WELL])
NAMES = ["a", "b", "c", "d"]


def cells_below(*headers, spectra=SPECTRA):
    return numbers(above(*headers, spectra=spectra))


def rows(*columns, spectra=SPECTRA):
    """One row a spectrum beside columns about the samples."""
    heads, *samples = zip(*columns, strict=True)
    body = zip(samples, spectra.tolist(), strict=True)
    return [[*heads, *AXIS.tolist()], *([*about, *values] for about, values in body)]


def beside(table, *notes):
    """A table with cells right of some of its rows, behind an empty column."""
    noted = [[*row, None, *note] for row, note in zip(table, notes, strict=False)]
    return noted + table[len(notes) :]


PLAIN = numbers(wide(PPB))
REMARKS = [[*row, remark] for row, remark in zip(PLAIN, ("Remark", "lamp changed", None, "", None))]  # noqa: B905
AROUND = {
    "a title": ([["Standards of June"], *PLAIN], ["A1:E1"], "row 1 (above the table)"),
    "a heading of the levels": (
        cells_below(["", "Concentration (ppb)"], ["Wavelength (nm)", *LEVELS]),
        ["B1:E1"],
        "",
    ),
    "notes below": ([*PLAIN, [], ["Slit (nm)", 1.5], ["by Anna"]], [], "rows 7 to 8 (below"),
    "settings on the right": (
        beside(PLAIN, ["Date", "2026-06-01"], ["Dilution", 10]),
        [],
        "notes right of the table, in rows 1 to 2",
    ),
    "a word behind a row": (
        [PLAIN[0], [*PLAIN[1], "lamp changed"], *PLAIN[2:]],
        [],
        "remarks behind the table, in rows 2",
    ),
    "a column of remarks": (REMARKS, [], "columns Remark"),
}


@pytest.mark.parametrize(("cells", "merged", "left"), AROUND.values(), ids=AROUND)
def test_notes_and_titles_are_left_out_and_reported(book, cells, merged, left):
    found = inspect_file(book(data=cells, merged=merged))
    assert_series(found.table, "ppb")
    assert left in "; ".join(found.sheet.understood.skipped)


def test_numbers_right_of_a_table_are_no_notes(book):
    with pytest.raises(SpectraError, match="row 3: found 6 cells, expected 5"):
        read_table(book(data=[*PLAIN[:2], [*PLAIN[2], 7.5], *PLAIN[3:]]))
    twice = beside(PLAIN, *PLAIN)
    assert_refused("found a second axis", read_table, book(data=twice))


WATERS, LEVELS_OF_FOUR = ["tap water", "well 3"], ["Conc (ppb)", *LEVELS]
BESIDE = {
    "columns": (cells_below(["nm", *PPB, *WATERS], spectra=ALL), WATERS),
    "names above concentrations": (
        cells_below(["nm", *NAMES, *WATERS], [*LEVELS_OF_FOUR, None, None], spectra=ALL),
        WATERS,
    ),
    "marks above": (
        cells_below(["nm", *NAMES, *WATERS], [*LEVELS_OF_FOUR, "?", "unknown"], spectra=ALL),
        WATERS,
    ),
    "rows": (
        rows(
            ["Sample", *NAMES, *WATERS],
            ["Date", *["2026-06-01"] * 6],
            ["Dilution", *[10] * 6],
            [*LEVELS_OF_FOUR, None, "unknown"],
            spectra=ALL,
        ),
        WATERS,
    ),
    "rows, names behind": (
        [
            [*row[1:], row[0]]
            for row in rows(["id", *NAMES, *WATERS], [*LEVELS_OF_FOUR, "n.d.", "ND"], spectra=ALL)
        ],
        WATERS,
    ),
}


@pytest.mark.parametrize(("cells", "names"), BESIDE.values(), ids=BESIDE)
def test_samples_without_a_concentration_are_unknowns(book, caplog, cells, names):
    path = book(cells)
    table, unknown = read_table(path), read_unknown_beside(path)
    np.testing.assert_array_equal(table.concentrations, LEVELS)
    np.testing.assert_array_equal(table.spectra, SPECTRA)
    assert table.concentration_unit == "ppb"
    assert unknown.names == names
    np.testing.assert_array_equal(unknown.values, [TAP, WELL])
    assert f"are unknowns: {', '.join(names)}" in caplog.text
    assert read_unknown_beside(book(PLAIN)) is None


@pytest.mark.parametrize("name", ["-5", "5 MM", "DI water", "2-Mar", "As -5 ppb", "nan"])
def test_names_that_may_be_meant_as_concentrations_are_no_unknowns(book, name):
    with pytest.raises(SpectraError, match=rf"row 1, column 6: found '{name}', expected a conc"):
        read_table(book(data=cells_below(["nm", *PPB, name], spectra=ALL[:5])))


@pytest.mark.parametrize(
    "cells",
    [
        cells_below(["nm", *"1234", "tap water"], spectra=ALL[:5]),
        rows(["Charge", "17", "18", "21", "25", "A3"], spectra=ALL[:5]),
    ],
)
def test_numbers_of_samples_beside_names_are_no_concentrations(book, cells):
    assert_refused(r"found '(tap water|A3)', expected a concentratio", read_table, book(data=cells))


NAMED = numbers(wide(NAMES))
KNOWN = [["sample", "prepared", "dilution", "conc (ppb)"]]
KNOWN += [[name, 1, 5, level] for name, level in zip(NAMES, LEVELS, strict=True)]
TITLED = [["Standards of June", None, 3], ["by", "Anna"], *KNOWN, [], ["weighed twice"]]


@pytest.mark.parametrize(
    ("title", "ask", "known"), [("Levels", "", KNOWN), ("Levels", "", TITLED), ("x", ":x", TITLED)]
)
def test_a_sheet_of_the_workbook_gives_the_concentrations(book, tmp_path, title, ask, known):
    path = book(data=NAMED, **{title: known})
    choices = Choices(concentrations=tmp_path / f"series.xlsx{ask}") if ask else Choices()
    assert_series(read_table(path, choices=choices), "ppb")


def test_a_sheet_of_another_workbook_gives_the_concentrations(book, file, tmp_path):
    prepared = [*KNOWN[:-1], ["d", 1, 5, None], ["e", 1, 5, 60]]
    book(notes=[["by", "Anna"], ["on", "Monday"]], prepared=prepared)
    names = "nm,a,b,c,d,e\n" + "".join(f"{at},1,2,3,4,{at}\n" for at in (1, 2, 3))
    choices = Choices(concentrations=tmp_path / "series.xlsx:prepared")
    path = file(names)
    assert read_table(path, choices=choices).concentrations.tolist() == LEVELS.tolist()
    assert read_unknown_beside(path, choices=choices).names == ["d"]
    for sheet, message in (("x", "expected one called 'x'"), ("notes", "'by', 'Anna', expected n")):
        with pytest.raises(SpectraError, match=message):
            choices = Choices(concentrations=tmp_path / f"series.xlsx:{sheet}")
            read_table(path, choices=choices)


def test_dilutions_of_a_second_sheet_are_no_concentrations(book):
    path = book(data=NAMED, Levels=[[row[0], row[2]] for row in KNOWN])
    assert_refused("found 'a', expected a concentration", read_table, path)
