"""What can be read in two ways is refused, and what it is easily taken for is not."""

import time

import numpy as np
import pytest

from geonode.errors import SpectraError
from geonode.spectra.inspection import inspect_file
from geonode.spectra.reading import read_spectra, read_table


@pytest.fixture
def file(tmp_path):
    def write(content, name="a.csv"):
        path = tmp_path / name
        path.write_text(content, encoding="utf-8")
        return path

    return write


def table(names, axis, cell="0,5", delimiter=";", corner="wavelength_nm"):
    lines = [delimiter.join([corner, *names])]
    lines += [delimiter.join([at, *[cell] * len(names)]) for at in axis]
    return "\n".join(lines) + "\n"


LEVELS, AXIS = ["0", "10", "20", "30"], ["400", "410", "420"]

# thousands or decimals

GROUPS = {
    "levels with points among decimal commas": (
        table(["0", "1.000", "2.000", "5.000"], AXIS),
        "'5.000' .* its point .*: it is 5.000 or 5000;",
    ),
    "an axis with points among decimal commas": (
        table(LEVELS, ["1.000", "1.010", "1.020"], corner="raman_shift_cm1"),
        "'1.020' .* its point .*: it is 1.020 or 1020;",
    ),
    "levels with points and a unit among decimal commas": (
        table(["0 ppb", "1.000 ppb", "2.000 ppb", "5.000 ppb"], AXIS),
        "'5.000' .* its point",
    ),
    "points in a file of semicolons": (
        table(LEVELS, AXIS, cell="1.234"),
        "'1.234' .* its point .*: it is 1.234 or 1234;",
    ),
    "points in a file of tabs": (table(LEVELS, AXIS, "12.345", "\t"), "'12.345' .* its point"),
    "points in a file of bars": (table(LEVELS, AXIS, "12.345", "|"), "'12.345' .* its point"),
    "levels with points in a file of tabs": (
        table(["0", "1.000", "2.000", "5.000"], AXIS, "7", "\t"),
        "'5.000' .* its point",
    ),
    "millions with points": (table(LEVELS, AXIS, "1.234.567"), "'1.234.567' .* its point"),
    "a comma in a name does not settle it": (
        table(["0", "10", "20", "30", "2,4-D"], AXIS, cell="1,234"),
        "'1,234' .* its comma .*: it is 1.234 or 1234;",
    ),
    "commas in quotes": (table(LEVELS, AXIS, '"1,234"'), "'1,234' .* its comma"),
}


@pytest.mark.parametrize(("content", "message"), GROUPS.values(), ids=GROUPS)
@pytest.mark.parametrize("read", [read_table, read_spectra, inspect_file])
def test_a_mark_that_may_part_thousands_is_asked_about(file, read, content, message):
    with pytest.raises(SpectraError, match=message):
        read(file(content))


SETTLED = {
    "one number below one": (table(LEVELS, AXIS, "0.123", "\t"), 0.123),
    "one number of four digits before": (table(LEVELS, AXIS, "1234.567", ";"), 1234.567),
    "other decimals": (table(LEVELS, AXIS, "1.2345", ";"), 1.2345),
    "commas between the cells": (table(LEVELS, AXIS, "1.234", ","), 1.234),
    "both marks": (table(["0,5", "10,25", "20,125", "30"], AXIS, "0,125"), 0.125),
    "no marks": (table(LEVELS, AXIS, "1234"), 1234),
    "axis of points that cannot be thousands": (table(LEVELS, ["400.5", "401.5", "402.5"]), 0.5),
}


@pytest.mark.parametrize(("content", "value"), SETTLED.values(), ids=SETTLED)
def test_a_mark_that_is_settled_is_read(file, content, value):
    np.testing.assert_array_equal(read_table(file(content)).spectra, np.full((4, 3), value))


@pytest.mark.parametrize("cell", ["0,5", "0.5", "7"])
def test_a_comma_in_a_name_stays_there(file, cell):
    names = ["2,4-D", "2,4,5-T", "1,1'-biphenyl", "x,y"]
    found = read_spectra(file(table(names, AXIS, cell)))
    assert found.names == names
    assert found.values[0, 0] == float(cell.replace(",", "."))


def test_a_comma_of_a_level_is_that_of_its_decimals(file):
    found = read_spectra(file(table(["2,4-D", "0,5 ppb"], AXIS)))
    assert found.names == ["2,4-D", "0.5 ppb"]
    with pytest.raises(SpectraError, match=r"found '0\.5', expected a number with a decimal comma"):
        read_spectra(file(table(["2,4-D", "0,5 ppb"], AXIS, "0.5")))


# lengths


@pytest.mark.parametrize("long", ["1" * 64_000, "1," * 32_000, "," * 64_000, "1." * 32_000])
@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
@pytest.mark.parametrize("place", ["name", "cell", "axis"])
def test_a_long_cell_takes_no_time(file, long, delimiter, place):
    content = {
        "name": table([*LEVELS, long], AXIS, delimiter=delimiter),
        "cell": table(LEVELS, AXIS, delimiter=delimiter) + delimiter.join(["430", long, *"123"]),
        "axis": table(LEVELS, [*AXIS, long], delimiter=delimiter),
    }
    began = time.perf_counter()
    for read in (read_table, read_spectra):
        with pytest.raises(SpectraError):
            read(file(content[place]))
    assert time.perf_counter() - began < 1


# which way a table runs


def turned(levels, axis, corner):
    return table([f"{at:g}" for at in axis], [f"{level:g}" for level in levels], "0.5", ",", corner)


@pytest.mark.parametrize(
    ("levels", "axis", "corner"),
    [
        ([0, 10, 20, 30], np.arange(400, 451, 10), "wavelength_nm"),
        ([0, 10, 20, 30], np.arange(400, 800, 10), "wavelength"),
        ([5, 10, 20, 30], np.linspace(400, 700, 31), "wavelength (nm)"),
        ([100, 200, 300, 500], np.arange(400, 801, 10), "wavelength_nm"),
        ([0, 50, 100, 500], np.arange(300, 800, 12), "raman_shift_cm1"),
        ([0, 1, 2, 5], np.linspace(0.4, 0.8, 9), "wavelength_um"),
        ([0, 10, 20, 30], np.arange(700, 399, -20), "wavelength_nm"),
    ],
)
def test_levels_below_an_axis_are_asked_about(file, levels, axis, corner):
    path = file(turned(levels, axis, corner))
    with pytest.raises(SpectraError, match=r"row 1, column 1: .* write concentration in the first"):
        read_table(path)
    path.write_text(path.read_text().replace(corner, "concentration", 1))
    np.testing.assert_array_equal(read_table(path).concentrations, levels)


@pytest.mark.parametrize(
    ("names", "axis"),
    [
        ([100, 300, 600, 900], [200, 201, 202, 203]),
        ([0, 10, 20, 30, 40], [450, 520, 650]),
        ([0, 100, 200, 300], [1, 2, 3]),
        (range(100, 1000, 100), range(400, 420)),
        (range(0, 500, 50), [450, 520, 650]),
    ],
)
def test_levels_that_could_be_an_axis_are_none_above_one(file, names, axis):
    content = table([str(n) for n in names], [str(a) for a in axis], "0.5", ",")
    np.testing.assert_array_equal(read_table(file(content)).axis, axis)


# columns that pandas has renamed


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["0", "10", "10.1", "20", "30"], "'10.1' beside '10': a level of its own, or what pandas"),
        (["0", "10", "20", "30", "10.1", "20.1"], "'10.1' beside '10'"),
        (["0", "10", "10.1", "10.2", "30"], "'10.1' beside '10'"),
    ],
)
def test_what_pandas_calls_a_second_column_is_asked_about(file, names, found):
    with pytest.raises(SpectraError, match=f"{found}.*|write 10__r2 for a scan, or 10.10"):
        read_table(file(table(names, AXIS, "0.5", ",")))
    again = [name.replace("10.1", "10.10").replace("20.1", "20.10") for name in names]
    if "10.2" not in names:
        levels = sorted(float(name) for name in again)
        assert read_table(file(table(again, AXIS, "0.5", ","))).concentrations.tolist() == levels


@pytest.mark.parametrize(
    "names",
    [
        ["0", "0.1", "1", "10"],
        ["0", "0.1", "0.2", "0.3"],
        ["1", "1.5", "2", "3"],
        ["1.1", "2", "3.1", "4"],
    ],
)
def test_levels_that_pandas_would_not_make_are_levels(file, names):
    found = read_table(file(table(names, AXIS, "0.5", ",")))
    assert found.concentrations.tolist() == [float(name) for name in names]


# numbers that stand for no number


@pytest.mark.parametrize("number", ["9.969209968386869e36", "9.96921e+36", "-9.9692099e36"])
def test_what_netcdf_has_where_nothing_was_written_is_refused(file, number):
    content = table(LEVELS, AXIS, "0.5", ",") + f"430,1,2,{number},4\n"
    for read in (read_table, read_spectra):
        if number.startswith("-"):
            assert read(file(content)) is not None  # no such number
        else:
            with pytest.raises(SpectraError, match=r"found 9\.96921e\+36, which NetCDF has where"):
                read(file(content))
