import csv
import io
from dataclasses import replace

import numpy as np

from geonode.estimation.posterior import estimate
from geonode.estimation.tables import EstimateRow, csv_text, estimated, header
from geonode.spectra.table import Spectra
from tests.estimation.trained import AXIS, spectra_at

ONE = EstimateRow("a", 13.0, 13.123456789, 1.5, [(10.0, 15.5)], [(13.0, 1.0)], 0.5, True)
TWO = EstimateRow(
    'b, "c"', 42.0, 30.0, 12.0, [(12.1, 14.2), (40.3, 44.0)], [(42.0, 0.701), (13.1, 0.299)],
    0.25, True,
)  # fmt: skip
NONE = EstimateRow("d", 2e-7, 3e-7, 1e-9, [(1e-7, 1234567.0)], [(2e-7, 1.0)], 1.23456789e-9, False)


def read(rows):
    cells = [row.cells() for row in rows]
    return list(csv.DictReader(io.StringIO(csv_text(cells[0], [row.values() for row in cells]))))


def test_cells_have_six_digits_and_concentrations_no_exponent():
    rows = read([ONE, TWO, NONE])
    assert list(rows[0].values()) == [
        "a", "13", "13.1235", "1.5", "10", "15.5", "10-15.5", "1", "13 (1.00)", "false", "0.5",
        "true",
    ]  # fmt: skip
    assert rows[1]["name"] == 'b, "c"'
    assert rows[1]["set90"] == "12.1-14.2; 40.3-44"
    assert rows[1]["modes"] == "42 (0.70); 13.1 (0.30)"
    assert (rows[1]["low90"], rows[1]["high90"]) == ("12.1", "44")
    assert (rows[1]["intervals"], rows[1]["ambiguous"]) == ("2", "true")
    assert rows[2]["set90"] == "0.0000001-1234570"
    assert (rows[2]["p_value"], rows[2]["fits"]) == ("1.23457e-09", "false")


def test_no_single_number_stands_for_parts_within_a_factor_of_two():
    """TWO has parts of 0.70 and 0.30; with 0.6 and 0.4 both are printed, the lower one first."""
    alike = replace(TWO, modes=[(42.0, 0.6), (13.1, 0.4)])
    assert (TWO.alternatives, alike.alternatives) == ([42.0], [13.1, 42.0])
    assert [row["mode"] for row in read([TWO, alike])] == ["42", "13.1 or 42"]
    assert [row.shown()[1] for row in (TWO, alike)] == ["42", "13.1 or 42"]
    assert (TWO.to_json()["mode"], alike.to_json()["mode"]) == (42.0, None)
    assert replace(TWO, modes=[(42.0, 2 / 3), (13.1, 1 / 3)]).alternatives == [13.1, 42.0]


def test_sentences_are_about_what_must_be_known():
    assert ONE.sentence("ppb") is None
    assert TWO.sentence("ppb") == (
        'b, "c" is ambiguous: 12.1-14.2 or 40.3-44 ppb: both fit; dilute and measure again.'
    )
    assert NONE.sentence("ppb").startswith("d fits nowhere (p = 1.2e-09)")


def test_lines_on_the_screen():
    assert len(ONE.shown()) == len(header("ppb"))
    assert ONE.shown() == ("a", "13", "13.12", "1.5", "10-15.5", "13 (1.00)", "0.5", "")
    assert [row.shown()[-1] for row in (TWO, NONE)] == ["ambiguous", "fits nowhere"]
    assert header("1")[1] == "mode"
    long = EstimateRow("x" * 41, 1.0, 1.0, 1.0, [(0.0, 2.0)], [(1.0, 1.0)], 1.0, False)
    assert long.shown()[0] == "x" * 39 + "…"


def test_rows_are_the_estimates_by_name(model, curve):
    values, names = spectra_at(np.linspace(5, 25, 7)), [f"s{number}" for number in range(7)]
    spectra = Spectra(names, AXIS, "wavelength", "nm", values, np.empty(0))
    reported = []
    rows = estimated(curve, model.series, spectra, reported.append)
    expected = estimate(curve, values)
    assert [row.name for row in rows] == names
    assert [row.sets for row in rows] == expected.sets
    np.testing.assert_allclose([row.mean for row in rows], expected.mean)
    np.testing.assert_allclose([row.p_value for row in rows], expected.p_value)
    assert reported == [7]
