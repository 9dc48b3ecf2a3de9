import io
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from geonode.calibration.methods import INVERSE, estimate_left_out_by
from geonode.evaluation.baselines import BASELINES, chosen_inside
from geonode.evaluation.evaluate import (
    CHOSEN_BASELINE,
    GEONODE,
    POSTERIOR,
    PUBLISHED,
    Evaluation,
    Learned,
    by_kind,
    by_model,
    classical,
    estimate_left_out,
    metric_csv,
)
from geonode.evaluation.scores import skill
from geonode.posterior.prior import PROBABILITIES
from geonode.prediction.model import SpectralModel
from tests.estimation.known import LEVELS, bent, noise, straight
from tests.evaluation.test_panel import tiny
from tests.factory import series_of
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
    assert list(found) == [*BASELINES, CHOSEN_BASELINE, *INVERSE]
    names = chosen_inside(SERIES.chart, SERIES.concentrations, SERIES.signal)
    for fold, name in enumerate(names):
        expected = found[name].spectra[fold]
        np.testing.assert_array_equal(found[CHOSEN_BASELINE].spectra[fold], expected)
    for name in INVERSE:
        off = np.abs(estimate_left_out_by(name, SERIES) - SERIES.concentrations)
        median = np.median(off) / np.ptp(SERIES.concentrations)
        assert found[name].row["concentration_error"] == pytest.approx(median)


def test_geonode_learns_predicts_and_estimates():
    parameters, reported = tiny(decoders__kind="posterior"), []
    series = small_series(levels=5, wavelengths=9)
    learned = Learned(parameters, cpu())
    (found,) = learned(series, reported.append).values()
    assert sum(reported) == learned.steps(5)
    model = SpectralModel.fit(series, parameters, cpu())
    prediction, estimated = model.left_out(), estimate_left_out(series).found
    np.testing.assert_array_equal(found.spectra, prediction.spectra)
    np.testing.assert_array_equal(found.band[1], prediction.band()[1])
    assert (found.coverage is None) == (prediction.half_width is None)
    np.testing.assert_array_equal(found.estimates, estimated.mode)
    assert found.sets == estimated.sets


@pytest.mark.slow
def test_a_blend_also_answers_as_the_published_method():
    series = small_series(levels=5, wavelengths=9)
    model = SpectralModel.fit(series, tiny(), cpu())
    found = by_model(model)
    assert list(found) == [GEONODE, PUBLISHED, POSTERIOR]
    path = model.blend.only("path").left_out(series, model.features)
    np.testing.assert_array_equal(found[PUBLISHED].spectra, path.spectra)
    assert found[PUBLISHED].half_width is None
    rows, names = by_kind(model, found), ("blend", "path", "posterior")
    for place, (row, weights) in enumerate(zip(rows.values(), model.blend.weights, strict=False)):
        assert row["weight_of_paths"] == weights[1]
        for kind, one in zip(names, found.values(), strict=True):
            error = one.spectra[place] - series.signal[place]
            assert row[kind] == pytest.approx(np.sqrt((error**2).mean()))
    alone = replace(model, blend=model.blend.only("posterior"), features=None)
    assert list(by_model(alone)) == [GEONODE, POSTERIOR]


def test_scores_by_wavelength_are_over_levels():
    series, off = small_series(levels=5, wavelengths=9), np.linspace(0.1, 0.2, 9)
    series.signal[:, 3] = 0.25  # no level differs there
    found = Evaluation(series, series.signal + off).by_wavelength()
    rows = pd.read_csv(io.StringIO(found), index_col="wavelength")
    np.testing.assert_allclose(rows["rmse"], off, rtol=1e-5)
    assert rows["r2"].isna().tolist() == [place == 3 for place in range(9)]
    vary = np.delete(np.arange(9), 3)
    expected = 1 - off[vary] ** 2 / series.signal[:, vary].var(0)
    np.testing.assert_allclose(rows["r2"].dropna(), expected, rtol=1e-4)


def test_skill():
    pairs = [(0.0, 2.0), (0.25, 0.5), (2.0, 2.0), (5.0, 2.0), (1.0, 0.0)]
    assert [skill(rmse, best) for rmse, best in pairs] == [1.0, 0.5, 0.0, -1.5, None]


# concentrations of left-out levels


@pytest.fixture(scope="module")
def of_bent():
    return estimate_left_out(series_of(LEVELS, bent(LEVELS) + noise(6, 0.01)))


def test_the_summary_by_hand():
    found = estimate_left_out(series_of(LEVELS, straight(LEVELS)))
    assert np.abs(found.found.mode - LEVELS).max() < 3  # of exact spectra
    # As if the last level had another concentration, which its set does not hold.
    levels = np.array([*LEVELS[:-1], 90.0])
    summary, errors = replace(found, levels=levels).summary(), np.abs(found.found.mode - levels)
    assert list(summary["levels"]) == ["0", "10", "20", "30", "40", "90"]
    assert summary["median_absolute_error"] == pytest.approx(np.median(errors))
    assert summary["mean_absolute_error"] == pytest.approx(np.mean(errors))
    assert summary["median_error_of_range"] == pytest.approx(np.median(errors) / 90)
    assert summary["coverage90"] == 5 / 6
    assert (summary["coverage90_interior"], summary["coverage90_ends"]) == (1, 0.5)
    assert summary["disconnected"] == 0
    json.dumps(summary, allow_nan=False)


def test_sets_that_are_not_connected_are_counted():
    """12 and 48 are one spectrum."""
    levels = np.linspace(0, 60, 11)
    summary = estimate_left_out(series_of(levels, bent(levels) + noise(11, 1e-3))).summary()
    disconnected = {name: level["disconnected"] for name, level in summary["levels"].items()}
    assert summary["disconnected"] == sum(disconnected.values())
    assert disconnected["12"]
    assert not disconnected["30"]


def test_densities_are_those_of_the_posterior(of_bent):
    for mean, (places, densities) in zip(of_bent.found.mean, of_bent.densities, strict=True):
        edges = [0.0]
        for place in places:  # the middle of a cell
            edges.append(2 * place - edges[-1])
        probability = densities * np.diff(edges)
        assert probability.sum() == pytest.approx(1.0)
        assert probability @ places == pytest.approx(mean, abs=0.01)
    table = pd.read_csv(io.StringIO(of_bent.csv()))
    assert [*table.level.unique()] == LEVELS
    read = table[["concentration", "density"]].to_numpy().T
    np.testing.assert_allclose(read, np.concatenate(of_bent.densities, axis=1), rtol=1e-5)


# tables


@pytest.mark.usefixtures("unchecked")
def test_one_row_for_every_level_and_wavelength():
    series = SimpleNamespace(
        axis=np.array([200.0, 200.5]),
        concentrations=np.array([0.0, 2.5]),
        signal=np.array([[0.1, 0.2], [0.3, 1e-9]]),
    )
    band = np.array([[0.0, 0.01], [0.02, 0.03]])
    spectra = np.array([[1 / 3, 2.0], [-3.0, 12345678.0]])
    assert Evaluation(series, spectra, band=("90% interval", band)).csv() == (
        "level,wavelength,measured,predicted,90% interval\n"
        "0,200,0.1,0.333333,0\n"
        "0,200.5,0.2,2,0.01\n"
        "2.5,200,0.3,-3,0.02\n"
        "2.5,200.5,1e-09,1.23457e+07,0.03\n"
    )


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("known", [True, False])
def test_the_metric_is_drawn_between_all_levels_but_not_at_zero(known):
    model = SimpleNamespace(
        series=series_of(LEVELS, bent(LEVELS)),
        blend=SimpleNamespace(has_intervals=known),
        predict=lambda places: SimpleNamespace(sqrt_metric=np.stack([2 * places, places / 10])),
    )
    found = pd.read_csv(io.StringIO(metric_csv(model)))
    assert [*found] == ["concentration", "sqrt_g", "deviation"]
    places = np.union1d(LEVELS, np.linspace(0, 60, 101))[1:] if known else np.zeros(0)
    expected = np.stack([places, 2 * places, places / 10], axis=1)
    np.testing.assert_allclose(found.to_numpy(float), expected, rtol=1e-5)
