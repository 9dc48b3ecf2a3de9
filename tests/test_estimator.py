from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from geonode import ConcentrationRegressor
from geonode.errors import ParameterError, SpectraError
from geonode.estimation.curve import Curve
from geonode.estimation.posterior import estimate
from geonode.rows import grouped
from geonode.training.folds import leave_one_out
from tests.calibration import beer

ROOT = Path(__file__).parents[1]
SCANS = beer.scans(2)
X = np.concatenate(SCANS)
Y = np.repeat(beer.LEVELS, 2)


@pytest.fixture(scope="module")
def fitted():
    return ConcentrationRegressor().fit(X, Y)


def test_unknown_spectra_are_estimated_with_sets_that_hold_them(fitted):
    true = np.array([1.0, 4.0, 6.5, 9.5])
    found, interval = fitted.predict(beer.spectra_at(true), return_interval=True)
    np.testing.assert_allclose(found, true, atol=0.1)
    assert (interval[:, 0] < true).all()
    assert (true < interval[:, 1]).all()
    sets = fitted.predict_set(beer.spectra_at(true))
    assert [(parts[0][0], parts[-1][1]) for parts in sets] == [tuple(row) for row in interval]
    assert fitted.score(X, Y) > 0.99


def test_scans_of_a_level_are_its_replicates(fitted):
    np.testing.assert_array_equal(fitted.series_.concentrations, beer.LEVELS)
    np.testing.assert_allclose(fitted.series_.signal, [scans.mean(axis=0) for scans in SCANS])
    expected = np.sqrt(np.mean([scans.var(axis=0, ddof=1) for scans in SCANS], axis=0))
    np.testing.assert_allclose(fitted.series_.replicates.noise, expected)


def test_leaving_a_level_out_is_what_the_pipeline_does():
    # One scan a level: the mean is the scan.
    means = np.stack([scans.mean(axis=0) for scans in SCANS])
    model = ConcentrationRegressor().fit(means, beer.LEVELS).model_
    fold = leave_one_out(len(means))[2]
    curve = Curve.of(replace(model, fold=fold), one_scan=True)
    kept = list(fold.training)
    found = ConcentrationRegressor().fit(means[kept], beer.LEVELS[kept]).predict(means[[2]])
    np.testing.assert_allclose(found, estimate(curve, means[[2]]).mode, rtol=1e-9)


@pytest.mark.slow
def test_it_works_in_pipelines_and_searches():
    left_out = {"cv": LeaveOneGroupOut(), "scoring": "neg_median_absolute_error"}
    pipeline = make_pipeline(StandardScaler(), ConcentrationRegressor())
    errors = -cross_val_score(pipeline, X, Y, groups=Y, **left_out)
    assert len(errors) == len(beer.LEVELS)
    # Scaled, noise counts as much as the band; the mean of the other levels is off by 3.75.
    assert np.median(errors) < 2
    search = GridSearchCV(ConcentrationRegressor(), {"offset": [False, True]}, **left_out)
    shifted = X + np.random.default_rng(0).normal(size=(len(X), 1))
    search.fit(shifted, Y, groups=Y)
    assert search.best_params_ == {"offset": True}


def test_a_spectrum_of_something_else_is_warned_of(fitted):
    odd = np.concatenate([X[:1], 2 - X[:1]])
    with pytest.warns(UserWarning, match="1 of 2 spectra fit no concentration"):
        fitted.predict(odd)
    assert fitted.estimate(odd).fits.tolist() == [True, False]
    with pytest.raises(NotFittedError):
        clone(fitted).predict(X)
    with pytest.raises(ValueError, match="expecting 21 features"):
        fitted.predict(X[:, :4])


def test_many_concentrations_are_grouped_and_said():
    levels = np.arange(101.0)
    with pytest.warns(UserWarning, match="found 101 different .* 50 in all"):
        found = grouped(levels)
    assert found[:6].tolist() == [1, 1, 1, 3.5, 3.5, 5.5]  # 101 = 3 + 49 pairs
    assert len(np.unique(found)) == 50
    np.testing.assert_array_equal(grouped(levels[:50]), levels[:50])


@pytest.mark.parametrize(
    ("changes", "spectra", "levels", "error", "message"),
    [
        ({"preset": "slow"}, X, Y, ParameterError, "ConcentrationRegressor: preset: found 'slow'"),
        ({"offset": True}, X[:, :1], Y, SpectraError, "one wavelength"),
        ({}, X, Y - 1, ValueError, "Negative values"),
        ({}, X[:4], Y[:4], SpectraError, "found 2 different concentrations in 4 rows, expected 3"),
        ({}, np.where(X[1, 1] > X, np.nan, X), Y, ValueError, "NaN"),
    ],
)
def test_wrong_input_is_refused(changes, spectra, levels, error, message):
    with pytest.raises(error, match=message):
        ConcentrationRegressor(**changes).fit(spectra, levels)
