import json
from dataclasses import replace

import numpy as np
import pytest

from geonode.estimation.curve import Curve
from geonode.estimation.posterior import estimate
from geonode.evaluation.evaluate import estimate_left_out
from geonode.learning.folds import leave_one_out
from tests.estimation.known import LEVELS, bent, noise, series_of, straight

SERIES = series_of(LEVELS, bent(LEVELS) + noise(6, 0.01))


def test_every_level_is_estimated_by_the_fold_without_it():
    reported = []
    found = estimate_left_out(SERIES, reported.append)
    assert reported == [1] * 6
    for fold in leave_one_out(6)[:-1]:
        expected = estimate(Curve.of(SERIES, fold), SERIES.signal[[fold.index]])
        assert found.found.sets[fold.index] == expected.sets[0]
        assert found.found.mode[fold.index] == expected.mode[0]


def test_the_summary_by_hand():
    found = estimate_left_out(series_of(LEVELS, straight(LEVELS)))
    assert np.abs(found.found.mode - LEVELS).max() < 3  # of exact spectra
    # As if the last level had another concentration, which its set does not hold.
    summary = replace(found, levels=np.array([*LEVELS[:-1], 90.0])).summary()
    errors = [abs(level["mode"] - float(name)) for name, level in summary["levels"].items()]
    assert list(summary["levels"]) == ["0", "10", "20", "30", "40", "90"]
    assert summary["median_absolute_error"] == pytest.approx(np.median(errors))
    assert summary["mean_absolute_error"] == pytest.approx(np.mean(errors))
    assert summary["median_error_of_range"] == pytest.approx(np.median(errors) / 90)
    held = [
        any(low <= float(name) <= high for low, high in level["set90"])
        for name, level in summary["levels"].items()
    ]
    assert summary["coverage90"] == np.mean(held) == 5 / 6
    assert summary["coverage90_interior"] == np.mean(held[1:-1])
    assert summary["coverage90_ends"] == np.mean([held[0], held[-1]])
    assert summary["disconnected"] == 0
    json.dumps(summary, allow_nan=False)


def test_sets_that_are_not_connected_are_counted():
    """12 and 48 are one spectrum."""
    levels = np.linspace(0, 60, 21)
    summary = estimate_left_out(series_of(levels, bent(levels) + noise(21, 1e-3))).summary()
    disconnected = {name: level["disconnected"] for name, level in summary["levels"].items()}
    assert summary["disconnected"] == sum(disconnected.values())
    assert disconnected["12"]
    assert not disconnected["30"]


def test_densities_are_those_of_the_posterior():
    found = estimate_left_out(SERIES)
    for mean, (places, densities) in zip(found.found.mean, found.densities, strict=True):
        edges = [0.0]
        for place in places:  # the middle of a cell
            edges.append(2 * place - edges[-1])
        probability = densities * np.diff(edges)
        assert probability.sum() == pytest.approx(1.0)
        assert probability @ places == pytest.approx(mean, abs=0.01)
