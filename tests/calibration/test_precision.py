"""Precision profiles in closed form, and of calibrations."""

import numpy as np
import pytest

from geonode.calibration.checks import not_independent
from geonode.calibration.precision import (
    EXPECTED,
    OF_GEONODE,
    PRIOR,
    PrecisionProfile,
)
from geonode.estimation.curve import Curve
from geonode.estimation.information import Information
from geonode.spectra.series import Series
from tests.calibration import beer

NODES = np.linspace(0, 10, 101)
CONSTANT = PrecisionProfile(NODES, np.full(101, 0.45), 10 / 0.45)
"""That of a line with white noise."""


def test_a_line_with_white_noise_has_one_error_and_a_working_range():
    assert CONSTANT.working_range() == pytest.approx((0.45 / 0.2, 10))
    assert CONSTANT.working_range(0.1) == pytest.approx((4.5, 10))
    assert CONSTANT.working_range(0.04) is None
    assert CONSTANT.blind == []
    found = CONSTANT.at(np.array([-0.1, 0.0, 3.33, 10.0, 10.1]))  # the levels are from 0 to 10
    np.testing.assert_array_equal(found, [np.nan, 0.45, 0.45, 0.45, np.nan])


def test_a_profile_that_turns_has_two_ranges():
    profile = PrecisionProfile(NODES, 0.5 + 4 * np.maximum(0, 1 - np.abs(NODES - 6)), 1.0)
    assert profile.working_range() == pytest.approx((28.5 / 4.2, 10))  # the other is 2.5 to 5.13
    assert profile.blind == [pytest.approx((5.5, 6.5))]


@pytest.mark.parametrize("times", [0.5, 4.0])
def test_the_factor_is_that_of_the_levels_left_out(times):
    """Lengths of `times` between the three inner levels and their estimates."""
    spectra, levels = np.stack([one.mean(axis=0) for one in beer.scans()]), beer.LEVELS
    curve = Curve.of(Series.of_rows(levels, spectra, None, 3), one_scan=True)
    information = Information.of(curve)
    place = np.interp(levels, curve.concentrations, information.length) + times
    left_out = np.interp(place, information.length, curve.concentrations)
    profile = PrecisionProfile.of_curve(curve, levels[::-1], left_out[::-1])
    normal = np.exp(np.mean(np.log(np.abs(np.random.default_rng(0).normal(size=100_000)))))
    size = OF_GEONODE * (EXPECTED**PRIOR * (times / normal) ** 3) ** (1 / (PRIOR + 3))
    expected = np.interp(profile.concentrations, curve.concentrations, information.errors(size))
    np.testing.assert_allclose(profile.standard_errors, expected, rtol=5e-3)
    assert profile.length == pytest.approx(np.ptp(place[[0, -1]]) / size, rel=5e-3)


def test_spectra_of_the_calibration_are_found_among_others():
    scans = np.concatenate(beer.scans())
    others = np.stack([scans[3], scans[3] * (1 + 1e-13), scans[3] * (1 + 1e-9), scans[1] + 0.01])
    said = not_independent("f", ["a", "b", "c", "d"], others, scans, "calibrated")
    assert said.startswith("f: calibrated with a and b too, ")
    assert not not_independent("f", ["zero"], 0 * scans[:1], scans, "calibrated")
