"""PLS and PCR from sums over folds, against scikit-learn on the samples themselves."""

import numpy as np
import pytest
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline

from geonode.spectra.component_regression import Scores, pcr_components, pls_components

METHODS = {
    "pls": (pls_components, lambda count: PLSRegression(count, scale=False)),
    "pcr": (pcr_components, lambda count: make_pipeline(PCA(count), LinearRegression())),
}
FOLDS = np.arange(24) % 6


def samples(wavelengths, seed=5):
    random = np.random.default_rng(seed)
    amounts = random.random((24, 4))
    spectra = 3 + amounts @ random.random((4, wavelengths))
    return amounts[:, 0] - amounts[:, 0].mean(), spectra + 0.02 * random.normal(size=spectra.shape)


@pytest.mark.parametrize("key", METHODS)
@pytest.mark.parametrize("wavelengths", [9, 70])  # fewer than samples, and more
def test_fits_without_folds_are_those_of_scikit_learn(key, wavelengths):
    target, spectra = samples(wavelengths)
    method, model = METHODS[key]
    found = Scores(spectra, FOLDS).left_out(target, method, 8)
    for count in (1, 4, 8):
        for fold in range(6):
            out, other = fold == FOLDS, (fold + 1) % 6 == FOLDS
            one = model(count).fit(spectra[~out], target[~out])
            expected = one.predict(spectra[out]).ravel()
            np.testing.assert_allclose(found.estimates[out, count - 1], expected, rtol=1e-7)
            pair = model(count).fit(spectra[~out & ~other], target[~out & ~other])
            expected = pair.predict(spectra[other]).ravel()
            np.testing.assert_allclose(found.inner[fold, other, count - 1], expected, rtol=1e-7)
            assert np.isnan(found.inner[fold, out]).all()
            scores = one.transform(spectra) if key == "pls" else one[0].transform(spectra)
            known = np.column_stack([np.ones(24), scores])[~out]
            there = np.column_stack([np.ones(24), scores])[out]
            expected = np.sum((there @ np.linalg.inv(known.T @ known)) * there, axis=1)
            np.testing.assert_allclose(found.leverages[out, count - 1], expected, rtol=1e-7)


@pytest.mark.parametrize("key", METHODS)
def test_of_one_fold_alone_estimates_are_the_mean(key):
    target, spectra = samples(9)
    found = Scores(spectra, 0 * FOLDS).left_out(7 + target, METHODS[key][0], 3)
    np.testing.assert_allclose(found.estimates, np.full((24, 3), 7.0))
    np.testing.assert_array_equal(found.leverages, np.full((24, 3), 1 / 24))
    np.testing.assert_array_equal(found.inner, found.estimates[None])


@pytest.mark.parametrize("key", METHODS)
@pytest.mark.parametrize("wavelengths", [9, 70])
def test_the_fit_to_all_samples_is_one_of_wavelengths(key, wavelengths):
    target, spectra = samples(wavelengths)
    method, model = METHODS[key]
    scores = Scores(spectra, FOLDS)
    (rotation,), _, (slopes,) = scores.fits(target, [()], method, 5).components
    estimates = (spectra - scores.centre) @ scores.of_wavelengths(rotation) @ slopes
    expected = model(5).fit(spectra, target).predict(spectra).ravel()
    np.testing.assert_allclose(estimates, expected, rtol=1e-7)


@pytest.mark.parametrize("key", METHODS)
@pytest.mark.parametrize("offset", [0.0, 1e5 / 7])
def test_components_beyond_the_rank_are_not_there(key, offset):
    random = np.random.default_rng(3)
    amounts = random.random((24, 2))
    spectra = offset + amounts @ random.random((2, 40))
    found = Scores(spectra, FOLDS).fits(amounts[:, 0], [(), (1, 4)], METHODS[key][0], 6).components
    assert np.isfinite(found.sizes[:, :2]).all()
    np.testing.assert_array_equal(found.slopes[:, 2:], 0)
    assert np.isinf(found.sizes[:, 2:]).all()
