from dataclasses import replace

import numpy as np
import pytest

from geonode.calibration.limits import Line, curve_limit, pls_limit
from geonode.calibration.methods import fitted
from geonode.calibration.peaks import peaks
from geonode.estimation.posterior import estimate
from geonode.spectra.replicates import Replicates
from tests.calibration import beer
from tests.factory import series_of


def series(levels, scans):
    means = np.stack([of_level.mean(axis=0) for of_level in scans])
    found = series_of(levels, means, beer.AXIS[: means.shape[1]])
    return replace(found, replicates=Replicates.of(scans))


def line_of(levels, signal):
    """Line of a series whose only wavelength has this signal."""
    return Line.of(series(levels, [np.full((1, 1), float(value)) for value in signal]), 0)


def pls_of(series, components):
    """Limit of PLS with so many components."""
    whole = fitted("pls", series.concentrations, series.signal, np.zeros(len(series.signal), int))
    return pls_limit(series, replace(whole, option=components - 1))


def test_a_line_is_that_of_its_normal_equations():
    """By hand: levels -1.5 to 1.5 about their mean, slope 2, residuals (1, -1, -1, 1) / 10."""
    found = line_of(np.arange(4), [0.1, 1.9, 3.9, 6.1])
    assert (found.slope, found.intercept) == pytest.approx((2, 0))
    assert found.deviation == pytest.approx(np.sqrt(0.04 / 2))
    assert found.r2 == pytest.approx(1 - 0.04 / 20.04)
    # Student's distribution with two degrees of freedom: P(|T| > t) = 1 - t / sqrt(t^2 + 2).
    t = 2 / (found.deviation / np.sqrt(5))
    assert found.p_value == pytest.approx(1 - t / np.sqrt(t**2 + 2))


def test_the_relative_standard_error_is_that_of_levels_read_back():
    """Read back: 1.1, 1.8 and 3.1 of 1, 2 and 3, on a line of slope 1 through zero; not the blank.

    sqrt((0.1^2 + 0.1^2 + (0.1 / 3)^2) / (3 - 2)), of two parameters.
    """
    found = line_of([0, 1, 2, 3], [0, 1.1, 1.8, 3.1])
    found = replace(found, intercept=0.0, slope=1.0)
    assert found.relative_error == pytest.approx(100 * np.sqrt(0.02 + 0.01 / 9))
    assert line_of([1, 2, 3, 4], [1.0] * 4).relative_error is None


def test_limits_of_a_line_through_means_are_those_of_one_scan():
    """By hand: three scans of noise 0.2 each; a mean has a third of their variance."""
    means = np.array([0.1, 1.9, 3.9, 6.1])
    scans = [mean + np.array([[-0.2], [0.0], [0.2]]) for mean in means]
    found = Line.of(series([0, 1, 2, 3], scans), 0)
    deviation = np.sqrt(0.04 / 2 + 0.2**2 * (1 - 1 / 3)) / 2
    assert found.limit().detection == pytest.approx(3.3 * deviation)
    once = line_of([0, 1, 2, 3], means).din_limit().detection
    assert found.din_limit().detection == pytest.approx(once * deviation / (np.sqrt(0.02) / 2))


def test_limits_by_din_are_those_of_its_example():
    """The example of DIN 32645, as the documentation of the R package chemCal has it.

    Ten levels from 0.05 to 0.5; the standard error of a concentration of 0.1054792 is 0.02215619.
    Limits depend on these alone: decision limit 0.0698 (0.07 in the standard), 0.212 beyond it.
    """
    levels = np.linspace(0.05, 0.5, 10)
    design = np.vander(levels, 3)
    curved = design @ np.linalg.solve(design[[0, 4, 9]], [1, -1, 1])
    residuals = curved - np.polyval(np.polyfit(levels, curved, 1), levels)
    error = 0.02215619 / np.sqrt(1.1 + (0.1054792 - 0.275) ** 2 / 0.20625)
    residuals *= 9662 * error / np.sqrt(residuals @ residuals / 8)
    found = line_of(levels, 2481 + 9662 * levels + residuals).din_limit()
    assert found.detection == pytest.approx(0.0698127, rel=1e-4)
    assert round(found.quantification, 3) == 0.212
    exact = line_of(levels, 2481 + 9662 * levels).din_limit()
    assert (exact.detection, "rounding" in exact.said) == (None, True)


@pytest.mark.parametrize(
    ("signal", "reason"),
    [
        ([1.0, 0.4, 1.1, 0.7, 1.0], "slope does not differ from zero"),
        ([0.5, 0.4, 2.0, 3.0, 4.0], "does not rise"),
        ([0.5, 0.5, 2.0, 3.0, 4.0], "does not rise"),
        ([4.0, 4.1, 2.0, 1.0, 0.1], "does not fall"),
        ([0.0, 0.3, 0.8, 4.0, 6.5], "half of your standards"),
        ([0.1, 0.4, 0.7, 1.0, 1.3], "rounding"),
    ],
)
def test_a_line_that_says_nothing_near_zero_has_no_limit(signal, reason):
    found = line_of([0, 1, 2, 3, 4], signal).limit()
    assert (found.detection, found.quantification) == (None, None)
    assert reason in found.said


def test_the_limit_of_a_blank_is_that_of_its_scans():
    scans = beer.scans()
    found = series(beer.LEVELS, scans)
    line = Line.of(found, beer.PLACE)
    limit = line.blank_limit()
    expected = np.std(scans[0][:, beer.PLACE], ddof=1) / line.slope
    assert limit.detection == pytest.approx(3.3 * expected)
    assert limit.quantification == pytest.approx(10 * expected)


def test_without_scans_of_a_blank_there_is_no_limit_of_it():
    alike = [beer.spectra_at([0, 0, 0]), *beer.scans()[1:]]
    for levels, scans, reason in (
        ([1, 2, 3, 4, 5], beer.scans(), "no blank"),
        (beer.LEVELS, beer.scans(2), "2 times"),
        (beer.LEVELS, alike, "rounding"),
    ):
        limit = Line.of(series(levels, scans), beer.PLACE).blank_limit()
        assert (limit.detection, limit.quantification) == (None, None)
        assert reason in limit.said


@pytest.mark.parametrize("components", [1, 2, 3])
def test_the_interval_of_pls_is_that_of_its_krylov_space(components):
    """With K = X X^T, b = X^T a and a is in the span of y, K y, ... (Helland 1988)."""
    random = np.random.default_rng(3)
    levels = np.array([0.0, 1.0, 2.0, 4.0, 7.0, 8.0])
    exact = np.outer(levels, random.normal(size=12)) + 0.3 * random.normal(size=(6, 12))
    scans = [one + 0.01 * random.normal(size=(3, 12)) for one in exact]
    measured = series(levels, scans)
    spectra = np.stack([of_level.mean(axis=0) for of_level in scans])
    y, x = levels - levels.mean(), spectra - spectra.mean(axis=0)
    kernel = x @ x.T
    krylov = np.stack([np.linalg.matrix_power(kernel, k) @ y for k in range(components)], axis=1)
    scores = kernel @ krylov
    a = krylov @ np.linalg.lstsq(scores, y, rcond=None)[0]
    residuals = y - kernel @ a
    of_levels = residuals @ residuals / (5 - components)
    of_noise = np.mean([one.var(axis=0, ddof=1) for one in scans]) * np.sum((x.T @ a) ** 2)
    leverages = np.diag(scores @ np.linalg.pinv(scores))
    lowest = levels.mean() ** 2 / (y @ y)
    h = max(lowest, *(leverages + lowest * (1 - (y / levels.mean()) ** 2)))
    deviation = np.sqrt((1 + h) * of_noise + h * of_levels)
    found = pls_of(measured, components)
    assert f"{components} components" in found.said
    assert found.detection == pytest.approx(3.3 * deviation, rel=1e-5)


def test_components_that_explain_nothing_are_not_counted():
    scans = beer.scans()
    means = np.outer(beer.LEVELS, [1.0, 2.0])
    given = [mean + np.array([[-0.1, 0.1], [0.1, -0.1]]) for mean in means]
    assert "1 components" in pls_of(series(beer.LEVELS, given), 2).said
    assert "as many components" in pls_of(series(beer.LEVELS[:2], scans[:2]), 1).said


@pytest.mark.parametrize("unit", [1e-12, 1e-16, 1e12])
def test_the_limit_of_pls_is_the_same_in_any_unit(unit):
    found, scans = pls_of(series(beer.LEVELS, beer.scans()), 2), beer.scans()
    scaled = pls_of(series(unit * beer.LEVELS, [scan / unit for scan in scans]), 2)
    np.testing.assert_allclose(scaled.detection, unit * found.detection, rtol=1e-6)
    dim = pls_of(series(beer.LEVELS, [unit * scan for scan in scans]), 2)
    np.testing.assert_allclose(dim.detection, found.detection, rtol=1e-6)


def test_limits_lie_near_the_levels():
    """By hand: a line of slope 1 with s = sqrt(0.04 / 2) has limits of 0.467 and 1.41."""
    signal = np.array([0.1, -0.1, -0.1, 0.1]) + np.arange(4)
    near = line_of(np.arange(4) + 1.0, signal).limit()
    assert "extrapolated" in near.said
    assert near.detection == pytest.approx(3.3 * np.sqrt(0.02))
    far = line_of(np.arange(4) + 4.0, signal).limit()
    assert far.detection is None
    assert "no blank was measured" in far.said
    noisy = line_of(np.arange(4), 3 * signal - 2 * np.arange(4)).limit()
    assert noisy.detection == pytest.approx(3 * 3.3 * np.sqrt(0.02))
    assert (noisy.quantification, "above all levels" in noisy.said) == (None, True)


def test_the_limit_of_the_curve_is_where_sets_leave_zero(calibration):
    limit = curve_limit(calibration.series, calibration.model.calibration.curve)
    curve = calibration.model.calibration.curve
    place = int(np.flatnonzero(curve.concentrations == limit.detection)[0])
    found = estimate(curve, curve.spectra(slice(place - 1, place + 1)))
    assert found.sets[0][0][0] == 0 < found.sets[1][0][0]


def test_peaks_are_found_with_their_widths_and_noise_is_none():
    """Of two bands; the full width of a Gaussian at half its height is 2.355 deviations."""
    axis = np.linspace(400, 600, 401)
    bands = [np.exp(-(((axis - at) / 5) ** 2) / 2) for at in (450, 540)]
    signal = np.outer(np.arange(1.0, 5.0), bands[0] + 0.5 * bands[1])
    exact = series_of(np.arange(1.0, 5.0), signal, axis)
    (first, *one), (second, *other) = zip(*peaks(exact), strict=True)
    assert axis[[first, second]].tolist() == [450, 540]
    assert one == pytest.approx([4, 2.355 * 5], rel=1e-3)
    assert other == pytest.approx([2, 2.355 * 5], rel=1e-3)
    # The range of uniform noise is 3.5 of its standard deviations.
    noise = np.random.default_rng(0).uniform(size=signal.shape)
    assert not len(peaks(replace(exact, signal=noise))[0])
    assert not len(peaks(replace(exact, signal=0 * signal))[0])
