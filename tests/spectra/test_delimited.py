import csv
import io

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from geonode.errors import SpectraError
from geonode.spectra import delimited
from geonode.spectra.delimited import DELIMITERS, read_delimited
from geonode.spectra.reading import read_spectra, read_table
from geonode.spectra.sheet import MOST_COLUMNS

HEADER = ["wavelength_nm", "0.5", "10", "20", "60"]
NUMBERS = np.array([[400, 0.1, -0.2, 3e-5, 4], [410, 0.5, 6, 0.75, 8.25], [420, 1, 2, 3, 4.125]])


def written(delimiter, decimal, quoting=csv.QUOTE_MINIMAL):
    """The table by the csv module."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, quoting=quoting, lineterminator="\n")
    for row in [HEADER, *NUMBERS.tolist()]:
        writer.writerow([str(cell).replace(".", decimal) for cell in row])
    return text.getvalue()


DIALECTS = [
    (delimiter, decimal) for delimiter in DELIMITERS for decimal in ".," if delimiter != decimal
]


@pytest.fixture
def file(tmp_path):
    def write(content, name="series.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
@pytest.mark.parametrize(("delimiter", "decimal"), DIALECTS)
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".txt"])
def test_every_dialect_is_found(file, delimiter, decimal, quoting, suffix):
    table = read_table(file(written(delimiter, decimal, quoting), f"series{suffix}"))
    np.testing.assert_array_equal(table.concentrations, [0.5, 10, 20, 60])
    np.testing.assert_array_equal(np.column_stack([table.axis, table.spectra.T]), NUMBERS)


def test_runs_of_blanks_and_a_byte_order_mark(file):
    text = written(" ", ".").replace(" ", "   \t ")
    table = read_table(file(text.encode("utf-8-sig")))
    np.testing.assert_array_equal(table.spectra.T, NUMBERS[:, 1:])


def test_a_decimal_comma_may_come_late(file):
    rows = "".join(f"{axis};1;2;3;4\n" for axis in range(400, 450))
    table = read_table(file(f"nm;0;1;2;3\n{rows}450;1;2,5;3;4\n"))
    assert table.spectra[1, -1] == 2.5


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "nm;0;1;2;3\n400;1,234;2,345;3,456;4,567\n410;1;2;3;4\n",
            "'4,567' and no number that tells whether its comma is a decimal mark or parts thous",
        ),
        ("nm 0,5\n400 1,5\n410 2,5\n420 3,5\n", "two ways to read .* comma and delimiter blanks"),
        ("nm;0;1\n400;0,5;0.5\n", "row 2, column '1': found '0.5', expected .* a decimal comma"),
        ("nm;0;1\n400;1.000,5;0,5\n", "row 2, column '0': found '1.000,5'"),
        ("nm;0;1\n400;1;2;3\n", "row 2: found 4 cells, expected 3"),
        ('"", \x0b;;\n', "found an empty file"),
        ("nothing\n", "row 1: found one cell, 'nothing', expected several"),
        ("nm" + ",1" * MOST_COLUMNS + "\n", f"found {MOST_COLUMNS + 1} columns, expected at most"),
    ],
)
def test_what_can_be_read_in_two_ways_or_in_none_is_refused(file, content, message):
    for read in (read_table, read_spectra):
        with pytest.raises(SpectraError, match=message):
            read(file(content))


ORDINARY = ["1", "-2.5", "+.1", "1e3", " 7 ", "5.", "1,5", "nan", "NaN", ""]
ODD = ["inf", "1e999", "infinity", "1_0", "x", "0x1", "1d3", "١", "1 2", '"3"', "\u00a04"]
cells = st.sampled_from(ORDINARY + ODD)


@settings(
    deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(st.lists(cells, min_size=3, max_size=3), min_size=1, max_size=3),
    st.sampled_from([";", "\t", " ", "|"]),
)
def test_both_ways_to_numbers_accept_the_same_texts(file, monkeypatch, rows, delimiter):
    lines = [delimiter.join(["nm", "a", "b", "c"])]
    lines += [delimiter.join([str(400 + place), *row]) for place, row in enumerate(rows)]
    path = file("\n".join(lines))

    def outcome():
        try:
            return read_delimited(path).numbers()
        except SpectraError as error:
            return str(error)

    quick = outcome()
    with monkeypatch.context() as patch:
        patch.setattr(delimited, "_at_once", lambda *_: None)
        slow = outcome()
    if isinstance(slow, str) or isinstance(quick, str):
        assert quick == slow
    else:
        np.testing.assert_array_equal(quick, slow)


@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.binary(max_size=200) | st.text(alphabet='nm,;\t| .0159"\n\r__r-e', max_size=200))
def test_only_spectra_errors_come_out_of_any_text(file, content):
    for read in (read_table, read_spectra):
        try:
            read(file(content))
        except SpectraError as error:
            assert "series.csv: " in str(error)
