"""What must not change estimates, or only scale them: orders, units, constants, copies."""

from dataclasses import replace

import numpy as np
import pytest

from geonode import ConcentrationRegressor, MixtureCalibration
from geonode.calibration.calibration_file import CalibrationFile
from geonode.calibration.fit import Calibration
from geonode.spectra.series import Series

AXIS = np.linspace(0, 1, 24)
LEVELS = np.array([0.0, 1.0, 3.0, 10.0, 30.0, 60.0])
AMOUNTS = np.random.default_rng(0).random((12, 2)) * [10.0, 4.0]
ORDER = np.random.default_rng(1).permutation(len(AXIS))


def band(place, width):
    return np.exp(-(((AXIS - place) / width) ** 2))


def spectra(amounts, seed):
    """One amount saturates, or the first of two; noise of 0.002."""
    columns = np.asarray(amounts, float).reshape(len(amounts), -1).T
    first = columns[0] / (1 + 0.02 * columns[0])
    signal = 0.05 + 0.03 * first[:, None] * band(0.4, 0.15)
    signal = signal + 0.02 * columns[-1][:, None] ** 0.9 * band(0.7, 0.1)
    return signal + 0.002 * np.random.default_rng(seed).normal(size=signal.shape)


KNOWN = {"one": (spectra(LEVELS, 1), LEVELS), "several": (spectra(AMOUNTS, 2), AMOUNTS)}
UNKNOWN = {
    "one": spectra([0.5, 7.0, 33.0], 3),
    "several": spectra(AMOUNTS[:3] * 0.9 + 0.3, 4),
}

CHANGES = {
    "permuted wavelengths": lambda x: x[:, ORDER],
    "a reversed axis": lambda x: x[:, ::-1],
    "another unit of the signal": lambda x: 1000 * x,
    "a constant": lambda x: x + 0.7,
    "a constant below zero": lambda x: x - 3.0,
    "a wavelength of zeros": lambda x: np.c_[x, np.zeros(len(x))],
    "a wavelength of one number": lambda x: np.c_[np.full(len(x), 0.4), x],
    "wavelengths given twice": lambda x: np.c_[x, x],
}
NEIGHBOURS = {"permuted wavelengths", *[*CHANGES][-3:]}
"""Changes of what is beside a wavelength, which preprocessings see."""


def found(kind, change=lambda x: x, amounts=lambda y: y, method="auto", *, preprocessed=False):
    """Method, estimates and ends of intervals."""
    known, levels = change(KNOWN[kind][0]), amounts(KNOWN[kind][1])
    if kind == "one":
        model = Calibration.fit(known, levels, method=method, preprocessed=preprocessed)
        return model.method, *model.estimate(change(UNKNOWN[kind]))
    several = MixtureCalibration.of(known, levels, preprocessed=preprocessed)
    estimates = several.estimate(change(UNKNOWN[kind]))
    return None, estimates.amounts, estimates.intervals


@pytest.fixture(scope="module", params=[("one", "geonode"), ("one", "auto"), ("several", "auto")])
def plain(request):
    kind, method = request.param
    return kind, method, found(kind, method=method)


def assert_same(one, other, tolerance=1e-9):
    assert one[0] == other[0]
    size = np.abs(other[1]).max()
    for values, expected in zip(one[1:], other[1:], strict=True):
        np.testing.assert_allclose(values, expected, rtol=0, atol=tolerance * size)


@pytest.mark.parametrize("name", CHANGES)
def test_what_says_nothing_changes_nothing(plain, name):
    kind, method, expected = plain
    how = {"method": method, "preprocessed": name in NEIGHBOURS}
    if name in NEIGHBOURS:
        expected = found(kind, **how)
    assert_same(found(kind, CHANGES[name], **how), expected)


def test_single_precision_changes_its_last_digits(plain):
    kind, method, expected = plain
    assert_same(found(kind, lambda x: x.astype(np.float32), method=method), expected, 1e-6)


def test_estimates_are_in_the_unit_of_the_levels(plain):
    kind, method, (chosen, middle, ends) = plain
    scaled = found(kind, amounts=lambda y: 1000 * y, method=method)
    assert_same(scaled, (chosen, 1000 * middle, 1000 * ends))


def test_the_order_of_samples_says_nothing(plain):
    kind, method, expected = plain
    known, levels = KNOWN[kind]
    order = np.random.default_rng(5).permutation(len(known))
    model = ConcentrationRegressor(method=method).fit(known[order], levels[order])
    chosen = model.method_ if kind == "one" else None
    assert_same((chosen, *model.predict(UNKNOWN[kind], return_interval=True)), expected)


def test_the_order_of_substances_says_nothing():
    _, middle, ends = found("several")
    _, other, other_ends = found("several", amounts=lambda y: y[:, ::-1])
    assert_same((None, other[:, ::-1], other_ends[:, ::-1]), (None, middle, ends))


def test_the_unit_of_the_axis_says_nothing():
    series = Series.of_rows(LEVELS, KNOWN["one"][0], 400 + 100 * AXIS, 3)
    each = [
        CalibrationFile.of("x", replace(series, axis=factor * series.axis)).estimate(UNKNOWN["one"])
        for factor in (1.0, 1000.0)
    ]
    np.testing.assert_array_equal(each[0][0], each[1][0])
    np.testing.assert_array_equal(each[0][1], each[1][1])
