from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.cross_decomposition import PLSRegression
from sklearn.exceptions import NotFittedError

from geonode import ConcentrationRegressor, MixtureCalibration
from geonode.calibration.estimator import require_same_columns
from geonode.errors import MixtureError, ParameterError, SpectraError
from geonode.estimation.curve import Curve
from geonode.estimation.posterior import estimate
from geonode.learning.folds import leave_one_out
from geonode.spectra.series import Series
from tests.calibration import beer
from tests.mixtures import beer as mixtures

AXIS = beer.AXIS
WAVELENGTHS = [400.0, 450.5, 500.0]
SCANS = beer.scans(2)
X = np.concatenate(SCANS)
Y = np.repeat(beer.LEVELS, 2)
KNOWN = mixtures.amounts(16, 2)
SIGNAL = mixtures.spectra(KNOWN, noise=5e-3)
OF_ONE_SUBSTANCE = {"method": "pls"}, {"offset": True}, {"scale": True}, {"groups": np.arange(16)}


@pytest.fixture(scope="module")
def fitted():
    return ConcentrationRegressor(method="geonode").fit(X, Y)


def test_unknown_spectra_are_estimated_with_sets_that_hold_them(fitted):
    true = np.array([1.0, 4.0, 6.5, 9.5])
    found, interval = fitted.predict(beer.spectra_at(true), return_interval=True)
    np.testing.assert_allclose(found, true, atol=0.1)
    assert (interval[:, 0] < true).all()
    assert (true < interval[:, 1]).all()
    sets = fitted.estimate(beer.spectra_at(true)).sets
    assert [(parts[0][0], parts[-1][1]) for parts in sets] == [tuple(row) for row in interval]
    assert fitted.score(X, Y) > 0.99


def test_leaving_a_level_out_is_what_the_pipeline_does():
    # One scan a level: the mean is the scan.
    means = np.stack([scans.mean(axis=0) for scans in SCANS])
    whole = ConcentrationRegressor(method="geonode").fit(means, beer.LEVELS).calibration_
    series = Series.of_rows(beer.LEVELS, means, None, 3)
    fold = leave_one_out(len(means))[2]
    curve = Curve.of(series, fold, one_scan=True)
    kept = list(fold.training)
    left_out = ConcentrationRegressor().fit(means[kept], beer.LEVELS[kept]).estimate(means[[2]])
    expected = estimate(curve, means[[2]]).mode
    np.testing.assert_allclose(left_out.mode, expected, rtol=1e-9)
    np.testing.assert_allclose(whole.verdict.by_key("geonode").estimates[2], expected[0], rtol=1e-9)


def test_a_spectrum_of_something_else_is_warned_of(fitted):
    odd = np.concatenate([X[:1], 2 - X[:1]])
    with pytest.warns(UserWarning, match="1 of 2 spectra fit no concentration"):
        fitted.predict(odd)
    assert fitted.estimate(odd).fits.tolist() == [True, False]
    with pytest.raises(NotFittedError):
        clone(fitted).predict(X)
    with pytest.raises(ValueError, match="expecting 21 features"):
        fitted.predict(X[:, :4])


def test_replicates_show_that_few_levels_are_chance():
    """Smooth along the axis, but levels are no farther apart than their scans."""
    levels = np.repeat(beer.LEVELS[:4], 3)
    smooth = np.random.default_rng(2).normal(size=(12, 3)) @ beer.spectra_at([1, 5, 9])
    with pytest.warns(UserWarning, match="could be chance"):
        ConcentrationRegressor().fit(smooth, levels)


def test_several_substances_are_estimated_together():
    unknown = np.clip(mixtures.amounts(6, 2, seed=3), 1, 9)
    table = pd.DataFrame(KNOWN, columns=["lead", "zinc"])
    fitted = ConcentrationRegressor().fit(SIGNAL, table)
    found, intervals = fitted.predict(mixtures.spectra(unknown), return_interval=True)
    np.testing.assert_allclose(found, unknown, atol=0.1)
    assert ((intervals[..., 0] < unknown) & (intervals[..., 1] > unknown)).mean() > 0.8
    assert fitted.score(SIGNAL, KNOWN) > 0.999
    assert isinstance(fitted.calibration_, MixtureCalibration)
    assert fitted.calibration_.design.names == ("lead", "zinc")
    assert len(fitted.method_) == 2
    np.testing.assert_array_equal(fitted.estimate(mixtures.spectra(unknown)).amounts, found)
    strange = mixtures.spectra(unknown[:3])
    strange[2] += 2 * np.exp(-(((mixtures.AXIS - 0.95) / 0.02) ** 2))
    with pytest.warns(UserWarning, match="1 of 3 spectra fit no concentration"):
        fitted.predict(strange)


def test_it_is_pls_where_other_substances_vary_and_its_intervals_hold():
    """Three absorbers and white noise, for which PLS with three components is made."""
    own, of_pls, contained = [], [], []
    for seed in range(4):
        known = mixtures.amounts(260, 3, seed)
        spectra, amounts = mixtures.spectra(known, noise=0.02, seed=10 + seed), known[:, 0]
        found = ConcentrationRegressor().fit(spectra[:60], amounts[:60])
        weights = found.calibration_.verdict.combination.weights
        assert weights["pls"] + weights["pcr"] + weights["preprocessed_pls"] > 0.99
        assert "found 60 different concentrations" in found.calibration_.absent
        values, ends = found.predict(spectra[60:], return_interval=True)
        pls = PLSRegression(3, scale=False).fit(spectra[:60], amounts[:60]).predict(spectra[60:])
        own.append(np.abs(values - amounts[60:]))
        of_pls.append(np.abs(pls.ravel() - amounts[60:]))
        contained.append((ends[:, 0] <= amounts[60:]) & (amounts[60:] <= ends[:, 1]))
    assert np.mean(own) < 1.1 * np.mean(of_pls)
    assert 0.85 < np.mean(contained) < 0.97  # of 800, by four samples to calibrate with
    with pytest.raises(SpectraError, match="geonode takes no part"):
        found.estimate(spectra)


def test_where_two_concentrations_look_alike_sets_have_both(monkeypatch):
    """Of a signal that rises and falls no method estimates a level that is left out.

    The combination estimates where its intervals are shorter, though it does not beat a guess.
    """
    levels = np.array([0.0, 10.0, 20.0, 40.0, 50.0, 60.0])
    spectra = beer.spectra_at(10 - (levels - 30) ** 2 / 90)
    found = ConcentrationRegressor().fit(spectra, levels)
    assert found.calibration_.verdict.chosen is None
    assert found.method_ == "geonode"
    (parts,) = found.estimate(spectra[[1]]).sets
    assert [any(low <= level <= high for low, high in parts) for level in (10, 50)] == [True, True]

    def intervals(known, estimates, *others):
        return [[(one, one + 1.0)] for one in estimates]

    monkeypatch.setattr("geonode.calibration.fit.intervals_left_out", intervals)
    assert ConcentrationRegressor().fit(spectra, levels).method_ == "combined"


@pytest.mark.parametrize(
    ("columns", "known", "message"),
    [
        ([400, 450.5, 500], WAVELENGTHS, None),
        (np.array([400, 450.5, 500], np.float32), WAVELENGTHS, None),
        (["400 nm", "450.50001", "5e2"], WAVELENGTHS, None),  # other ways to write them
        ([500, 600, 700], None, None),
        ([0, 1, 2], WAVELENGTHS, None),  # counted from 0 on
        (["a", "b", "c"], ["a", "b", "c"], None),
        ([500, 550.5, 600], WAVELENGTHS, "X: found column 1 called 500.0, expected 400.0 as in"),
        ([400, 450.5], WAVELENGTHS, "column 3 called none, expected 500.0"),
        ([2, 1, 0], [0.0, 1.0, 2.0], "column 1 called 2.0, expected 0.0"),
        (["b", "a", "c"], ["a", "b", "c"], "column 1 called b, expected a"),
    ],
)
def test_columns_are_those_of_the_fit(columns, known, message):
    require_same_columns(np.zeros((2, 3)), known)
    table = pd.DataFrame(np.zeros((2, len(columns))), columns=columns)
    with pytest.raises(SpectraError, match=message) if message else nullcontext():
        require_same_columns(table, known)


def test_columns_of_other_numbers_are_refused():
    table = pd.DataFrame(X, columns=AXIS)
    found = ConcentrationRegressor(method="pls").fit(table, Y)
    np.testing.assert_array_equal(found.predict(table), found.predict(X))
    with pytest.raises(SpectraError, match="X: "):
        found.predict(table[AXIS[::-1]])


def test_two_concentrations_are_a_line_of_unknown_error():
    found = ConcentrationRegressor().fit(X[:4], Y[:4])
    values, ends = found.predict(X[:4], return_interval=True)
    np.testing.assert_allclose(values, Y[:4], atol=0.2)
    assert np.isinf(ends).all()


@pytest.mark.parametrize(
    ("changes", "spectra", "levels", "error", "message"),
    [
        ({"offset": True}, X[:, :1], Y, SpectraError, "one wavelength"),
        ({}, X, Y - 1, ValueError, "Negative values"),
        ({}, X[:2], Y[:2], SpectraError, "found 1 different concentration in 2 samples"),
        ({"method": "ols"}, X, Y, ParameterError, "method: found 'ols', expected auto, straight_l"),
        ({"method": ["pls"]}, X, Y, ParameterError, "method: found"),
        ({"method": "geonode"}, X[:6], Y[:6], ParameterError, "takes no part: found 2 different"),
        ({}, np.where(X[1, 1] > X, np.nan, X), Y, ValueError, "NaN"),
        *[(one, SIGNAL, KNOWN, MixtureError, 'd method="auto" alone') for one in OF_ONE_SUBSTANCE],
        ({}, SIGNAL, KNOWN - 5, MixtureError, "which is negative"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_wrong_input_is_refused(changes, spectra, levels, error, message):
    groups = changes.pop("groups", None)
    with pytest.raises(error, match=message):
        ConcentrationRegressor(**changes).fit(spectra, levels, groups)


def test_a_level_that_is_none_is_refused_before_and_after_the_fit():
    found = ConcentrationRegressor().fit(X, Y)
    for level in (0.5, 7, np.nan, "0.9", None):
        found.set_params(level=level)
        for use in (lambda: found.predict(X), lambda: found.estimate(X), lambda: found.fit(X, Y)):
            with pytest.raises(ParameterError, match="level: found"):
                use()
