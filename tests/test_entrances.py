"""Whatever is array-like is read alike at every public entrance, or refused in one line."""

import numpy as np
import pandas as pd
import pytest
import torch

from geonode import Calibration, ConcentrationRegressor, MixtureCalibration, SpectralModel
from geonode.calibration.calibrated_file import CalibratedFile
from geonode.calibration.mixture_file import MixtureFile
from geonode.errors import SpectraError
from geonode.estimation.rows import series_of
from geonode.spectra.arrays import real_array
from geonode.spectra.mixture_series import MixtureSeries
from geonode.spectra.preprocessing import Preprocessing

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
    "rows backward": lambda array: array[::-1].copy()[::-1],
    "columns backward": lambda array: array[..., ::-1].copy()[..., ::-1],
    "big-endian": lambda array: array.astype(">f8"),
    "by columns": np.asfortranarray,
    "lists": lambda array: array.tolist(),
    "pandas": table,
    "nullable pandas": lambda array: table(array, "Float64"),
    "nothing masked": np.ma.masked_array,
    "torch": torch.tensor,
}
REFUSED = {
    "complex": (lambda array: array + 1j, "complex numbers"),
    "masked": (lambda array: np.ma.masked_array(array, array == array.flat[0]), "masked values"),
    "texts": (lambda array: array.astype(str), "texts"),
    "objects of texts": (lambda array: array.astype(str).astype(object), "texts"),
    "missing": (
        lambda array: table(np.where(array > 0.5, np.nan, array), "Float64"),
        "(objects|NaN)",
    ),
    "ragged": (lambda array: [*array.tolist()[:-1], [[1.0]]], "no array"),
    "NaN": (lambda array: np.where(array == array.flat[-1], np.nan, array), "NaN or infinity at"),
    "another dimension": (lambda array: array[None], "an array of shape"),
    "a scalar": (lambda array: 3.0, "an array of shape"),
    "truth values": (lambda array: array > 0.5, "truth values"),
}


@pytest.mark.parametrize("array", [ONE, S1], ids=["vector", "table"])
def test_what_is_array_like_becomes_native_contiguous_numbers(array):
    dims = ("sample", "wavelength")[: array.ndim]
    for kind, convert in {**ALIKE, "float32": lambda one: one.astype(np.float32)}.items():
        found = real_array(convert(array), "spectra", *dims)
        np.testing.assert_array_equal(found, array if kind != "float32" else convert(array))
        assert found.dtype == np.dtype("=f8")
        assert found.flags.c_contiguous
    for convert, what in REFUSED.values():
        with pytest.raises(SpectraError, match=rf"^spectra: found {what}.*finite numbers"):
            real_array(convert(array), "spectra", *dims)


@pytest.fixture(scope="module")
def entrances():
    """Numbers that entrances give for an array, with the array; those that only estimate first."""
    of_one, of_two = (
        ConcentrationRegressor().fit(S1, ONE),
        ConcentrationRegressor().fit(S2, AMOUNTS),
    )
    model = SpectralModel.learn(ONE, S1, AXIS, FAST)
    labels = {"signal": "A", "signal_unit": "1", "axis": "wavelength", "axis_unit": "nm"}
    about = [str(at) for at in range(8)], ("a", "b"), ("1", "1")
    mixtures = MixtureSeries(*about, AMOUNTS, AXIS, S2, labels, Preprocessing())
    files = CalibratedFile.of("one", series_of(ONE, S1, AXIS, 4)), MixtureFile.of("two", mixtures)
    return {
        "predict": (of_one.predict, S1),
        "predict, two": (of_two.predict, S2),
        "estimate": (lambda x: of_one.estimate(x).mode, S1),
        "estimate, two": (lambda x: of_two.estimate(x).amounts, S2),
        "Calibration": (lambda x: of_one.calibration_.estimate(x)[0], S1),
        "MixtureCalibration": (lambda x: of_two.calibration_.estimate(x).amounts, S2),
        "file": (lambda x: files[0].estimate(x)[0], S1),
        "file, two": (lambda x: files[1].estimate(x)[0], S2),
        "spectra": (lambda c: model.predict(c).spectra, ONE),
        "fit": (lambda x: ConcentrationRegressor().fit(x, ONE).predict(S1), S1),
        "fit of levels": (lambda y: ConcentrationRegressor().fit(S1, y).predict(S1), ONE),
        "Calibration.fit": (lambda x: Calibration.fit(x, ONE).estimate(S1)[0], S1),
        "fit, two": (lambda x: ConcentrationRegressor().fit(x, AMOUNTS).predict(S2), S2),
        "of amounts": (lambda y: MixtureCalibration.of(S2, y).estimate(S2).amounts, AMOUNTS),
        "learn": (lambda x: SpectralModel.learn(ONE, x, None, FAST).predict(ONE).spectra, S1),
        "learn levels": (lambda c: SpectralModel.learn(c, S1, AXIS, FAST).series.signal, ONE),
        "learn axis": (lambda w: SpectralModel.learn(ONE, S1, w, FAST).series.axis, AXIS),
    }


@pytest.mark.slow
def test_every_entrance_reads_alike_and_refuses_in_one_line(entrances):
    for place, (entrance, (read, array)) in enumerate(entrances.items()):
        expected = read(array)
        for kind in ALIKE if place < 9 else ("columns backward", "lists"):
            found = read(ALIKE[kind](array))
            np.testing.assert_array_equal(found, expected, f"{entrance}: {kind}")
        for kind in ("masked", "texts", "objects of texts", "truth values"):
            convert, what = REFUSED[kind]
            with pytest.raises(SpectraError, match=rf"^\w+: found {what}"):
                read(convert(array))
        with pytest.raises((SpectraError, ValueError), match=r"(?i)complex"):
            read(array + 1j)
