import csv
import io

import numpy as np
from geonode.scores.predictions import predictions_csv


def test_one_row_for_every_level_and_wavelength():
    text = predictions_csv(
        np.array([200.0, 200.5]),
        ["0", "2.5"],
        np.array([[0.1, 0.2], [0.3, 1e-9]]),
        np.array([[1 / 3, 2.0], [-3.0, 12345678.0]]),
        ("90% interval", np.array([[0.0, 0.01], [0.02, 0.03]])),
    )
    assert text == (
        "left_out,wavelength,measured,predicted,90% interval\n"
        "0,200,0.1,0.333333,0\n"
        "0,200.5,0.2,2,0.01\n"
        "2.5,200,0.3,-3,0.02\n"
        "2.5,200.5,1e-09,1.23457e+07,0.03\n"
    )


def test_names_that_hold_a_comma_are_quoted():
    one = np.array([[1.0]])
    text = predictions_csv(np.array([1.0]), ['a,"b"'], one, one, ("band", one))
    assert next(csv.DictReader(io.StringIO(text)))["left_out"] == 'a,"b"'


def test_six_digits_are_kept():
    random = np.random.default_rng(0)
    axis = np.arange(300.0, 340.0)
    values = random.normal(size=(3, 4, 40)) * 10.0 ** random.integers(-5, 5, size=(3, 4, 40))
    text = predictions_csv(axis, list("abcd"), *values[:2], ("band", values[2]))
    rows = np.genfromtxt(io.StringIO(text), delimiter=",", skip_header=1)[:, 1:]
    np.testing.assert_array_equal(rows[:, 0], np.tile(axis, 4))
    for column, expected in zip(rows.T[1:], values, strict=True):
        np.testing.assert_allclose(column, expected.ravel(), rtol=5.1e-6)
