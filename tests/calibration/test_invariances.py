"""What must not change estimates, or only scale them: orders, units, constants, copies."""

import numpy as np
import pytest

from geonode import ConcentrationRegressor, MixtureCalibration
from geonode.calibration.fit import Calibration

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

BESIDE = "permuted wavelengths, given twice, among others of one number"
"""A change of what is beside a wavelength, which preprocessings see."""

CHANGES = {
    "a reversed axis and a constant": lambda x: x[:, ::-1] + 0.7,
    "another unit of the signal and a constant below zero": lambda x: 1000 * x - 3000.0,
    BESIDE: lambda x: np.c_[np.full(len(x), 0.4), x, x[:, ORDER], np.zeros(len(x))],
}


def found(kind, change=lambda x: x, amounts=lambda y: y, *, preprocessed=False):
    """Method, estimates and ends of intervals."""
    known, levels = change(KNOWN[kind][0]), amounts(KNOWN[kind][1])
    if kind == "one":
        model = Calibration.fit(known, levels, preprocessed=preprocessed)
        return model.method, *model.estimate(change(UNKNOWN[kind]))
    several = MixtureCalibration.of(known, levels, preprocessed=preprocessed)
    estimates = several.estimate(change(UNKNOWN[kind]))
    return None, estimates.amounts, estimates.intervals


@pytest.fixture(scope="module", params=["one", "several"])
def plain(request):
    return request.param, found(request.param)


def assert_same(one, other, tolerance=1e-9):
    assert one[0] == other[0]
    size = np.abs(other[1]).max()
    for values, expected in zip(one[1:], other[1:], strict=True):
        np.testing.assert_allclose(values, expected, rtol=0, atol=tolerance * size)


@pytest.mark.parametrize("name", CHANGES)
def test_what_says_nothing_changes_nothing(plain, name):
    kind, expected = plain
    preprocessed = name == BESIDE
    if preprocessed:
        expected = found(kind, preprocessed=True)
    assert_same(found(kind, CHANGES[name], preprocessed=preprocessed), expected)


def test_single_precision_changes_its_last_digits(plain):
    kind, expected = plain
    assert_same(found(kind, lambda x: x.astype(np.float32)), expected, 1e-6)


def test_estimates_are_in_the_unit_of_the_levels(plain):
    kind, expected = plain
    units = np.array(1000.0 if kind == "one" else [1e-3, 1e4])
    chosen, middle, ends = found(kind, amounts=lambda y: units * y)
    assert_same((chosen, middle / units, ends / units[..., None]), expected)


def test_the_order_of_samples_and_substances_says_nothing(plain):
    kind, (chosen, middle, ends) = plain
    known, levels = KNOWN[kind]
    order = np.random.default_rng(5).permutation(len(known))
    turned = np.flip if kind == "several" else lambda one, axis: one
    model = ConcentrationRegressor().fit(known[order], turned(levels[order], 1))
    values, intervals = model.predict(UNKNOWN[kind], return_interval=True)
    chosen_again = model.method_ if kind == "one" else None
    assert_same((chosen_again, turned(values, 1), turned(intervals, 1)), (chosen, middle, ends))
