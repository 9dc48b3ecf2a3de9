import json
import math

import numpy as np
import pytest

from geonode.evaluation.scores import band_scores, level_names, series_scores, spectrum_scores

AXIS = np.linspace(200.0, 800.0, 601)
PEAK = np.exp(-0.5 * ((AXIS - 500.0) / 40.0) ** 2)


def test_perfect_prediction():
    assert spectrum_scores(AXIS, PEAK, PEAK.copy()) == {
        "r2": 1.0,
        "rmse": 0.0,
        "mae": 0.0,
        "max_error": 0.0,
        "spectral_angle": 0.0,
        "peak_position_error": 0.0,
    }


def test_predicting_the_mean_of_the_spectrum_has_r2_zero():
    scores = spectrum_scores(AXIS, PEAK, np.full_like(PEAK, PEAK.mean()))
    assert scores["r2"] == pytest.approx(0.0, abs=1e-12)


def test_errors_by_hand():
    scores = spectrum_scores(np.arange(4.0), np.zeros(4), np.array([1.0, -3.0, 0.0, 0.0]))
    assert scores["rmse"] == pytest.approx(math.sqrt(2.5))
    assert scores["mae"] == pytest.approx(1.0)
    assert scores["max_error"] == 3.0
    assert scores["peak_position_error"] == 0.0


@pytest.mark.parametrize(
    ("a", "b", "angle"),
    [
        ((3.0, 4.0), (6.0, 8.0), 0.0),
        ((1.0, 0.0), (0.0, 2.0), math.pi / 2),
        ((1.0, 1.0), (-2.0, -2.0), math.pi),
        ((1.0, 0.0), (1.0, 1e-10), 1e-10),  # an arccosine of the cosine gives 0
    ],
)
def test_spectral_angle(a, b, angle):
    scores = spectrum_scores(np.arange(2.0), np.array(a), np.array(b))
    assert scores["spectral_angle"] == pytest.approx(angle, rel=1e-9, abs=1e-15)


def test_scaled_spectrum_has_no_angle_and_no_peak_shift():
    scores = spectrum_scores(AXIS, PEAK, 2.5 * PEAK)
    assert scores["spectral_angle"] == pytest.approx(0.0, abs=1e-14)
    assert scores["peak_position_error"] == 0.0
    assert scores["r2"] < 0.0


@pytest.mark.parametrize("shift", [-17.0, 17.0])
def test_shifted_peak(shift):
    shifted = np.exp(-0.5 * ((AXIS - 500.0 - shift) / 40.0) ** 2)
    assert spectrum_scores(AXIS, PEAK, shifted)["peak_position_error"] == pytest.approx(17.0)


def test_constant_spectrum_has_no_r2():
    # The rounded mean of 601 values of 0.1 is not 0.1.
    scores = spectrum_scores(AXIS, np.full(601, 0.1), PEAK)
    assert scores["r2"] is None
    assert scores["rmse"] > 0.0


def test_zero_spectrum_has_no_angle():
    assert spectrum_scores(AXIS, np.zeros(601), PEAK)["spectral_angle"] is None


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


def test_ends_are_the_extreme_levels_whatever_the_order():
    order = [1, 2, 0]
    scores = series_scores(np.arange(2.0), LEVELS[order], MEASURED[order], PREDICTED[order])
    assert scores["interior_pooled_r2"] == pytest.approx(7 / 8)


def test_constant_spectrum_counts_in_the_pool_alone():
    measured = np.array([[1.0, 1.0], [0.0, 4.0], [0.0, 6.0]])
    predicted = np.array([[1.0, 3.0], [0.0, 5.0], [3.0, 3.0]])  # SSE 4, 1, 18; SST 0, 8, 18
    scores = series_scores(np.arange(2.0), LEVELS, measured, predicted)
    assert scores["folds"]["0"]["r2"] is None
    assert scores["mean_r2"] == pytest.approx(7 / 16)
    assert scores["pooled_r2"] == pytest.approx(1 - 23 / 26)


def test_series_of_constant_spectra_has_no_r2():
    scores = series_scores(np.arange(2.0), LEVELS, np.ones((3, 2)), PREDICTED)
    assert scores["mean_r2"] is scores["pooled_r2"] is scores["interior_pooled_r2"] is None
    json.dumps(scores, allow_nan=False)


def test_levels_that_agree_in_six_digits_keep_their_own_keys():
    levels = np.array([0.1, 1234567.0, 1234568.0])
    assert level_names(levels) == ["0.1", "1234567.0", "1234568.0"]
    assert len(series_scores(np.arange(2.0), levels, MEASURED, PREDICTED)["folds"]) == 3


def test_bands_include_their_edges_and_nothing_else():
    axis = np.arange(6.0)
    measured = np.tile([1.0, 2.0, 4.0, 8.0, 16.0, 32.0], (3, 1))
    predicted = measured + np.array([9.0, 0.0, 0.0, 1.0, 9.0, 9.0])
    scores = band_scores(axis, LEVELS, measured, predicted, {"a": (1.0, 3.0), "b": (0.5, 2.5)})
    assert list(scores) == ["a"]  # b covers two wavelengths
    assert scores["a"]["rmse"] == pytest.approx(math.sqrt(1 / 3))
    # 2, 4, 8: SST = 56 / 3, SSE = 1.
    assert scores["a"]["pooled_r2"] == pytest.approx(1 - 3 / 56)
