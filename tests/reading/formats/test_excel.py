import datetime

import numpy as np
import openpyxl
import pytest

from geonode.errors import SpectraError
from geonode.reading.files import Choices, read_spectra
from tests.reading.tables import (
    AXIS,
    LEVELS,
    NAMES,
    SPECTRA,
    assert_refused,
    assert_series,
    inspect_file,
    long,
    numbers,
    read_table,
    tall,
    wide,
)

CELLS, TALL, LONG = numbers(wide()), numbers(tall("concentration")), numbers(long())


def changed(row, column, value):
    rows = numbers(wide())
    rows[row][column] = value
    return rows


READ = {
    "texts": [wide()],
    "texts with decimal commas": [[[cell.replace(".", ",") for cell in row] for row in wide()]],
    "levels as text": [[wide()[0], *CELLS[1:]]],
    "empty cells at the edges": [[*([*row, None] for row in CELLS), [None] * 7, []]],
    "other sheets that are empty": [[], CELLS, [[None, None]]],
    "text around": [
        [[None, "UV-2600"], [], *([None, *row] for row in CELLS), [], [None, "checked by Jörg"]]
    ],
}


@pytest.mark.parametrize("sheets", READ.values(), ids=READ)
def test_the_series_is_read(book, sheets):
    assert_series(read_table(book(*sheets)))


def test_numbers_are_read_to_the_last_bit_and_units_in_the_header(book):
    header = ["wavelength (nm)", "0 ppb", 10, "20", 60.5, "10__r2"]
    rows = [[420, 1 / 3, 2, 3, 4, 7], [410, 1e-12, 6, 7, 12345.678, 8], [400.5, 9, 10, 11, 12, 9]]
    table = read_table(book([header, *rows]))
    np.testing.assert_array_equal(table.axis, [400.5, 410, 420])
    np.testing.assert_array_equal(table.concentrations, [0, 10, 20, 60.5])
    np.testing.assert_array_equal(table.scans[0], [[9, 1e-12, 1 / 3]])
    np.testing.assert_array_equal(table.scans[1], [[10, 6, 2], [9, 8, 7]])
    assert (table.axis_unit, table.concentration_unit) == ("nm", "ppb")


@pytest.mark.parametrize(
    ("sheets", "message"),
    [
        ([CELLS, CELLS], "cells in the sheets 'Sheet', 'Sheet1', expected one sheet"),
        ([[], []], "found no cells in any sheet"),
        ([changed(2, 3, "0,3")], "row 3, column '20.*': found '0,3', expected a number with a dec"),
        (
            [[wide()[0], *([at, *["1,234"] * 4] for at in (1, 2, 3))]],
            "'1,234' and no number that s",
        ),
        ([changed(2, 3, True)], "row 3, column '20.*': found 'True'"),
        ([changed(2, 3, "=1+1")], "found a formula in D3 whose value was never saved"),
        ([changed(0, 3, "=10")], "found a formula in D1 whose value was never saved"),
        ([changed(2, 3, datetime.date(2024, 1, 5))], "row 3, column '20.*': found '2024-01-05"),
        ([changed(2, 3, None)], "row 3, column '20.*': found an empty or NaN cell"),
        ([[*CELLS[:2], [], *CELLS[2:]]], "row 3: found a blank row above data"),
    ],
)
def test_what_is_no_table_is_refused(book, sheets, message):
    assert_refused(rf"series\.xlsx: .*{message}", read_table, book(*sheets))


def test_a_sheet_is_chosen(book, tmp_path):
    path = book([["made by", "Anna"]], CELLS)
    assert_refused(r"sheets 'Sheet', 'Sheet1', .*spectra\.sheet", read_table, path)
    assert_refused("expected one called 'data'", read_table, path, sheet="data")
    assert_series(read_table(path, sheet="Sheet1"))
    assert len(read_spectra(path, sheet_name="Sheet1").names) == len(NAMES)
    assert_refused("expected a workbook", read_table, tmp_path / "a.csv", sheet="Sheet1")


@pytest.mark.parametrize("number_format", ["0%", '0.0 "of" %', "0.0,", "#,##0,", "0.0,,"])
def test_a_number_that_is_shown_as_another_is_refused(book, number_format):
    for place in ("B1", "C3"):
        with pytest.raises(SpectraError, match=r"row [13], column [23]: found .* that shows"):
            read_table(book(CELLS, **{place: number_format}))


HEADER = ("B1", "C1", "D1", "E1")
PPB = '0" ppb"'
FORMATS = ["#,##0.00", '0.0" %"', "[Red]0.0E+00", "@"]
WITH_PPB = [PPB, 'General" ppb"', r"0.0\ \p\p\b", '#,##0.00 "ppb";-0 "ppb"', "0 [$ppb]"]
CELLS_OF_X = [["x", *LEVELS], *CELLS[1:]]


def column(letter, number_format):
    """Formats of the cells of a column, but for the header."""
    return {f"{letter}{row}": number_format for row in range(2, 18)}


@pytest.mark.parametrize(
    ("rows", "formats", "units"),
    [
        *((CELLS, {"C3": one}, ("nm", None)) for one in FORMATS),
        *((CELLS, dict.fromkeys(HEADER, one), ("nm", "ppb")) for one in WITH_PPB),
        (TALL, column("A", PPB), ("1", "ppb")),
        (TALL, column("A", PPB) | column("B", '0.0" AU"') | {"D3": '0.00" AU"'}, ("1", "ppb")),
        (TALL, dict.fromkeys(HEADER, '0" nm"'), ("nm", None)),
        (LONG, column("A", PPB) | column("C", '0.0" AU"'), ("nm", "ppb")),
        (CELLS, column("A", '0.0" nm"') | column("B", '0.0" AU"'), ("nm", None)),
        ([["wavelength", *LEVELS], *CELLS[1:]], column("A", '0" nm"'), ("nm", None)),
        ([[None, None, *row] for row in CELLS_OF_X], column("C", '0" nm"'), ("nm", None)),
        ([["wavelength", *LEVELS], *CELLS[1:]], {"E3": '0.0" %"'}, ("1", None)),
    ],
)
def test_units_of_number_formats_are_units_everywhere(book, rows, formats, units):
    table = read_table(book(rows, **formats))
    np.testing.assert_array_equal(table.concentrations, LEVELS)
    np.testing.assert_array_equal(table.axis, AXIS)
    np.testing.assert_array_equal(table.spectra, SPECTRA)
    assert (table.axis_unit, table.concentration_unit) == units


@pytest.mark.parametrize(
    ("rows", "formats", "message"),
    [
        (CELLS, {"B1": PPB, "C1": '0" ppm"'}, "found concentrations in ppm and in ppb"),
        (CELLS, {"B1": PPB, "C1": '0" apples"'}, "found '10.* apples'"),
        (CELLS, {"B1": '[<5]0" ppb";0" ppm"'}, "row 1, column 2: found 0 in .* shows ppb or ppm"),
        (TALL, {"A2": PPB, "A4": '0" ppm"'}, "found concentrations in ppm and in ppb"),
        (TALL, {"B1": '0" nm"', "C1": '0" cm-1"'}, "units nm and cm-1 on one axis"),
        (CELLS, {"A2": '0" nm"', "A4": '0" um"'}, "row 4, column 1: .* in um, and one in nm in"),
        (CELLS, {"A2": '0" eV"'}, "found 'wavelength_nm' above numbers .* in eV"),
        (CELLS, {"C2": '0" mAU"', "D5": '0" AU"'}, "row 5, column 4: .* in AU, and one in mAU"),
        (LONG, {"A2": PPB, "A9": '0" ppm"'}, "found concentrations in ppm and in ppb"),
    ],
)
def test_a_mix_of_units_in_number_formats_is_refused(book, rows, formats, message):
    assert_refused(message, read_table, book(rows, **formats))


def test_units_of_a_second_table_may_be_in_its_formats(book, file):
    table = book([["name", "level"], ["a", 0], ["b", 10], ["c", 20], ["d", 60]], B4=PPB)
    choices = Choices(concentrations=table)
    found = read_table(file("\n".join(map(",".join, wide(["a", "b", "c", "d"])))), choices=choices)
    assert_series(found, unit="ppb")


def test_two_columns_without_a_header_lose_no_row(book, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, values in zip(NAMES, SPECTRA, strict=True):
        rows = np.column_stack([AXIS, values]).tolist()
        book(rows, A1='0" nm"', A2='0" nm"', B1='0" AU"').rename(folder / f"{name} ppb.xlsx")
    assert_series(read_table(folder), "ppb")


def test_what_is_no_workbook_is_not_opened(file):
    assert_refused(r"no workbook that can be read \(Ba", read_table, file("nm,0,1,2,3\n", "a.xlsx"))


def test_a_cell_over_several_rows_is_in_each(book):
    rows = [["conc", "scan", *TALL[0][1:]], *([r[0], 1, *r[1:]] for r in TALL[1:])]
    rows.insert(3, [None, 2, *TALL[2][1:]])
    table = read_table(book(rows, merged=["A3:A4"]))
    assert [len(scans) for scans in table.scans] == [1, 2, 1, 1]


def test_hidden_and_merged_cells(book):
    rows = [["nm", "0 ppb", None, "5 ppb", "9 ppb", "20 ppb"], *([n] * 6 for n in range(4))]
    path = book(rows, merged=["B1:C1"])
    made = openpyxl.load_workbook(path)
    made.active.row_dimensions[3].hidden = made.active.column_dimensions["D"].hidden = True
    made.save(path)
    inspection = inspect_file(path)
    assert [len(scans) for scans in inspection.table.scans] == [2, 1, 1, 1]
    assert "hidden in the sheet, and read: rows 3" in inspection.doubts
    assert "hidden in the sheet, and read: columns D" in inspection.doubts
