"""Transfer between simulated instruments."""

import numpy as np
import pytest

from geonode.calibration.checks import Correction
from geonode.calibration.transfer import Piecewise, Transfer, correction_by
from tests.factory import series_of

AXIS = np.arange(80.0)
PURE = np.stack([np.exp(-(((AXIS - at) / 8) ** 2)) for at in (25, 37, 55)])
RANDOM = np.random.default_rng(4)
AMOUNTS = RANDOM.random((50, 3))
AMOUNTS[:30, 0].sort()
TARGET, KNOWN, UNKNOWN = AMOUNTS[:, 0], slice(0, 30), slice(30, 50)
SIGNAL = 0.2 + AMOUNTS @ PURE
FIRST, AGAIN = SIGNAL + 1e-3 * RANDOM.normal(size=(2, 50, 80))
SERIES = series_of(TARGET[KNOWN], FIRST[KNOWN])
STANDARDS = np.arange(0, 30, 5)
SECOND = {
    "none": SIGNAL,
    "bias": SIGNAL + 0.3 * PURE[0],
    "shift": np.stack([np.interp(AXIS - 0.7, AXIS, one) for one in SIGNAL]),
    "stray light": -np.log10((10**-SIGNAL + 0.003) / 1.003),
    "gain": SIGNAL * (1.05 + 0.05 * np.sin(AXIS / 20)) + 0.02,
}
SECOND = {kind: one + AGAIN - SIGNAL for kind, one in SECOND.items()}


def by(spectra):
    """Least squares with the pure spectra and a constant, an estimate of the first of them."""
    basis = np.concatenate([PURE, np.ones((1, 80))])
    return np.linalg.lstsq(basis.T, spectra.T)[0][0]


def corrected(second, standards=STANDARDS):
    names = [str(one) for one in standards]
    about = "other.csv", names, TARGET[standards], by(second[standards])
    return correction_by(about, second[standards], SERIES, by)


def rmsep(correction, second):
    estimates = by(correction.spectra(second[UNKNOWN])) if correction else by(second[UNKNOWN])
    if correction:
        estimates, _ = correction.applied(estimates, np.stack([estimates, estimates], axis=1), 0.9)
    return np.sqrt(np.mean((estimates - TARGET[UNKNOWN]) ** 2))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        *[("bias", "times the estimate"), ("stray light", "times the estimate")],
        *[("shift", "piecewise direct"), ("gain", "piecewise direct")],
    ],
)
def test_most_of_the_errors_on_the_second_instrument_goes(kind, expected):
    found = corrected(SECOND[kind])
    assert expected in found.sentence("g")
    assert "RMSEP of levels left out in turn: " in found.sentence("g")
    assert rmsep(found, SECOND[kind]) < 0.2 * rmsep(None, SECOND[kind])


def test_nothing_is_corrected_where_nothing_has_changed():
    found = corrected(SECOND["none"])
    assert found.sentence("g").startswith("not corrected by 6 standards (other.csv), as nothing")
    assert found.spectra(FIRST) is FIRST


def test_a_gain_of_every_wavelength_is_undone_exactly():
    spectra, gain = AMOUNTS[:8] @ PURE, 1 + 0.2 * np.sin(AXIS / 10)
    made = Piecewise.fit(spectra * gain, spectra, 0, 1)
    np.testing.assert_allclose(made.spectra(spectra * gain), spectra, atol=1e-9)


def test_of_four_levels_there_is_a_line_alone():
    found = corrected(SECOND["shift"], np.repeat(STANDARDS[:4], 2))
    assert isinstance(found, Correction)
    assert not found.tried


def test_intervals_are_as_wide_as_errors_of_levels_left_out_say():
    found = Transfer("s.csv", [], *[np.zeros(0)] * 3, None, 0.5, 6, {})
    middle, ends = found.applied(np.array([3.0, 3.0]), np.array([[2.9, 3.1], [0.0, 3.1]]), 0.9)
    np.testing.assert_array_equal(middle, 3.0)
    half = 0.5 * 2.01504837  # 95% quantile of Student's distribution, 5 degrees of freedom
    np.testing.assert_allclose(ends, [[3 - half, 3 + half], [0, 3 + half]])
