import csv

import numpy as np
import pytest
from scipy.interpolate import PchipInterpolator

from geonode.evaluation import baselines
from geonode.evaluation.baselines import (
    BASELINES,
    ON_GIVEN_CHART,
    PROCESSES,
    chosen_inside,
    left_out_predictions,
    predict_by_baselines,
)
from geonode.evaluation.scores import series_scores
from geonode.learning.gaussian_process import fit_process
from geonode.spectra.chart import Chart
from tests.learning.series import smooth

POSITIONS = np.array([-1.0, -0.7, -0.1, 0.2, 0.55, 1.0])
LEVELS = np.array([0.0, 2.0, 5.0, 20.0, 60.0, 200.0])
WIDE = np.array([1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0])


def linear_chart(levels):
    return Chart.of("linear", None, levels)


def left_out(levels, spectra):
    return left_out_predictions(linear_chart(levels), levels, spectra)


def predict(chart, levels, spectra, level):
    """Prediction at one level by every baseline."""
    found = predict_by_baselines(chart, levels, spectra, np.array([level]))
    return {name: rows[0] for name, rows in found.items()}


@pytest.fixture
def spectra():
    return np.random.default_rng(5).normal(size=(len(POSITIONS), 7))


@pytest.fixture(scope="module")
def measured_series(measured_data):
    """The gold nanoparticle series: levels and spectra."""
    with (measured_data / "aunp_as_030mb.csv").open() as file:
        header, *rows = csv.reader(file)
    levels = np.array(header[1:], dtype=float)
    spectra = np.array(rows, dtype=float)[:, 1:].T
    return levels, spectra


def test_scale_and_offset_of_the_signal_do_not_matter(spectra):
    predicted = predict(linear_chart(LEVELS), LEVELS, spectra, 12.0)
    scaled = predict(linear_chart(LEVELS), LEVELS, 1e4 * spectra - 7.0, 12.0)
    assert list(predicted) == list(BASELINES)
    for name in BASELINES:
        np.testing.assert_allclose(scaled[name], 1e4 * predicted[name] - 7.0, rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("linear", [1, 0.5, 0.5, -1, -2]),
        ("mean", [1 / 3] * 5),
        # 1 - 3/2 x^2 + 1/2 |x|^3 inside, slope -+3/2 outside
        ("natural_cubic", [1, 0.6875, 0.6875, -1.5, -3]),
    ],
)
def test_a_hat_by_hand(name, expected):
    hat, places = np.array([[0.0], [1.0], [0.0]]), np.array([0.0, 0.5, -0.5, 2.0, -3.0])
    found = ON_GIVEN_CHART[name](np.array([-1.0, 0.0, 1.0]), hat, places)
    np.testing.assert_allclose(found[:, 0], expected, atol=1e-14)


def test_nearest_takes_the_lower_of_two_equally_near(spectra):
    places = np.array([-5.0, -0.69, 0.19, 0.9, 2.0])
    predicted = baselines.nearest(POSITIONS, spectra, places)
    np.testing.assert_array_equal(predicted, spectra[[0, 1, 3, 5, 5]])
    # Charted 0, 20, 40, 60 with 30 left out: rounding makes the upper one nearer by 1e-17.
    positions, position = 2 * np.array([0.0, 20.0, 40.0, 60.0]) / 60.0 - 1, 2 * 30.0 / 60.0 - 1
    assert abs(positions[2] - position) < abs(positions[1] - position)
    predicted = baselines.nearest(positions, spectra[:4], np.array([position]))
    np.testing.assert_array_equal(predicted, spectra[[1]])


@pytest.mark.parametrize("fold", [0, 1, 3])  # the blank, the smallest positive level, another
def test_left_out_row_does_not_matter(fold, spectra):
    replaced = spectra.copy()
    replaced[fold] = 1e3
    expected, found = left_out(LEVELS, spectra), left_out(LEVELS, replaced)
    for name in BASELINES:
        np.testing.assert_array_equal(found[name][fold], expected[name][fold])
        assert not np.array_equal(found[name], expected[name])


# charts


def test_most_baselines_predict_from_positions_on_the_given_chart():
    slope, intercept = np.array([2.0, -1.0, 0.0]), np.array([0.0, 5.0, 1.0])
    spectra = slope * np.log(WIDE)[:, None] + intercept
    chart = Chart.of("log", None, WIDE)
    levels = np.array([0.2, 7.0, 4000.0])
    expected = slope * np.log(levels)[:, None] + intercept
    predicted = predict_by_baselines(chart, WIDE, spectra, levels)
    for name in ("linear", "pchip", "natural_cubic", "process_with_trend"):
        np.testing.assert_allclose(predicted[name], expected, atol=1e-5)


def by_process(places, spectra):
    """Prediction at the last place, and evidence, on a chart that reaches over all of them."""
    *known, place = 2 * (places - places.min()) / np.ptp(places) - 1
    process, evidence = fit_process(np.array(known), spectra, "constant")
    return process.predict(np.array(known), spectra, np.array([place]))[0], evidence


POSITIVE = np.array([1.0, 2.5, 12.0, 40.0, 55.0, 300.0])
NEGATIVE = np.array([-3.0, 2.0, 5.0, 20.0, 60.0, 200.0])
CASES = [
    # levels, the one to predict, coordinate of the spectra, coordinate of the logarithmic chart
    (POSITIVE, 12.0, np.log, np.log),
    (POSITIVE, 1.0, np.log, np.log),  # the lowest: the chart reaches down to it all the same
    (POSITIVE, 40.0, np.copy, np.log),
    (LEVELS, 20.0, np.arcsinh, lambda levels: np.arcsinh(levels / 1.0)),
    (LEVELS, 2.0, np.copy, lambda levels: np.arcsinh(levels / 1.0)),  # gives kappa
    (NEGATIVE, 20.0, np.arcsinh, np.copy),
]


@pytest.mark.parametrize(("levels", "level", "smooth_in", "logarithm"), CASES)
def test_processes_are_on_charts_of_all_levels(levels, level, smooth_in, logarithm):
    noise = 0.02 * np.random.default_rng(4).normal(size=(6, 30))
    training = levels != level
    spectra = (smooth(smooth_in(levels), 30) + noise)[training]
    places = np.append(levels[training], level)
    linear, on_linear = by_process(places, spectra)
    logarithmic, on_log = by_process(logarithm(places), spectra)
    by_evidence = logarithmic if on_log > on_linear else linear
    predicted = predict(linear_chart(levels), levels[training], spectra, level)
    for name, expected in zip(PROCESSES, (linear, logarithmic, by_evidence), strict=True):
        np.testing.assert_allclose(predicted[name], expected, atol=1e-7)
    assert np.allclose(linear, logarithmic) == (levels is NEGATIVE)


# R2 of every fold, pooled over all folds, and pooled over interior folds.
PUBLISHED = {
    "linear": (-0.033, 0.772, 0.714, 0.997, 0.703, -0.683, 0.392, 0.795),
    "pchip": (-0.276, 0.819, 0.769, 0.995, 0.806, -0.627, 0.398, 0.843),
    "natural_cubic": (0.063, 0.847, 0.902, 0.953, 0.931, -0.482, 0.518, 0.905),
    "nearest": (-0.636, -0.443, 0.589, 0.653, 0.531, 0.798, 0.272, 0.329),
    "mean": (-0.312, 0.754, 0.180, 0.830, 0.696, 0.885, 0.501, 0.576),
}


@pytest.fixture(scope="module")
def measured_predictions(measured_series):
    return left_out(*measured_series)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_scores_on_gold_nanoparticles(name, measured_series, measured_predictions):
    (levels, spectra), predicted = measured_series, measured_predictions[name]
    axis = np.arange(200.0, 801.0)
    scores = series_scores(axis, levels, spectra, predicted)
    found = [fold["r2"] for fold in scores["folds"].values()]
    found += [scores["pooled_r2"], scores["interior_pooled_r2"]]
    # Half a unit of the third digit.
    assert found == pytest.approx(PUBLISHED[name], abs=5.1e-4)


# the choice inside a fold


@pytest.mark.parametrize(("count", "inner"), [(6, [0, 1, 2, 3, 4]), (8, [0, 2, 4, 6])])
def test_the_choice_of_a_fold_has_the_smallest_error_inside(count, inner, monkeypatch):
    """Noise by level, so that folds choose differently; of many levels some are left out."""
    three = ("linear", "natural_cubic", "mean")  # quick ones, each the best somewhere
    monkeypatch.setattr(baselines, "BASELINES", three)
    monkeypatch.setattr(baselines, "MOST_LEFT_OUT", len(inner))
    levels = np.linspace(1.0, 40.0, count)
    noise = np.random.default_rng(3).normal(size=(count, 5)) * np.linspace(0, 60, count)[:, None]
    bent = np.stack([levels - levels.mean(), (levels - levels.mean()) ** 2], axis=1)
    spectra = bent @ np.random.default_rng(1).normal(size=(2, 5)) + noise
    chart = linear_chart(levels)
    expected = []
    for fold in range(count):
        others, known = np.delete(levels, fold), np.delete(spectra, fold, axis=0)
        errors = dict.fromkeys(three, 0.0)
        for level in inner:
            training, rest = np.delete(others, level), np.delete(known, level, axis=0)
            found = predict_by_baselines(chart, training, rest, others[[level]])
            for name in three:
                errors[name] += np.sum((found[name] - known[level]) ** 2)
        expected.append(min(errors, key=errors.get))
    assert chosen_inside(chart, levels, spectra) == expected
    assert len(set(expected)) > 1


def of_every_rank(positions, spectra, target):
    """Predictions at a target by PCHIP of 1, 2, ... singular vectors."""
    centre = spectra.mean(axis=0)
    left, singular, basis = np.linalg.svd(spectra - centre, full_matrices=False)
    scores = PchipInterpolator(positions, left * singular)(target)
    return centre + np.cumsum(scores[:, None] * basis, axis=0)


@pytest.mark.parametrize("seed", range(4))
def test_the_rank_of_low_rank_pchip_is_that_of_refits(seed):
    random = np.random.default_rng(seed)
    spectra = smooth(POSITIONS, 30) + 0.2 * random.normal(size=(6, 30))
    errors = np.zeros(4)
    for level in range(6):
        known = np.delete(POSITIONS, level), np.delete(spectra, level, axis=0)
        apart = of_every_rank(*known, POSITIONS[level])[:4] - spectra[level]
        errors += (apart**2).sum(axis=1)
    expected = of_every_rank(POSITIONS, spectra, 0.3)[errors.argmin()]
    found = baselines.low_rank_pchip(POSITIONS, spectra, np.array([0.3]))
    np.testing.assert_allclose(found, expected[None], atol=1e-10)
