import json
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from geonode.estimation.curve import Curve
from geonode.estimation.posterior import estimate
from geonode.evaluation.estimation import estimate_left_out
from geonode.learning.folds import leave_one_out
from tests.estimation.known import LEVELS, bent, noise, series_of, straight

SERIES = series_of(LEVELS, bent(LEVELS) + noise(6, 0.01))


def test_every_level_is_estimated_by_the_fold_without_it():
    reported = []
    found = estimate_left_out(SERIES, reported.append)
    assert reported == [1] * 6
    for fold, one in zip(leave_one_out(6), found.estimates, strict=False):
        expected = estimate(Curve.of(SERIES, fold), SERIES.signal[[fold.index]])
        assert one.sets == expected.sets
        assert one.mode == expected.mode


def test_several_threads_take_a_level_each_and_do_linear_algebra_alone(monkeypatch):
    alone, seen = [], []
    of = Curve.of

    def watched(*given):
        blas = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
        counts = [torch.get_num_threads(), *(pool["num_threads"] for pool in blas)]
        seen.append((threading.current_thread(), *counts))
        return of(*given)

    monkeypatch.setattr(Curve, "of", watched)
    before = torch.get_num_threads()
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            with threadpool_limits(2):
                alone.append(estimate_left_out(SERIES))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert {count for _, *counts in seen for count in counts} == {1}
    assert threading.main_thread() not in {thread for thread, *_ in seen}
    for one, other in zip(*(found.densities for found in alone), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_summary_by_hand():
    found = estimate_left_out(series_of(LEVELS, straight(LEVELS)))
    assert found.errors.max() < 3  # of exact spectra
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
    for one, places, densities in zip(
        found.estimates, found.concentrations, found.densities, strict=True
    ):
        edges = [0.0]
        for place in places:  # the middle of a cell
            edges.append(2 * place - edges[-1])
        probability = densities * np.diff(edges)
        assert probability.sum() == pytest.approx(1.0)
        assert probability @ places == pytest.approx(float(one.mean[0]), abs=0.01)
