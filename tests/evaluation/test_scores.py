import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from geonode.errors import SpectraError
from geonode.evaluation.scores import (
    interval_coverage,
    q2,
    series_scores,
    spectrum_scores,
)

AXIS = np.linspace(200.0, 800.0, 601)
ERRORS = {"rmse", "mae", "max_error", "peak_position_error"}
LIKENESSES = {"r2", "pearson"}
PEAK = np.exp(-0.5 * ((AXIS - 500.0) / 40.0) ** 2)
BROKEN = np.where(AXIS == 500, np.nan, PEAK)


def test_errors_of_one_spectrum_by_hand():
    found = spectrum_scores(np.array([0.0, 1.0, 4.0]), np.array([0.0, 3, 1]), np.array([1.0, 1, 3]))
    assert found["r2"] == pytest.approx(1 - 9 / (14 / 3))
    assert (found["rmse"], found["mae"]) == pytest.approx((3**0.5, 5 / 3))
    assert (found["max_error"], found["peak_position_error"]) == (2, 3)


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


@pytest.mark.parametrize(("size", "constant"), [(0.0, True), (1e-15, True), (1e-6, False)])
def test_constant_spectra_have_no_correlation_and_if_measured_no_r2(size, constant):
    # The rounded mean of 601 values of 0.1 is not 0.1.
    found = spectrum_scores(AXIS, 0.1 + size * PEAK, PEAK)
    assert (found["r2"] is None) == (size == 0)
    assert found["rmse"] > 0
    for likeness in (found["pearson"], spectrum_scores(AXIS, PEAK, 0.1 + size * PEAK)["pearson"]):
        assert likeness == (None if constant else pytest.approx(1.0))


@pytest.mark.parametrize(
    ("axis", "measured", "predicted", "message"),
    [
        (AXIS, BROKEN, PEAK, "measured: found NaN or infinity"),
        (AXIS, PEAK, BROKEN, "predicted: found NaN or infinity"),
        (AXIS[::-1].copy(), PEAK, PEAK, "axis: found values that do not ascend"),
        (np.repeat(AXIS, 2)[:601], PEAK, PEAK, "axis: found values that do not ascend"),
    ],
)
def test_what_has_no_scores_is_refused(axis, measured, predicted, message):
    with pytest.raises(SpectraError, match=message):
        spectrum_scores(axis, measured, predicted)


# a series


def test_an_r2_of_zero_counts_in_the_mean():
    """SST = 2, 8, 18; SSE = 1, 1, 18."""
    measured = np.array([[0.0, 2.0], [0.0, 4.0], [0.0, 6.0]])
    predicted = np.array([[1.0, 2.0], [0.0, 5.0], [3.0, 3.0]])
    scores = series_scores(np.arange(2.0), np.array([0.0, 0.5, 60.0]), measured, predicted)
    assert [fold["r2"] for fold in scores["folds"].values()] == pytest.approx([1 / 2, 7 / 8, 0])
    assert scores["mean_r2"] == pytest.approx(11 / 24)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(2, 7))
def test_the_mean_of_the_other_spectra_has_q2_zero(seed, count):
    measured = np.random.default_rng(seed).normal(size=(count, 5))
    others = np.stack([np.delete(measured, place, 0).mean(axis=0) for place in range(count)])
    assert q2(measured, others) == pytest.approx(0, abs=1e-9)
    half = (measured + others) / 2  # half the error, a quarter of the squares
    assert q2(measured, half) == pytest.approx(0.75)


def test_series_of_constant_spectra_has_no_r2():
    scores = series_scores(np.arange(2.0), np.arange(3.0), np.ones((3, 2)), np.zeros((3, 2)))
    assert scores["mean_r2"] is scores["pooled_r2"] is scores["interior_pooled_r2"] is None
    assert scores["undefined_r2"] == list(scores["folds"])


# A blank whose R2 is a large negative number, among spectra with a band.
WAVELENGTHS = np.linspace(300.0, 500.0, 201)
CONCENTRATIONS = np.array([0.0, 1.0, 2.5, 3.0])
BAND = np.exp(-0.5 * ((WAVELENGTHS - 400.0) / 20.0) ** 2)


# The mean variance of the others is (1 + 4 + 9) / 3 of that of a band of height one.
@pytest.mark.parametrize(("amplitude", "faint"), [(0.0, True), (0.999, True), (1.001, False)])
def test_below_a_hundredth_of_the_mean_variance_of_the_others_there_is_no_r2(amplitude, faint):
    blank = amplitude * math.sqrt(0.01 * 14 / 3)
    measured = np.outer([blank, 1.0, 2.0, 3.0], BAND)
    predicted = measured + 0.3 * np.sin(WAVELENGTHS)
    scores = series_scores(WAVELENGTHS, CONCENTRATIONS, measured, predicted)
    for key in ("r2", "peak_position_error"):
        assert (scores["folds"]["0"][key] is None) == faint
    assert list(scores["folds"]) == ["0", "1", "2.5", "3"]
    assert scores["undefined_r2"] == ["0"] * faint
    sst = np.sum((measured - measured.mean(axis=1, keepdims=True)) ** 2, axis=1)
    sse = np.sum((predicted - measured) ** 2, axis=1)
    with np.errstate(divide="ignore"):
        r2 = 1 - sse / sst
    assert scores["mean_r2"] == pytest.approx(r2[faint:].mean())
    assert scores["pooled_r2"] == pytest.approx(1 - sse.sum() / sst.sum())  # all the same
    assert scores["rmse"] == pytest.approx(math.sqrt(np.mean((predicted - measured) ** 2)))


def test_coverage_by_hand():
    measured = np.zeros((4, 2))
    predicted = np.array([[1.0, -3.0], [0.0, 2.0], [-2.0, 2.0], [4.0, 4.0]])
    half_width = np.stack([np.full((4, 2), width) for width in (0.0, 1.0, 2.0, 4.0)])
    half_width[3, 3, 0] = 3.5
    found = interval_coverage(measured, predicted, half_width)
    assert found == {
        "50": {"all": 1 / 8, "interior": 1 / 4, "ends": 0.0, "half_width": 0.0},
        "80": {"all": 2 / 8, "interior": 1 / 4, "ends": 1 / 4, "half_width": 1.0},
        "90": {"all": 5 / 8, "interior": 1.0, "ends": 1 / 4, "half_width": 2.0},
        "95": {"all": 7 / 8, "interior": 1.0, "ends": 3 / 4, "half_width": (7 * 4 + 3.5) / 8},
    }
