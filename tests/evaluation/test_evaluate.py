from dataclasses import replace

import numpy as np
import pytest

from geonode.calibration.methods import INVERSE, estimate_left_out_by
from geonode.estimation.model import SpectralModel
from geonode.evaluation.baselines import BASELINES, chosen_inside
from geonode.evaluation.evaluate import (
    CHOSEN,
    GEONODE,
    PUBLISHED,
    Evaluation,
    Learned,
    by_baselines,
    by_model,
    classical,
    estimate_left_out,
)
from geonode.evaluation.scores import skill
from geonode.posterior.prior import PROBABILITIES
from tests.evaluation.test_panel import tiny
from tests.geometry.small_series import small_series
from tests.learning.series import cpu

SERIES = small_series(levels=6, wavelengths=8)


def scores_by_hand(series, spectra):
    """The scores of spectra that are in a row of the table, by their formulas."""
    measured, count = series.signal, len(series.signal)
    error = spectra - measured
    spread = (measured - measured.mean(axis=1, keepdims=True)) ** 2
    from_others = [np.delete(measured, level, 0).mean(axis=0) for level in range(count)]
    return {
        "rmse": np.sqrt(np.mean(error**2)),
        "q2": 1 - np.sum(error**2) / np.sum((measured - from_others) ** 2),
        "pooled_r2": 1 - np.sum(error**2) / np.sum(spread),
        "interior_pooled_r2": 1 - np.sum(error[1:-1] ** 2) / np.sum(spread[1:-1]),
        "mean_r2": (1 - np.sum(error**2, axis=1) / np.sum(spread, axis=1)).mean(),
    }


def test_a_row_has_the_scores_of_what_a_method_says_and_no_others():
    levels, random = SERIES.concentrations, np.random.default_rng(0)
    spectra = SERIES.signal + random.normal(0, 0.01, SERIES.signal.shape)
    expected = scores_by_hand(SERIES, spectra)
    assert Evaluation(SERIES, spectra).row == pytest.approx(expected, rel=1e-9)

    half = np.full((len(PROBABILITIES), *spectra.shape), 0.01)
    held = np.abs(spectra - SERIES.signal) <= 0.01
    expected |= {"coverage90": held.mean(), "coverage90_interior": held[1:-1].mean()}
    expected |= {"coverage90_ends": held[[0, -1]].mean()}
    assert Evaluation(SERIES, spectra, half).row == pytest.approx(expected, rel=1e-9)

    off = np.array([1.0, -2.0, 3.0, 0.0, 4.0, -0.5])
    span = np.ptp(levels)
    expected = {
        "concentration_error": 1.5 / span,  # the middle of 0, 0.5, 1, 2, 3, 4
        "concentration_rmsep": np.sqrt(30.25 / 6) / span,
    }
    assert Evaluation(SERIES, estimates=levels + off).row == pytest.approx(expected)
    sets = [[(one - 3, one - 2), (one - 0.5, one)] for one in levels]
    sets[-1] = [(levels[-1] + 0.1, levels[-1] + 1)]
    expected |= {"concentration_coverage90": 5 / 6, "concentration_coverage90_interior": 1.0}
    expected |= {"concentration_coverage90_ends": 0.5}
    found = Evaluation(SERIES, estimates=levels + off, sets=sets).row
    assert found == pytest.approx(expected)


def test_all_classical_methods_answer_and_the_chosen_one_is_that_of_each_fold():
    reported = []
    found = classical(SERIES, reported.append)
    assert sum(reported) == 2 * 6
    assert list(found) == [*BASELINES, CHOSEN, *INVERSE]
    names = chosen_inside(SERIES.chart, SERIES.concentrations, SERIES.signal)
    for fold, name in enumerate(names):
        expected = found[name].spectra[fold]
        np.testing.assert_array_equal(found[CHOSEN].spectra[fold], expected)
    for name in INVERSE:
        off = np.abs(estimate_left_out_by(name, SERIES) - SERIES.concentrations)
        median = np.median(off) / np.ptp(SERIES.concentrations)
        assert found[name].row["concentration_error"] == pytest.approx(median)


def test_four_levels_are_too_few_to_choose_a_baseline():
    assert set(by_baselines(small_series(levels=4, wavelengths=8))) == set(BASELINES)
    assert CHOSEN in by_baselines(small_series(levels=5, wavelengths=8))


@pytest.mark.parametrize(
    "changes",
    [
        {"decoders__kind": "posterior"},
        pytest.param({}, marks=pytest.mark.slow),
        pytest.param({"inner__members": 0, "decoders__kind": "path"}, marks=pytest.mark.slow),
    ],
    ids=["posterior", "blend", "no intervals"],
)
def test_geonode_learns_predicts_and_estimates(changes):
    parameters, reported = tiny(**changes), []
    series = small_series(levels=5, wavelengths=9)
    learned = Learned(parameters, cpu())
    (found,) = learned(series, reported.append).values()
    assert sum(reported) == learned.steps(5)
    model = SpectralModel.fit(series, parameters, cpu())
    prediction, estimated = model.left_out(), estimate_left_out(series).found
    np.testing.assert_array_equal(found.spectra, prediction.spectra)
    np.testing.assert_array_equal(found.band[1], prediction.band[1])
    assert (found.coverage is None) == (prediction.half_width is None)
    np.testing.assert_array_equal(found.estimates, estimated.mode)
    assert found.sets == estimated.sets


@pytest.mark.slow
def test_a_blend_also_answers_as_the_published_method():
    series = small_series(levels=5, wavelengths=9)
    model = SpectralModel.fit(series, tiny(), cpu())
    found = by_model(model)
    assert list(found) == [GEONODE, PUBLISHED]
    path = model.blend.only("path").left_out(series, model.features)
    np.testing.assert_array_equal(found[PUBLISHED].spectra, path.spectra)
    assert found[PUBLISHED].half_width is None
    alone = replace(model, blend=model.blend.only("posterior"), features=None)
    assert list(by_model(alone)) == [GEONODE]


@pytest.mark.parametrize(
    ("rmse", "best", "expected"),
    [(0.0, 2.0, 1.0), (0.25, 0.5, 0.5), (2.0, 2.0, 0.0), (5.0, 2.0, -1.5), (1.0, 0.0, None)],
)
def test_skill(rmse, best, expected):
    assert skill(rmse, best) == expected
