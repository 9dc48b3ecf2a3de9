import json
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import norm, pearsonr, wasserstein_distance

from geonode.errors import SpectraError
from geonode.evaluation.spectrum_scores import spectrum_scores

AXIS = np.linspace(200.0, 800.0, 601)
STRETCHED = 200.0 + 600.0 * np.linspace(0.0, 1.0, 1201) ** 1.7  # spacing from 0.003 to 0.85
ERRORS = {
    *("rmse", "mae", "mape", "max_error", "spectral_angle", "wasserstein", "jensen_shannon"),
    *("peak_position_error", "peak_height_error", "fwhm_error", "area_error", "derivative_rmse"),
}
LIKENESSES = {"r2", "pearson", "cosine", "ssim"}


def band(axis, centre=500.0, sigma=40.0, height=1.0):
    return height * np.exp(-0.5 * ((axis - centre) / sigma) ** 2)


PEAK = band(AXIS)


def score(key, measured, predicted, axis=AXIS):
    return spectrum_scores(axis, np.array(measured), np.array(predicted))[key]


# Gaussian bands, on even and on uneven wavelengths


@pytest.mark.parametrize("axis", [AXIS, STRETCHED], ids=["even", "uneven"])
@pytest.mark.parametrize("swap", [False, True])
def test_gaussian_bands_differ_as_their_formulas_say(axis, swap):
    pair = [band(axis), band(axis, 430.0, 25.0, 1.7)]
    scores = spectrum_scores(axis, *pair[:: -1 if swap else 1])
    assert scores["peak_position_error"] == pytest.approx(70.0, abs=1.0)
    assert scores["peak_height_error"] == pytest.approx(0.7, abs=1e-3)
    assert scores["fwhm_error"] == pytest.approx(2 * math.sqrt(2 * math.log(2)) * 15.0, abs=0.02)
    area = math.sqrt(2 * math.pi) * (40.0 - 1.7 * 25.0)
    assert scores["area_error"] == pytest.approx(abs(area), rel=1e-4)
    # Quantiles of normal distributions differ by 70 + 15 z, below zero for z < -14 / 3 alone.
    assert scores["wasserstein"] == pytest.approx(70.0, rel=1e-4)


@pytest.mark.parametrize("axis", [AXIS, STRETCHED], ids=["even", "uneven"])
def test_jensen_shannon_is_the_integral_over_the_axis(axis):
    x = np.linspace(0.0, 1000.0, 200_001)
    p, q = norm.pdf(x, 500.0, 40.0), norm.pdf(x, 460.0, 25.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = [np.nan_to_num(a * np.log2(2 * a / (p + q))) for a in (p, q)]
    expected = math.sqrt(np.trapezoid(sum(parts), x) / 2)
    found = score("jensen_shannon", band(axis), band(axis, 460.0, 25.0, 3.0), axis)
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("offset", [-0.3, 0.0, 5.0])
def test_width_is_measured_from_the_lowest_point(offset):
    found = score("fwhm_error", PEAK, band(AXIS, 450.0, 30.0, 2.0) + offset)
    assert found == pytest.approx(2 * math.sqrt(2 * math.log(2)) * 10.0, abs=0.02)


def test_width_is_that_of_the_highest_band_with_straight_sides():
    axis = np.array([0.0, 1.0, 4.0, 6.0, 7.0, 9.0, 10.0])
    measured = [0.0, 8.0, 0.0, 0.0, 0.0, 0.0, 0.0]  # half at 0.5 and 2.5
    predicted = [0.0, 3.0, 0.0, 1.0, 4.0, 2.0, 0.0]  # half at 6 + 1/3 and 9
    assert score("fwhm_error", measured, predicted, axis) == pytest.approx(8 / 3 - 2.0)


@pytest.mark.parametrize(
    "other", [band(AXIS, 210.0), band(AXIS, 790.0), AXIS, -AXIS, np.ones(601), -PEAK]
)
def test_a_peak_with_one_side_has_no_width(other):
    assert score("fwhm_error", PEAK, other) is score("fwhm_error", other, PEAK) is None


# derivatives, areas


def test_derivative_and_area_of_a_straight_error_on_uneven_wavelengths():
    measured = band(STRETCHED)
    scores = spectrum_scores(STRETCHED, measured, measured - 0.02 * (STRETCHED - 150.0))
    assert scores["derivative_rmse"] == pytest.approx(0.02)
    assert scores["area_error"] == pytest.approx(0.02 * 600.0 * 350.0)


# distributions


def test_disjoint_bands_are_one_bit_apart():
    left, right = AXIS < 400.0, AXIS > 600.0
    assert score("jensen_shannon", PEAK * left, PEAK * right) == pytest.approx(1.0, abs=1e-12)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.floats(0.1, 10.0))
def test_a_scaled_spectrum_is_the_same_distribution(seed, factor):
    # Half of such pairs make scipy's jensenshannon take the root of a negative number.
    spectrum = np.random.default_rng(seed).uniform(0.1, 1.0, 50)
    scores = spectrum_scores(np.arange(50.0), spectrum, spectrum * factor)
    assert scores["jensen_shannon"] == pytest.approx(0.0, abs=1e-7)
    assert scores["wasserstein"] == pytest.approx(0.0, abs=1e-12)


def test_correlation_and_distance_are_those_of_scipy():
    random = np.random.default_rng(3)
    axis = np.sort(random.uniform(200.0, 800.0, 40))
    measured, predicted = random.uniform(0.0, 1.0, (2, 40))
    steps = np.diff(axis, prepend=axis[0], append=axis[-1])
    weights = (steps[:-1] + steps[1:]) / 2
    found = spectrum_scores(axis, measured, predicted)
    assert found["pearson"] == pytest.approx(pearsonr(measured, predicted).statistic, rel=1e-12)
    moved = wasserstein_distance(axis, axis, weights * measured, weights * predicted)
    assert found["wasserstein"] == pytest.approx(moved, rel=1e-12)


@pytest.mark.parametrize(("dip", "counts"), [(-0.0499, True), (-0.0501, False)])
def test_a_little_noise_below_zero_counts_as_zero(dip, counts):
    # Areas by the trapezoid rule: 1 and half as much as the dip at the end.
    axis, clean, noisy = np.arange(3.0), [0.0, 1.0, 0.0], [0.0, 1.0, 2 * dip]
    for pair in ((clean, noisy), (noisy, clean)):
        found = [score(key, *pair, axis) for key in ("wasserstein", "jensen_shannon")]
        assert found == ([0.0, 0.0] if counts else [None, None])


@pytest.mark.parametrize("empty", [np.zeros(601), -PEAK])
def test_without_positive_area_there_is_no_distribution(empty):
    for pair in ((PEAK, empty), (empty, PEAK)):
        assert score("wasserstein", *pair) is score("jensen_shannon", *pair) is None


# likenesses


@pytest.mark.parametrize(
    ("a", "b", "angle"),
    [
        ((3.0, 4.0), (6.0, 8.0), 0.0),
        ((1.0, 0.0), (0.0, 2.0), math.pi / 2),
        ((1.0, 1.0), (-2.0, -2.0), math.pi),
        ((1.0, 0.0), (1.0, 1e-10), 1e-10),  # an arccosine of the cosine gives 0
    ],
)
def test_spectral_angle_and_its_cosine(a, b, angle):
    scores = spectrum_scores(np.arange(2.0), np.array(a), np.array(b))
    assert scores["spectral_angle"] == pytest.approx(angle, rel=1e-9, abs=1e-15)
    cosine = np.dot(a, b) / math.sqrt(np.dot(a, a) * np.dot(b, b))
    assert scores["cosine"] == pytest.approx(cosine, abs=1e-15)


def test_structural_similarity_by_its_formula():
    a, b = np.random.default_rng(0).normal(size=(2, 9))
    c1, c2 = (0.01 * np.ptp(a)) ** 2, (0.03 * np.ptp(a)) ** 2
    windows = []
    for start, stop in ((0, 7), (1, 8), (2, 9)):
        x, y = a[start:stop], b[start:stop]
        covariance = np.cov(x, y)
        windows.append(
            (2 * x.mean() * y.mean() + c1)
            * (2 * covariance[0, 1] + c2)
            / ((x.mean() ** 2 + y.mean() ** 2 + c1) * (np.trace(covariance) + c2))
        )
    assert score("ssim", a, b, np.arange(9.0)) == pytest.approx(np.mean(windows), rel=1e-10)


@pytest.mark.parametrize(("wavelengths", "scored"), [(6, False), (7, True)])
def test_structural_similarity_needs_a_window(wavelengths, scored):
    spectrum = np.arange(float(wavelengths))
    assert (score("ssim", spectrum, spectrum + 1.0, spectrum) is not None) == scored


@settings(deadline=None, max_examples=50)
@given(
    arrays(float, st.integers(2, 30), elements=st.floats(-1e6, 1e6).map(lambda x: round(x, 6))),
    st.randoms(use_true_random=False),
)
def test_equal_spectra_have_no_error_and_no_score_is_a_nan(spectrum, random):
    axis = np.cumsum([random.uniform(0.1, 10.0) for _ in spectrum])
    scores = spectrum_scores(axis, spectrum, spectrum.copy())
    json.dumps(scores, allow_nan=False)
    assert set(scores) == ERRORS | LIKENESSES
    assert all(scores[key] in (0.0, None) for key in ERRORS - {"jensen_shannon"})
    assert scores["jensen_shannon"] is None or scores["jensen_shannon"] < 1e-7
    assert all(scores[key] == pytest.approx(1.0) for key in LIKENESSES if scores[key] is not None)


# what is undefined


@pytest.mark.parametrize(
    ("measured", "error"),
    [
        ([2.0, 4.0, 5.0], (1 / 2 + 1 / 4 + 1 / 5) / 3),
        ([-2.0, -4.0, -5.0], (1 / 2 + 1 / 4 + 1 / 5) / 3),
        ([3.0, 3.0, 3.0], 1 / 3),
        ([1.1, 101.0, 101.0], (1 / 1.1 + 2 / 101) / 3),
        ([0.9, 101.0, 101.0], None),
        ([0.0, 4.0, 5.0], None),
        ([0.0, 0.0, 0.0], None),
        ([-2.0, 4.0, 5.0], None),
    ],
)
def test_relative_error_is_for_spectra_away_from_zero(measured, error):
    predicted = np.array(measured) + np.array([1.0, -1.0, 1.0])
    found = score("mape", measured, predicted, np.arange(3.0))
    assert found == (None if error is None else pytest.approx(error))


def test_constant_spectrum_has_no_r2_and_no_likeness():
    # The rounded mean of 601 values of 0.1 is not 0.1.
    scores = spectrum_scores(AXIS, np.full(601, 0.1), PEAK)
    assert {key for key, value in scores.items() if value is None} == {
        *("r2", "pearson", "ssim", "fwhm_error")
    }
    assert scores["rmse"] > 0.0


def test_constant_prediction_has_no_correlation():
    assert score("pearson", PEAK, np.full(601, 0.1)) is None
    assert score("pearson", PEAK, 0.1 + 1e-15 * PEAK) is None  # nothing but rounding
    assert score("pearson", PEAK, 0.1 + 1e-6 * PEAK) == pytest.approx(1.0)


def test_zero_spectrum_has_no_angle():
    assert score("spectral_angle", np.zeros(601), PEAK) is score("cosine", PEAK, 0 * PEAK) is None


@pytest.mark.parametrize("name", ["measured", "predicted"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_numbers_that_are_not_finite_are_refused(name, value):
    spectra = {"measured": PEAK.copy(), "predicted": PEAK.copy()}
    spectra[name][300] = value
    with pytest.raises(SpectraError, match=f"{name}: found NaN or infinity"):
        spectrum_scores(AXIS, **spectra)


@pytest.mark.parametrize("axis", [AXIS[::-1].copy(), np.repeat(AXIS, 2)[:601]])
def test_an_axis_that_does_not_ascend_is_refused(axis):
    assert any(b <= a for a, b in pairwise(axis))
    with pytest.raises(SpectraError, match="axis: found values that do not ascend"):
        spectrum_scores(axis, PEAK, PEAK)
