from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest

from geonode.calibration.estimator import columns_of, require_same_columns
from geonode.errors import SpectraError

WAVELENGTHS = [400.0, 450.5, 500.0]


def frame(columns):
    return pd.DataFrame(np.zeros((2, len(columns))), columns=columns)


@pytest.mark.parametrize(
    ("table", "names"),
    [
        (np.zeros((2, 3)), None),
        (pd.DataFrame(np.zeros((2, 3))), None),  # counted from 0 on
        (frame(["0", "1", "2"]), None),  # the same from a file
        (frame([2, 1, 0]), [2.0, 1.0, 0.0]),
        (frame([400, 450.5, 500]), WAVELENGTHS),
        (frame(np.array([400, 450.5, 500], np.float32)), WAVELENGTHS),
        (frame(["400", "450.5", "5e2"]), WAVELENGTHS),
        (frame(["400 nm", "450.5 nm", "500 nm"]), WAVELENGTHS),
        (frame(["400", "450.5", "water"]), ["400", "450.5", "water"]),
    ],
)
def test_columns_are_called_by_numbers_if_all_are(table, names):
    assert columns_of(table) == names


@pytest.mark.parametrize(
    ("columns", "known", "message"),
    [
        ([400, 450.5, 500], WAVELENGTHS, None),
        ([400, 450.50001, 500], WAVELENGTHS, None),  # another way to write it
        ([500, 600, 700], None, None),
        ([0, 1, 2], WAVELENGTHS, None),
        (["a", "b", "c"], ["a", "b", "c"], None),
        ([500, 550.5, 600], WAVELENGTHS, "X: found column 1 called 500.0, expected 400.0 as in"),
        ([500, 450.5, 400], WAVELENGTHS, "column 1 called 500.0, expected 400.0"),
        ([400, 450, 500], WAVELENGTHS, "column 2 called 450.0, expected 450.5"),
        ([400, 450.5], WAVELENGTHS, "column 3 called none, expected 500.0"),
        ([2, 1, 0], [0.0, 1.0, 2.0], "column 1 called 2.0, expected 0.0"),
        (["a", "b", "c"], WAVELENGTHS, "column 1 called a, expected 400.0"),
        (["b", "a", "c"], ["a", "b", "c"], "column 1 called b, expected a"),
        ([400, 450.5, 500], ["a", "b", "c"], "column 1 called 400.0, expected a"),
    ],
)
def test_columns_are_those_of_the_fit(columns, known, message):
    require_same_columns(np.zeros((2, 3)), known)
    with pytest.raises(SpectraError, match=message) if message else nullcontext():
        require_same_columns(frame(columns), known)
