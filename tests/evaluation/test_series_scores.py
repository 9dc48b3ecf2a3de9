import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geonode.evaluation.series_scores import band_scores, coverage, q2, series_scores, skill

# By hand: SST = 2, 8, 18; SSE = 1, 1, 18.
LEVELS = np.array([0.0, 0.5, 60.0])
MEASURED = np.array([[0.0, 2.0], [0.0, 4.0], [0.0, 6.0]])
PREDICTED = np.array([[1.0, 2.0], [0.0, 5.0], [3.0, 3.0]])
FOLD_KEYS = (
    *("rmse", "mae", "mape", "max_error", "pearson", "spectral_angle", "cosine", "ssim"),
    *("wasserstein", "jensen_shannon", "peak_position_error", "peak_height_error", "fwhm_error"),
    *("area_error", "derivative_rmse"),
)


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
    assert pooled["mape"] is pooled["ssim"] is pooled["fwhm_error"] is None
    correlation = np.corrcoef(MEASURED.ravel(), PREDICTED.ravel())[0, 1]
    assert pooled["pearson"] == pytest.approx(correlation)
    cosine = 42 / math.sqrt(56 * 48)  # 4 + 20 + 18; 4 + 16 + 36; 1 + 4 + 25 + 9 + 9
    assert pooled["cosine"] == pytest.approx(cosine)
    assert pooled["spectral_angle"] == pytest.approx(math.acos(cosine))
    assert pooled["peak_position_error"] == pytest.approx(1 / 3)
    assert pooled["peak_height_error"] == pytest.approx(4 / 3)  # 0, 1, 3
    assert pooled["area_error"] == pytest.approx(1 / 3)  # 1/2, 1/2, 0
    assert pooled["derivative_rmse"] == pytest.approx(8 / 3)  # 1, 1, 6
    assert pooled["wasserstein"] == pytest.approx(5 / 18)  # 1/3, 0, 1/2 of the area move by 1
    assert list(pooled) == list(FOLD_KEYS)


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


@pytest.mark.parametrize(
    ("rmse", "best", "expected"),
    [(0.0, 2.0, 1.0), (1.5, 2.0, 0.25), (2.0, 2.0, 0.0), (5.0, 2.0, -1.5), (1.0, 0.0, None)],
)
def test_skill(rmse, best, expected):
    assert skill(rmse, best) == expected


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
