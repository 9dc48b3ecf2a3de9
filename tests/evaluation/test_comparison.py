import numpy as np
import pytest

from geonode.evaluation import comparison
from geonode.evaluation.baselines import BASELINES, predict_by_baselines
from geonode.evaluation.comparison import Comparison, chosen_inside, left_out_predictions
from geonode.spectra.chart import Chart
from tests.geometry.small_series import small_series

WIDE = np.array([0.0, 1.0, 3.0, 10.0, 30.0, 100.0])


def linear_chart(levels):
    return Chart.of("linear", None, levels)


def bent(coordinate, levels):
    """Spectra on a bent line on some chart."""
    shapes = np.random.default_rng(1).normal(size=(2, 5))
    positions = coordinate(levels) - coordinate(levels).mean()
    return np.stack([positions, positions**2], axis=1) @ shapes


def test_every_baseline_is_scored_and_the_best_is_the_best():
    reported, series = [], small_series(levels=6, wavelengths=8)
    found = Comparison.of(series, reported.append)
    assert sum(reported) == 2 * 6
    parts = series.chart, series.concentrations, series.signal
    errors = {
        name: np.sqrt(np.mean((expected - series.signal) ** 2))
        for name, expected in left_out_predictions(*parts).items()
    }
    assert list(errors) == list(BASELINES)
    assert found.rmse == pytest.approx(errors)
    assert errors[found.best] == min(errors.values())
    summary = found.summary(0.5)
    assert summary["best_baseline_rmse"] == pytest.approx(min(errors.values()), rel=1e-12)
    assert summary["skill"] == pytest.approx(1 - 0.5 / found.chosen_rmse, rel=1e-12)
    assert {"folds", "pooled"}.isdisjoint(summary["baselines"]["linear"])
    assert summary["baselines"]["linear"]["rmse"] == pytest.approx(errors["linear"])


def test_four_levels_are_too_few_to_choose_a_baseline():
    found = Comparison.of(small_series(levels=4, wavelengths=8))
    assert found.chosen_rmse is None
    assert found.summary(0.5)["skill"] is None


def test_a_fold_is_handed_the_other_rows_only(monkeypatch):
    handed, levels = [], WIDE
    spectra = bent(np.arcsinh, levels)

    def spy(chart, training, known, targets):
        handed.append((training, known, targets))
        return {"spy": known[:1]}

    monkeypatch.setattr(comparison, "predict_by_baselines", spy)
    left_out_predictions(linear_chart(levels), levels, spectra)
    assert [targets.tolist() for *_, targets in handed] == levels[:, None].tolist()
    for fold, (training, known, _) in enumerate(handed):
        np.testing.assert_array_equal(training, np.delete(levels, fold))
        np.testing.assert_array_equal(known, np.delete(spectra, fold, axis=0))


@pytest.fixture
def three_baselines(monkeypatch):
    """Names of quick ones, each the best somewhere."""
    few = ("linear", "natural_cubic", "mean")
    monkeypatch.setattr(comparison, "BASELINES", few)
    return few


@pytest.mark.parametrize(
    ("count", "inner"), [(6, [0, 1, 2, 3, 4]), (13, [0, 1, 2, 4, 5, 6, 7, 9, 10, 11])]
)
def test_the_choice_of_a_fold_has_the_smallest_error_inside(three_baselines, count, inner):
    """Noise by level, so that folds choose differently; of many levels some are left out."""
    levels = np.linspace(1.0, 40.0, count)
    noise = np.random.default_rng(3).normal(size=(count, 5)) * np.linspace(0, 60, count)[:, None]
    spectra, chart = bent(np.copy, levels) + noise, linear_chart(levels)
    expected = []
    for fold in range(count):
        others, known = np.delete(levels, fold), np.delete(spectra, fold, axis=0)
        errors = dict.fromkeys(three_baselines, 0.0)
        for level in inner:
            training, rest = np.delete(others, level), np.delete(known, level, axis=0)
            found = predict_by_baselines(chart, training, rest, others[[level]])
            for name in three_baselines:
                errors[name] += np.sum((found[name] - known[level]) ** 2)
        expected.append(min(errors, key=errors.get))
    assert chosen_inside(chart, levels, spectra) == expected
    assert len(set(expected)) > 1


@pytest.mark.parametrize("fold", [0, 3])
def test_the_baseline_of_a_fold_is_chosen_without_its_spectrum(fold):
    spectra, chart = bent(np.arcsinh, WIDE), linear_chart(WIDE)
    before = chosen_inside(chart, WIDE, spectra)
    spectra[fold] = 1e3 * np.arange(5)
    after = chosen_inside(chart, WIDE, spectra)
    assert after[fold] == before[fold]
    assert after != before


def test_the_chosen_prediction_of_a_fold_is_that_of_its_baseline():
    series = small_series(levels=6, wavelengths=8)
    found = Comparison.of(series)
    names = chosen_inside(series.chart, series.concentrations, series.signal)
    for fold, name in enumerate(names):
        np.testing.assert_array_equal(found.chosen[fold], found.predicted[name][fold])
