import random

import numpy as np
import pytest

from geonode.errors import SpectraError
from geonode.spectra.reading import read_spectra, read_table

AXIS = [400.0, 410.0, 420.0]
LEVELS = [0.0, 5.0, 20.0, 60.0]
VALUES = np.array([[0.1, 0.2, 0.3], [1.1, 1.2, 1.3], [2.1, 2.2, 2.3], [3.1, 3.2, 3.3]])


def cells(corner, across, down, values):
    rows = [[corner, *across]]
    return rows + [[head, *row] for head, row in zip(down, values.tolist(), strict=True)]


def by_column(corner="wavelength_nm", names=LEVELS, axis=AXIS):
    return cells(corner, names, axis, VALUES.T)


def by_row(corner="concentration_ppb", names=LEVELS, axis=AXIS):
    return cells(corner, axis, names, VALUES)


def long(header=("concentration", "wavelength", "absorbance"), order=(0, 1, 2), names=LEVELS):
    rows = [
        [name, wavelength, VALUES[level, place]]
        for level, name in enumerate(names)
        for place, wavelength in enumerate(AXIS)
    ]
    random.Random(0).shuffle(rows)
    return [[row[place] for place in order] for row in [list(header), *rows]]


@pytest.fixture
def file(tmp_path):
    def write(rows):
        path = tmp_path / "series.csv"
        lines = (";".join(map(str, row)) for row in rows)
        path.write_text("\n".join(lines), encoding="utf-8")
        return path

    return write


def nm(values):
    return [f"{value:g} nm" for value in values]


def ppb(values):
    return [f"{value:g} (ppb)" for value in values]


TABLES = {
    "columns": (by_column(), ("wavelength", "nm", None)),
    "columns with units": (by_column(names=ppb(LEVELS)), ("wavelength", "nm", "ppb")),
    "columns, unknown corner": (by_column("pixel", names=ppb(LEVELS)), ("pixel", "1", "ppb")),
    "both corners": (by_column("nm \\ conc (ppb)"), ("nm", "1", "ppb")),
    "rows": (by_row(), ("axis", "1", "ppb")),
    "rows with units": (by_row("conc.", axis=nm(AXIS)), ("wavelength", "nm", None)),
    "rows, unknown corner": (by_row("As", ppb(LEVELS)), ("axis", "1", "ppb")),
    "rows, units for both": (by_row("As", ppb(LEVELS), nm(AXIS)), ("wavelength", "nm", "ppb")),
    "rows, both corners": (by_row("conc_ppb \\ shift_cm1"), ("shift", "cm-1", "ppb")),
    "samples that are levels": (by_row("sample", ppb(LEVELS)), ("axis", "1", "ppb")),
    "long": (long(), ("wavelength", "1", None)),
    "long, other order": (
        long(("conc_ppb", "raman shift (cm-1)", "counts"), (2, 1, 0)),
        ("raman shift", "cm-1", "ppb"),
    ),
    "long, units in cells": (long(names=ppb(LEVELS)), ("wavelength", "1", "ppb")),
}


@pytest.mark.parametrize(("rows", "labels"), TABLES.values(), ids=TABLES)
def test_the_same_series_in_every_layout(file, rows, labels):
    table = read_table(file(rows))
    np.testing.assert_array_equal(table.axis, AXIS)
    np.testing.assert_array_equal(table.concentrations, LEVELS)
    np.testing.assert_array_equal(table.spectra, VALUES)
    assert (table.axis_name, table.axis_unit, table.concentration_unit) == labels


@pytest.mark.parametrize("seed", range(3))
def test_order_of_rows_and_direction_of_the_axis_do_not_matter(file, seed):
    order = random.Random(seed).sample(range(4), 4)
    rows = cells("conc", AXIS[::-1], np.array(LEVELS)[order].tolist(), VALUES[order, ::-1])
    table = read_table(file(rows))
    np.testing.assert_array_equal(table.concentrations, LEVELS)
    np.testing.assert_array_equal(table.spectra, VALUES)


def test_bare_numbers_are_told_apart_by_the_longer_side(file):
    axis, levels = np.arange(51.0), np.arange(4.0)
    values = np.random.default_rng(0).normal(size=(4, 51))
    across = read_table(file(cells("x", axis.tolist(), levels.tolist(), values)))
    down = read_table(file(cells("x", levels.tolist(), axis.tolist(), values.T)))
    np.testing.assert_array_equal(across.spectra, values)
    np.testing.assert_array_equal(down.spectra, values)


def test_scans_of_long_tables_are_numbered_by_their_column(file):
    rows = [["scan", "conc", "nm", "A"]]
    for level in LEVELS:
        for scan in ("b", "a")[: 2 if level == 20 else 1]:
            rows += [[scan, level, axis, axis + level + (scan == "a")] for axis in AXIS]
    table = read_table(file(rows))
    assert [len(scans) for scans in table.scans] == [1, 1, 2, 1]
    np.testing.assert_array_equal(table.scans[2], np.add.outer([20, 21], AXIS))


def test_gaps_of_long_tables_are_masked(file):
    rows = [row for row in long() if row[:2] != [20.0, 410.0]]
    longer = [*rows, *([level, 430.0, 9] for level in LEVELS)]
    with pytest.raises(SpectraError, match=r"spectrum '20.0' at 410: found an empty or NaN cell"):
        read_table(file(longer))
    table = read_table(file(longer), missing="mask")
    np.testing.assert_array_equal(table.axis, [400, 420, 430])
    np.testing.assert_array_equal(table.masked, [410])


def test_names_of_unknown_spectra_may_be_any_text(file):
    names = ["tap water", "well 3", "nm?", "12"]
    for rows in (by_column(names=names), by_row("sample", names), by_row("As", names)):
        found = read_spectra(file(rows))
        assert found.names == names
        np.testing.assert_array_equal(found.values, VALUES)
    rows = long(("sample", "wavelength_nm", "A"), names=names)
    found = read_spectra(file(rows))
    place = [found.names.index(name) for name in names]
    np.testing.assert_array_equal(found.values[place], VALUES)
    # Two spectra that are called like columns of a long table.
    wide = read_spectra(file([["nm", "sample", "A"], [1, 2, 3], [2, 4, 5], [3, 6, 7]]))
    assert wide.names == ["sample", "A"]


def test_one_unknown_spectrum_is_enough_and_its_gaps_are_masked(file):
    rows = [["nm", "x"], [4, 0.4], [3, ""], [2, 0.2], [1, 0.1]]
    with pytest.raises(SpectraError, match="row 3, column 'x': found an empty or NaN cell"):
        read_spectra(file(rows))
    found = read_spectra(file(rows), missing="mask")
    np.testing.assert_array_equal(found.axis, [1, 2, 4])
    np.testing.assert_array_equal(found.values, [[0.1, 0.2, 0.4]])
    np.testing.assert_array_equal(found.masked, [3])


REFUSED = {
    "cannot be told": (by_column("x"), "row 1, column 1: found 'x', which does not tell whether"),
    "second axis": (
        by_column(names=[0, 5, "wavelength_nm", 20]),
        "row 1, column 4: found a second axis, 'wavelength_nm'",
    ),
    "two units": (
        by_column(names=["0", "5 ppb", "20", "60 ppm"]),
        "row 1, column 5: found concentrations in ppm and in ppb",
    ),
    "unit of the corner": (
        by_row(names=["0", "5 ppm", "20", "60"]),
        "row 3, column 1: found concentrations in ppm and in ppb",
    ),
    "two units of the axis": (
        by_row(axis=["400 nm", "410 um", "420"]),
        "row 1, column 3: found units nm and um on one axis",
    ),
    "samples": (by_row("sample"), "row 2, column 1: found '0.0' as name of a sample, expected a c"),
    "text axis": (by_row(axis=[400, "x", 420]), "row 1, column 3: found 'x' on the axis"),
    "unsorted axis": (by_row(axis=[400, 430, 420]), "row 1, column 4: found 420 on the axis after"),
    "repeated axis": (by_row(axis=[400, 410, 400]), "row 1, column 4: .* again, first in row 1, c"),
    "same level": (by_row(names=[0, 5, "5.0", 60]), r"row 3, column 1 \('5'\) and row 4, column 1"),
    "gap": (cells("conc", AXIS, LEVELS, VALUES * [1, np.nan, 1]), "row 2, column '410.0': found"),
    "long twice": ([*long(), [5, 410, 0]], "found 5.0 at 410 again, first in row .* replicate"),
    "long, two signals": (
        [["conc", "nm", "A", "B"], [1, 2, 3, 4]],
        "row 1: found the columns 'conc', 'nm', 'A', 'B', expected one of concentrations",
    ),
    "long, no axis value": ([*long(), [5, "", 0]], "row 14, column 'wavelength': found no number"),
    "long, text": ([*long(), [5, 430, "x"]], "row 14, column 'absorbance': found 'x'"),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_wrong_is_named_with_its_place(file, rows, message):
    with pytest.raises(SpectraError, match=message):
        read_table(file(rows))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", "b", "a", "c"], "row 1, column 4: found 'a' again, first in row 1, column 2"),
        (["a", "", "b", "c"], "row 1, column 3: found no name"),
    ],
)
def test_names_of_unknown_spectra_are_unique(file, names, message):
    with pytest.raises(SpectraError, match=message):
        read_spectra(file(by_column(names=names)))
