import csv
import io
import math

import numpy as np
import pytest

from geonode.storage.table import Column, Table, unescaped, without_formula

FORMULAS = ["=1+1", "+cmd|'/C calc'!A0", "-2 nm", "@SUM(A1)", "\tx", "\n=x", "＝1", "'=1", "''@a"]


@pytest.mark.parametrize("text", FORMULAS)
def test_no_text_is_a_formula(text):
    assert without_formula(text) == f"'{text}"
    assert unescaped(f"'{text}") == text
    table = Table("t", "", [Column(text, [text]), Column("b", [1.0], text)])
    header, row = csv.reader(io.StringIO(table.csv(), newline=""))
    assert (header, row) == ([f"'{text}", f"b ({text})"], [f"'{text}", "1"])


@pytest.mark.parametrize("text", ["-1.5", "+2e3", "", "a=b", "-inf", "it's", "'a", "'"])
def test_numbers_and_other_texts_stay(text):
    assert without_formula(text) == unescaped(text) == text


def test_no_text_begins_another_row():
    table = Table("t", "", [Column("a", ["x\r=1,2", "\r=1", "x\r\ny"])])
    assert table.csv() == 'a\n"x\n=1,2"\n"\'\n=1"\n"x\ny"\n'


def test_cells_of_a_file_have_the_digits_of_their_column():
    exact = 0.1 + 0.2
    small = np.array([1.23456789e-9, 1234567.0, math.nan])
    columns = [
        Column("digits", [13.123456789, 2e-7, 40.0]),
        Column("exponent", small, exponent=True),
        Column("all", [exact, 1e-7, 5.0], digits=None),
        Column("shortest", [exact, 1e-7, 5.0], digits=None, exponent=True),
        Column("truths", np.array([True, False, True])),
        Column("counts", [3, 1234567, None]),
        Column("sets", [[(12.12345678, 14.0), (40.0, 44.0)], [(0.0, math.inf)], []], "ppb"),
    ]
    header, *rows = csv.reader(io.StringIO(Table("t", "", columns).csv()))
    assert header == [*(one.name for one in columns[:-1]), "sets (ppb)"]
    first = ["13.1235", "1.23457e-09", "0.30000000000000004", "0.30000000000000004"]
    assert rows[0] == [*first, "true", "3", "12.1235 to 14; 40 to 44"]
    second = ["0.0000002", "1.23457e+06", "0.0000001", "1e-07"]
    assert rows[1] == [*second, "false", "1234567", "0 to inf"]
    assert rows[2] == ["40", "", "5", "5.0", "true", "", ""]


def test_lines_are_aligned_and_the_others_are_counted():
    names = ["a", "b\nall spectra fit", "c"]
    table = Table("t", "", [Column("name", names), Column("x", [1.23456, 10.0, 2.0], "nm")])
    assert table.lines() == [
        "name               x (nm)",
        "a                  1.235",
        "b all spectra fit  10",
        "c                  2",
    ]
    first = ["name  x (nm)", "a     1.235", "and 2 more; --out writes all of them"]
    assert table.lines(1, "--out writes all of them") == first


def test_parts_have_the_columns_of_a_group_and_of_none():
    grouped = [Column(f"{name}{end}", [1.0], group=name) for name in "ab" for end in (" low", "")]
    table = Table("t", "Title", [Column("sample", ["s"]), *grouped])
    first, second = table.parts()
    assert [one.name for one in first.columns] == ["sample", "a low", "a"]
    assert [one.name for one in second.columns] == ["sample", "b low", "b"]
    assert (first.title, second.title) == ("Title: a", "Title: b")
    alone = table.only("sample", "b")
    assert [one.name for one in alone.columns] == ["sample", "b"]
