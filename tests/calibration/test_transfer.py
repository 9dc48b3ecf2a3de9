"""Transfer between simulated instruments."""

import numpy as np
import pytest

from geonode.calibration.transfer import Transfer
from geonode.errors import SpectraError
from geonode.spectra.preprocessed_pls import AS_MEASURED, fit_preprocessed

AXIS = np.arange(80.0)
PURE = np.stack([np.exp(-(((AXIS - at) / 8) ** 2)) for at in (25, 37, 55)])
RANDOM = np.random.default_rng(4)
AMOUNTS = RANDOM.random((50, 3))
FIRST = 0.2 + AMOUNTS @ PURE + 1e-3 * RANDOM.normal(size=(50, 80))
TARGET = AMOUNTS[:, 0]
KNOWN, STANDARDS, UNKNOWN = slice(0, 30), slice(0, 6), slice(30, 50)


@pytest.fixture(scope="module")
def by():
    known = TARGET[KNOWN, None]
    folds = np.arange(30) % 10
    (found,) = fit_preprocessed(known, FIRST[KNOWN], folds, preprocessings=[AS_MEASURED])
    return lambda spectra: found.fit.estimates(spectra)[:, 0]


def fitted(second, by):
    return Transfer.fit(second[STANDARDS], FIRST[STANDARDS], TARGET[STANDARDS], by)


def rmsep(transfer, second, by):
    found = transfer.amounts(by(transfer.spectra(second[UNKNOWN])))
    return np.sqrt(np.mean((found - TARGET[UNKNOWN]) ** 2))


def test_nothing_is_corrected_where_nothing_is_to_be_gained():
    exact = AMOUNTS[:8] @ PURE
    slopes = np.linalg.pinv(PURE)[:, 0]
    found = Transfer.fit(exact, exact, TARGET[:8], lambda spectra: spectra @ slopes)
    assert found.kind == "none"
    np.testing.assert_array_equal(found.spectra(FIRST), FIRST)
    np.testing.assert_array_equal(found.amounts(TARGET), TARGET)
    assert found.sentence.startswith("No correction for the second instrument is better")


def test_an_offset_and_a_gain_are_slope_and_bias(by):
    found = fitted(0.3 + 1.2 * FIRST, by)
    assert found.kind in ("slope and bias", "piecewise")
    first = np.sqrt(np.mean((by(FIRST[UNKNOWN]) - TARGET[UNKNOWN]) ** 2))
    assert rmsep(found, 0.3 + 1.2 * FIRST, by) < 1.5 * first


@pytest.mark.parametrize("kind", ["shift", "stray", "gain"])
def test_errors_on_the_second_instrument_are_about_those_on_the_first(kind, by):
    second = {
        "shift": np.stack([np.interp(AXIS - 0.7, AXIS, one) for one in FIRST]),
        "stray": -np.log10((10**-FIRST + 0.003) / 1.003),
        "gain": FIRST * (1.05 + 0.05 * np.sin(AXIS / 20)) + 0.02,
    }[kind]
    before = np.sqrt(np.mean((by(second[UNKNOWN]) - TARGET[UNKNOWN]) ** 2))
    found = fitted(second, by)
    assert found.after < found.before
    assert rmsep(found, second, by) < 0.2 * before


def test_a_gain_of_every_wavelength_is_undone_exactly():
    gain = 1 + 0.2 * np.sin(AXIS / 10)
    spectra, slopes = AMOUNTS[:8] @ PURE, np.linalg.pinv(PURE)[:, 0]
    found = Transfer.fit(spectra * gain, spectra, TARGET[:8], lambda x: x @ slopes)
    assert found.kind == "piecewise"
    np.testing.assert_allclose(found.spectra(spectra * gain), spectra, atol=1e-9)
    np.testing.assert_allclose(found.after, 0, atol=1e-9)


def test_fewer_than_five_standards_are_refused(by):
    with pytest.raises(SpectraError, match=r"found 4 standards .* expected 5 or more"):
        Transfer.fit(FIRST[:4], FIRST[:4], TARGET[:4], by)
