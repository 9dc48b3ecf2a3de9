import datetime
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from geonode.errors import SpectraError
from geonode.spectra import excel
from geonode.spectra.reading import read_spectra, read_table

openpyxl = pytest.importorskip("openpyxl")

ROWS = [
    ["wavelength (nm)", "0 ppb", 10, "20", 60.5, "10__r2"],
    [420, 0.1, 0.2, "0.3", 0.4, 7],
    [410, 1, 2, 3, 4, 8],
    [400.5, 1 / 3, 1e-12, -5, 12345.678, 9],
    [390, 0, 0, 0, 0, 0],
]


@pytest.fixture
def workbook(tmp_path):
    """Write sheets of rows."""

    def write(*sheets):
        book = openpyxl.Workbook()
        book.remove(book.active)
        for rows in sheets:
            sheet = book.create_sheet()
            for row in rows:
                sheet.append(row)
        path = tmp_path / "series.xlsx"
        book.save(path)
        return path

    return write


def changed(row, column, value):
    return [
        [value if (i, j) == (row, column) else cell for j, cell in enumerate(cells)]
        for i, cells in enumerate(ROWS)
    ]


def test_a_sheet_is_read_to_the_last_bit(workbook):
    table = read_table(workbook([], ROWS, [[None, None]]))
    np.testing.assert_array_equal(table.axis, [390, 400.5, 410, 420])
    np.testing.assert_array_equal(table.concentrations, [0, 10, 20, 60.5])
    np.testing.assert_array_equal(table.scans[1], [[0, 1e-12, 2, 0.2], [0, 9, 8, 7]])
    np.testing.assert_array_equal(table.spectra[0], [0, 1 / 3, 1, 0.1])
    assert (table.axis_unit, table.concentration_unit) == ("nm", "ppb")


def test_empty_cells_are_missing(workbook):
    path = workbook([*changed(2, 5, None), [None] * 7, [None]])
    with pytest.raises(SpectraError, match="row 3, column '10__r2': found an empty"):
        read_table(path)
    np.testing.assert_array_equal(read_table(path, missing="mask").masked, [410])


@pytest.mark.parametrize(
    ("sheets", "message"),
    [
        ([ROWS, ROWS], "cells in the sheets 'Sheet', 'Sheet1', expected one sheet"),
        ([[], []], "found no cells in any sheet"),
        ([changed(2, 3, "0,3")], "row 3, column '20': found '0,3', expected a number"),
        ([changed(2, 3, "#N/A")], "row 3, column '20': found '#N/A'"),
        ([changed(2, 3, True)], "row 3, column '20': found 'True'"),
        ([changed(2, 3, datetime.date(2024, 1, 5))], "row 3, column '20': found '2024-01-05"),
        ([[*ROWS[:2], [], *ROWS[2:]]], "row 3: found a blank row above data"),
        ([[*ROWS, [1] * 7]], "row 6: found 7 cells, expected 6"),
    ],
)
def test_what_is_no_table_is_refused(workbook, sheets, message):
    with pytest.raises(SpectraError, match=rf"series\.xlsx: .*{message}"):
        read_table(workbook(*sheets))


def test_a_workbook_that_unpacks_to_too_much_is_not_opened(workbook, monkeypatch):
    path = workbook(ROWS)
    size = sum(entry.file_size for entry in zipfile.ZipFile(path).infolist())
    monkeypatch.setattr(excel, "LARGEST_WORKBOOK", size)
    assert len(read_table(path).concentrations) == 4
    monkeypatch.setattr(excel, "LARGEST_WORKBOOK", size - 1)
    monkeypatch.setattr(openpyxl, "load_workbook", None)
    with pytest.raises(SpectraError, match=f"found a workbook of {size} bytes unpacked"):
        read_table(path)


def test_no_workbook(tmp_path):
    path = tmp_path / "series.xlsx"
    path.write_text("nm,0,1,2,3\n", encoding="utf-8")
    with pytest.raises(SpectraError, match=r"found no workbook, expected one saved as \.xlsx"):
        read_table(path)


shares = st.floats(0, 1, exclude_max=True)


@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(part=st.none() | shares, place=shares, length=st.integers(0, 40), text=st.binary(max_size=4))
def test_only_spectra_errors_come_out_of_damaged_workbooks(workbook, part, place, length, text):
    path = workbook(ROWS)

    def damaged(content):
        start = int(place * len(content))
        return content[:start] + text + content[start + length :]

    if part is None:
        path.write_bytes(damaged(path.read_bytes()))
    else:
        with zipfile.ZipFile(path) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        chosen = sorted(parts)[int(part * len(parts))]
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in parts.items():
                archive.writestr(name, damaged(content) if name == chosen else content)
    for read in (read_table, read_spectra):
        try:
            read(path)
        except SpectraError as error:
            assert "series.xlsx: " in str(error)


FORMATS = ["0%", "0.00%", '0.0 "of" %', "0.0,", "#,##0,", "0.0,,"]


@pytest.mark.parametrize("place", ["B1", "C3"])
@pytest.mark.parametrize("number_format", FORMATS)
def test_a_number_that_is_shown_as_another_is_refused(workbook, number_format, place):
    path = workbook(changed(0, 1, 0.1))
    book = openpyxl.load_workbook(path)
    book.active[place].number_format = number_format
    book.save(path)
    with pytest.raises(SpectraError, match=r"row [13], column [23]: found .* in a cell that shows"):
        read_table(path)


@pytest.mark.parametrize("number_format", ["0.00", "#,##0.00", '0.0" %"', "0.0E+00", "@"])
def test_a_number_that_is_shown_as_it_is_is_read(workbook, number_format):
    path = workbook(ROWS)
    book = openpyxl.load_workbook(path)
    book.active["C3"].number_format = number_format
    book.save(path)
    assert read_table(path).scans[0][0, 2] == 1
