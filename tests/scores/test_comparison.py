from functools import partial

import numpy as np
import pytest

from geonode.scores.baselines import BASELINES, left_out_predictions
from geonode.scores.comparison import Comparison
from tests.geometry.small_series import small_series


def series(levels):
    return small_series(levels=levels, wavelengths=8)


def test_every_baseline_is_scored_and_the_best_is_the_best():
    reported = []
    six = series(6)
    comparison = Comparison.of(six, reported.append)
    assert sum(reported) == len(BASELINES) + 6
    assert list(comparison.scores) == list(comparison.predictions) == list(BASELINES)
    errors = {}
    for name, baseline in BASELINES.items():
        expected = left_out_predictions(
            partial(baseline, six.chart), six.concentrations, six.signal
        )
        np.testing.assert_array_equal(comparison.predictions[name], expected)
        errors[name] = np.sqrt(np.mean((expected - six.signal) ** 2))
    assert errors[comparison.best] == min(errors.values())
    summary = comparison.summary(0.5)
    assert summary["best_baseline_rmse"] == pytest.approx(min(errors.values()), rel=1e-12)
    # What is chosen beforehand is no better than what is picked afterwards, fold by fold at least.
    assert summary["skill"] == pytest.approx(1 - 0.5 / comparison.chosen_rmse, rel=1e-12)
    assert {"folds", "pooled"}.isdisjoint(summary["baselines"]["linear"])


def test_four_levels_are_too_few_to_choose_a_baseline():
    comparison = Comparison.of(series(4))
    assert comparison.chosen_rmse is None
    assert comparison.summary(0.5)["skill"] is None
