import json
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import pearsonr

from geonode.errors import SpectraError
from geonode.evaluation.scores import (
    band_scores,
    coverage,
    q2,
    series_scores,
    spectrum_scores,
)

AXIS = np.linspace(200.0, 800.0, 601)
STRETCHED = 200.0 + 600.0 * np.linspace(0.0, 1.0, 1201) ** 1.7  # spacing from 0.003 to 0.85
ERRORS = {
    *("rmse", "mae", "mape", "max_error", "spectral_angle", "peak_position_error"),
    *("peak_height_error", "fwhm_error", "area_error", "derivative_rmse"),
}
LIKENESSES = {"r2", "pearson", "cosine"}


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


# likenesses


def test_correlation_is_that_of_scipy():
    measured, predicted = np.random.default_rng(3).uniform(0.0, 1.0, (2, 40))
    found = score("pearson", measured, predicted, np.arange(40.0))
    assert found == pytest.approx(pearsonr(measured, predicted).statistic, rel=1e-12)


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
    assert all(scores[key] in (0.0, None) for key in ERRORS)
    assert all(scores[key] == pytest.approx(1.0) for key in LIKENESSES if scores[key] is not None)


# what is undefined


@pytest.mark.parametrize(
    ("measured", "error"),
    [
        ([2.0, 4.0, 5.0], (1 / 2 + 1 / 4 + 1 / 5) / 3),
        ([-2.0, -4.0, -5.0], (1 / 2 + 1 / 4 + 1 / 5) / 3),
        ([3.0, 3.0, 3.0], 1 / 3),
        ([1.1, 101.0, 101.0], (1 / 1.1 + 2 / 101) / 3),
        ([1.0, 101.0, 101.0], (1 + 2 / 101) / 3),  # exactly a hundredth of the range
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
        *("r2", "pearson", "fwhm_error")
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


# a series


# By hand: SST = 2, 8, 18; SSE = 1, 1, 18.
LEVELS = np.array([0.0, 0.5, 60.0])
MEASURED = np.array([[0.0, 2.0], [0.0, 4.0], [0.0, 6.0]])
PREDICTED = np.array([[1.0, 2.0], [0.0, 5.0], [3.0, 3.0]])


def test_series_by_hand():
    scores = series_scores(np.arange(2.0), LEVELS, MEASURED, PREDICTED)
    assert [fold["r2"] for fold in scores["folds"].values()] == pytest.approx([1 / 2, 7 / 8, 0])
    assert list(scores["folds"]) == ["0", "0.5", "60"]
    assert scores["mean_r2"] == pytest.approx(11 / 24)
    assert scores["pooled_r2"] == pytest.approx(1 - 20 / 28)
    assert scores["interior_pooled_r2"] == pytest.approx(7 / 8)
    assert scores["rmse"] == pytest.approx(math.sqrt(20 / 6))
    assert scores["undefined_r2"] == []


def test_q2_is_one_less_the_error_over_that_of_the_mean_of_the_other_spectra():
    # The means of the others at the second wavelength, 5, 4 and 3, are off by 3, 0 and 3.
    assert q2(MEASURED, PREDICTED) == pytest.approx(1 - 20 / 18)
    scores = series_scores(np.arange(2.0), LEVELS, MEASURED, PREDICTED)
    assert scores["q2"] == q2(MEASURED, PREDICTED)
    assert q2(MEASURED, MEASURED) == 1


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(2, 7))
def test_the_mean_of_the_other_spectra_has_q2_zero(seed, count):
    measured = np.random.default_rng(seed).normal(size=(count, 5))
    others = np.stack([np.delete(measured, place, 0).mean(axis=0) for place in range(count)])
    assert q2(measured, others) == pytest.approx(0, abs=1e-9)
    half = (measured + others) / 2  # half the error, a quarter of the squares
    assert q2(measured, half) == pytest.approx(0.75)


def test_equal_spectra_have_no_q2():
    assert q2(np.ones((3, 2)), PREDICTED) is None


def test_pooled_scores_are_of_all_points_or_means_over_the_folds_that_have_them():
    pooled = series_scores(np.arange(2.0), LEVELS, MEASURED, PREDICTED)["pooled"]
    assert pooled["rmse"] == pytest.approx(math.sqrt(20 / 6))
    assert pooled["mae"] == pytest.approx(8 / 6)
    assert pooled["max_error"] == 3.0
    assert pooled["mape"] is pooled["fwhm_error"] is None
    correlation = np.corrcoef(MEASURED.ravel(), PREDICTED.ravel())[0, 1]
    assert pooled["pearson"] == pytest.approx(correlation)
    cosine = 42 / math.sqrt(56 * 48)  # 4 + 20 + 18; 4 + 16 + 36; 1 + 4 + 25 + 9 + 9
    assert pooled["cosine"] == pytest.approx(cosine)
    assert pooled["spectral_angle"] == pytest.approx(math.acos(cosine))
    assert pooled["peak_position_error"] == pytest.approx(1 / 3)
    assert pooled["peak_height_error"] == pytest.approx(4 / 3)  # 0, 1, 3
    assert pooled["area_error"] == pytest.approx(1 / 3)  # 1/2, 1/2, 0
    assert pooled["derivative_rmse"] == pytest.approx(8 / 3)  # 1, 1, 6
    assert set(pooled) == (ERRORS | LIKENESSES) - {"r2"}


def test_constant_spectrum_counts_in_the_pool_alone():
    measured = np.array([[1.0, 1.0], [0.0, 4.0], [0.0, 6.0]])
    predicted = np.array([[1.0, 3.0], [0.0, 5.0], [3.0, 3.0]])  # SSE 4, 1, 18; SST 0, 8, 18
    scores = series_scores(np.arange(2.0), LEVELS, measured, predicted)
    assert scores["folds"]["0"]["r2"] is None
    assert scores["undefined_r2"] == ["0"]
    assert scores["mean_r2"] == pytest.approx(7 / 16)
    assert scores["pooled_r2"] == pytest.approx(1 - 23 / 26)


def test_series_of_constant_spectra_has_no_r2():
    scores = series_scores(np.arange(2.0), LEVELS, np.ones((3, 2)), PREDICTED)
    assert scores["mean_r2"] is scores["pooled_r2"] is scores["interior_pooled_r2"] is None
    assert scores["undefined_r2"] == list(scores["folds"])
    assert scores["pooled"]["peak_position_error"] is None
    json.dumps(scores, allow_nan=False)


# A blank whose R2 is a large negative number, among spectra with a band.
WAVELENGTHS = np.linspace(300.0, 500.0, 201)
CONCENTRATIONS = np.array([0.0, 1.0, 2.0, 3.0])
BAND = np.exp(-0.5 * ((WAVELENGTHS - 400.0) / 20.0) ** 2)


# The mean variance of the others is (1 + 4 + 9) / 3 of that of a band of height one.
@pytest.mark.parametrize(("amplitude", "faint"), [(0.0, True), (0.99, True), (1.01, False)])
def test_below_a_hundredth_of_the_mean_variance_of_the_others_there_is_no_r2(amplitude, faint):
    blank = amplitude * math.sqrt(0.01 * 14 / 3)
    measured = np.outer([blank, 1.0, 2.0, 3.0], BAND)
    predicted = measured + 0.3 * np.sin(WAVELENGTHS)
    scores = series_scores(WAVELENGTHS, CONCENTRATIONS, measured, predicted)
    for key in ("r2", "peak_position_error", "fwhm_error"):
        assert (scores["folds"]["0"][key] is None) == faint
    assert scores["undefined_r2"] == ["0"] * faint
    sst = np.sum((measured - measured.mean(axis=1, keepdims=True)) ** 2, axis=1)
    sse = np.sum((predicted - measured) ** 2, axis=1)
    with np.errstate(divide="ignore"):
        r2 = 1 - sse / sst
    assert scores["mean_r2"] == pytest.approx(r2[faint:].mean())
    assert scores["pooled_r2"] == pytest.approx(1 - sse.sum() / sst.sum())  # all the same
    assert scores["rmse"] == pytest.approx(math.sqrt(np.mean((predicted - measured) ** 2)))


def test_bands_include_their_edges_and_nothing_else():
    axis = np.arange(6.0)
    measured = np.tile([1.0, 2.0, 4.0, 8.0, 16.0, 32.0], (3, 1))
    predicted = measured + np.array([9.0, 0.0, 0.0, 1.0, 9.0, 9.0])
    scores = band_scores(axis, LEVELS, measured, predicted, {"a": (1.0, 3.0), "b": (0.5, 2.5)})
    assert list(scores) == ["a"]  # b covers two wavelengths
    assert scores["a"]["rmse"] == pytest.approx(math.sqrt(1 / 3))
    # 2, 4, 8: SST = 56 / 3, SSE = 1.
    assert scores["a"]["pooled_r2"] == pytest.approx(1 - 3 / 56)


def test_coverage_by_hand():
    measured = np.zeros((4, 2))
    predicted = np.array([[1.0, -3.0], [0.0, 2.0], [-2.0, 2.0], [4.0, 4.0]])
    half_width = np.stack([np.full((4, 2), width) for width in (0.0, 1.0, 2.0, 4.0)])
    half_width[3, 3, 0] = 3.5
    found = coverage(measured, predicted, half_width)
    assert found == {
        "50": {"all": 1 / 8, "interior": 1 / 4, "ends": 0.0, "half_width": 0.0},
        "80": {"all": 2 / 8, "interior": 1 / 4, "ends": 1 / 4, "half_width": 1.0},
        "90": {"all": 5 / 8, "interior": 1.0, "ends": 1 / 4, "half_width": 2.0},
        "95": {"all": 7 / 8, "interior": 1.0, "ends": 3 / 4, "half_width": (7 * 4 + 3.5) / 8},
    }
