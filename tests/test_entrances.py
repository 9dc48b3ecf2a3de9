"""Whatever is array-like is read alike at every public entrance, or refused."""

import numpy as np
import pandas as pd
import pytest
import torch

from geonode import Calibration, ConcentrationRegressor, MixtureCalibration, SpectralModel
from geonode.calibration.calibration_file import CalibrationFile
from geonode.errors import SpectraError
from geonode.spectra.series import LABELS, Series

AXIS = np.arange(400, 500, 10.0)
BANDS = np.exp(-(((AXIS - [[430.0], [470.0]]) / 15) ** 2))
AMOUNTS = np.array([[0, 0], [1, 2], [2, 1], [3, 5], [5, 3], [8, 1], [1, 8], [6, 6.0]])
ONE = np.array([0, 1, 2, 4, 6, 8.0])
NOISE = np.random.default_rng(0).normal(0, 1e-3, (8, len(AXIS)))
S1, S2 = 0.1 + ONE[:, None] * BANDS[0] + NOISE[:6], 0.1 + AMOUNTS @ BANDS + NOISE
FAST = {"preset": "fast"}


def table(array, kind="float64"):
    return (pd.DataFrame if array.ndim == 2 else pd.Series)(array).astype(kind)


ALIKE = {
    "columns backward": lambda array: array[..., ::-1].copy()[..., ::-1],
    "big-endian": lambda array: array.astype(">f8"),
    "lists": lambda array: array.tolist(),
    "pandas": table,
    "nullable pandas": lambda array: table(array, "Float64"),
    "nothing masked": np.ma.masked_array,
    "torch": torch.tensor,
}
REFUSED = {
    "masked": lambda array: np.ma.masked_array(array, array == array.flat[0]),
    "truth": lambda array: array > 0.5,
    "dates": lambda array: (1e3 * array).astype("M8[s]"),
    "texts": lambda array: array.astype(str).astype(object),
    "too large": lambda array: np.where(array == array.flat[0], 10**400, array.astype(object)),
    "no numbers|array": lambda array: [*array.tolist()[:-1], [[1.0]]],
    "complex|Complex": lambda array: array + 1j,
    "NaN|object": lambda array: table(np.where(array > 0.5, np.nan, array), "Float64"),
    "NaN": lambda array: np.where(array == array.flat[-1], np.nan, array),
    "shape|dim|1d|samples": lambda array: array[None],
}


@pytest.fixture(scope="module")
def entrances():
    """Numbers that entrances give for an array, with the array; those that only estimate first."""
    of_one, of_two = (ConcentrationRegressor().fit(*of) for of in ((S1, ONE), (S2, AMOUNTS)))
    model = SpectralModel.learn(ONE, S1, AXIS, FAST)
    about = AMOUNTS, AXIS, S2, dict.fromkeys(LABELS, "1"), ("a", "b"), ("1", "1")
    two = CalibrationFile.of("two", Series(*about))
    one = CalibrationFile.of("one", Series.of_rows(ONE, S1, AXIS, 4))
    return [
        (of_one.predict, S1),
        (of_two.predict, S2),
        (lambda x: of_one.calibration_.estimate(x)[0], S1),
        (lambda x: of_two.calibration_.estimate(x).amounts, S2),
        (lambda x: one.estimate(x)[0], S1),
        (lambda x: two.estimate(x)[0], S2),
        (lambda c: model.predict(c).spectra, ONE),
        (lambda x: ConcentrationRegressor().fit(x, ONE).predict(S1), S1),
        (lambda y: ConcentrationRegressor().fit(S1, y).predict(S1), ONE),
        (lambda x: Calibration.fit(x, ONE).estimate(S1)[0], S1),
        (lambda x: ConcentrationRegressor().fit(x, AMOUNTS).predict(S2), S2),
        (lambda y: MixtureCalibration.of(S2, y).estimate(S2).amounts, AMOUNTS),
        (lambda x: SpectralModel.learn(ONE, x, None, FAST).predict(ONE).spectra, S1),
        (lambda c: SpectralModel.learn(c, S1, AXIS, FAST).series.signal, ONE),
        (lambda w: SpectralModel.learn(ONE, S1, w, FAST).series.axis, AXIS),
    ]


@pytest.mark.slow
def test_every_entrance_reads_alike_or_refuses(entrances):
    for place, (read, array) in enumerate(entrances):
        expected = read(array)
        for kind in ALIKE if place < 7 else ("columns backward", "lists"):
            np.testing.assert_array_equal(read(ALIKE[kind](array)), expected, f"{place}: {kind}")
        for what, convert in REFUSED.items():
            with pytest.raises((SpectraError, ValueError), match=what):
                read(convert(array))
