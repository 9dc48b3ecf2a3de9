from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest

from geonode.calibration.estimator import require_same_columns
from geonode.errors import SpectraError

WAVELENGTHS = [400.0, 450.5, 500.0]


def frame(columns):
    return pd.DataFrame(np.zeros((2, len(columns))), columns=columns)


@pytest.mark.parametrize(
    ("columns", "known", "message"),
    [
        ([400, 450.5, 500], WAVELENGTHS, None),
        (np.array([400, 450.5, 500], np.float32), WAVELENGTHS, None),
        (["400 nm", "450.50001", "5e2"], WAVELENGTHS, None),  # other ways to write them
        ([500, 600, 700], None, None),
        ([0, 1, 2], WAVELENGTHS, None),  # counted from 0 on
        (["a", "b", "c"], ["a", "b", "c"], None),
        ([500, 550.5, 600], WAVELENGTHS, "X: found column 1 called 500.0, expected 400.0 as in"),
        ([400, 450.5], WAVELENGTHS, "column 3 called none, expected 500.0"),
        ([2, 1, 0], [0.0, 1.0, 2.0], "column 1 called 2.0, expected 0.0"),
        (["b", "a", "c"], ["a", "b", "c"], "column 1 called b, expected a"),
    ],
)
def test_columns_are_those_of_the_fit(columns, known, message):
    require_same_columns(np.zeros((2, 3)), known)
    with pytest.raises(SpectraError, match=message) if message else nullcontext():
        require_same_columns(frame(columns), known)
