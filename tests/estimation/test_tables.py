import csv
import io

from geonode.estimation.tables import alternatives_text, csv_text


def test_cells_have_six_digits_no_exponent_and_are_no_formulas():
    row = ["a", 'b, "c"', "=1+1", 13.123456789, 2e-7, 1234567.0, 40.0, True, None]
    header, read = csv.reader(io.StringIO(csv_text([*"abcdefgh", "@i"], [row])))
    assert header[-1] == "'@i"
    assert read == ["a", 'b, "c"', "'=1+1", "13.1235", "0.0000002", "1234570", "40", "true", ""]


def test_alternatives_are_said_of_two_or_more():
    assert alternatives_text([13.123456, 42.0]) == "13.1235 or 42"
    assert alternatives_text([42.0]) == ""
