"""Diagnostics against scikit-learn, closed forms and simulated samples."""

import numpy as np
import pytest
from scipy.stats import chi2
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import LeaveOneOut, cross_val_predict
from sklearn.pipeline import make_pipeline

from geonode.calibration.diagnostics import Diagnostics, leverage_limit, residual_limit
from geonode.calibration.methods import fitted

COUNT, WIDTH = 14, 30
MODELS = {
    "pls": lambda count: PLSRegression(count, scale=False),
    "pcr": lambda count: make_pipeline(PCA(count), LinearRegression()),
}


@pytest.fixture(scope="module", params=MODELS)
def found(request):
    random = np.random.default_rng(4)
    levels, other = random.uniform(0, 10, (2, COUNT))
    pure = random.random((2, WIDTH))
    spectra = np.stack([levels, other], 1) @ pure + 0.05 * random.normal(size=(COUNT, WIDTH))
    folds, key = np.arange(COUNT), request.param
    method = fitted(key, levels, spectra, folds)
    return Diagnostics.of(key, method, spectra, levels, folds), spectra, levels


def test_vector_leverages_and_residuals_are_those_of_scikit_learn(found):
    diagnostics, spectra, levels = found
    centred, count = spectra - spectra.mean(axis=0), diagnostics.components
    assert count >= 2
    if diagnostics.key == "pls":
        model = PLSRegression(count, scale=False).fit(spectra, levels)
        scores, loadings, vector = model.x_scores_, model.x_loadings_, model.coef_.ravel()
    else:
        model = PCA(count).fit(spectra)
        scores, loadings = model.transform(spectra), model.components_.T
        vector = loadings @ LinearRegression().fit(scores, levels).coef_
    np.testing.assert_allclose(diagnostics.vector, vector, rtol=1e-6, atol=1e-9)
    hat = scores @ np.linalg.pinv(scores)
    np.testing.assert_allclose(diagnostics.leverages, np.diag(hat) + 1 / COUNT, rtol=1e-6)
    left = centred - scores @ loadings.T
    np.testing.assert_allclose(diagnostics.residuals, np.sum(left**2, axis=1), rtol=1e-6)
    estimates = levels.mean() + centred @ diagnostics.vector
    predicted = MODELS[diagnostics.key](count).fit(spectra, levels).predict(spectra).ravel()
    np.testing.assert_allclose(estimates, predicted, rtol=1e-6)


def test_errors_by_number_of_components_are_those_of_scikit_learn(found):
    diagnostics, spectra, levels = found
    for key, errors in diagnostics.rmsecv.items():
        assert len(errors) == 12
        for count in (1, 3):
            model = MODELS[key](count)
            estimates = cross_val_predict(model, spectra, levels, cv=LeaveOneOut()).ravel()
            expected = np.sqrt(np.mean((estimates - levels) ** 2))
            assert errors[count - 1] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("samples", "components"), [(6, 1), (6, 3), (40, 4)])
def test_one_in_twenty_leverages_of_normal_samples_is_above_the_limit(samples, components):
    scores = np.random.default_rng(1).normal(size=(20_000, samples, components))
    scores -= scores.mean(axis=1, keepdims=True)
    inverse = np.linalg.inv(scores.swapaxes(1, 2) @ scores)
    leverages = np.einsum("ska,sab,skb->sk", scores, inverse, scores) + 1 / samples
    above = np.mean(leverages[:, 0] > leverage_limit(samples, components))
    assert above == pytest.approx(0.05, abs=0.005)  # standard error 0.0015


def test_with_no_sample_to_spare_there_is_no_limit():
    assert leverage_limit(5, 4) is None
    assert leverage_limit(5, 0) is None
    assert residual_limit(np.zeros((5, 7)), 1e-12) is None


@pytest.mark.parametrize("directions", [3, 10, 30])
def test_the_limit_of_residuals_of_one_size_is_a_quantile_of_chi_squared(directions):
    samples, variance = 50, 0.3
    orthogonal, _ = np.linalg.qr(np.random.default_rng(2).normal(size=(samples, directions)))
    left = np.sqrt(variance * (samples - 1)) * orthogonal
    expected = variance * chi2.ppf(0.95, directions)
    assert residual_limit(left) == pytest.approx(expected, rel=0.01)


def test_components_that_are_not_there_do_not_count():
    """Two samples differ in one direction, and the others in none."""
    levels = np.array([0.0, 1.0, 2.0, 3.0])
    spectra = np.outer(levels, [1.0, 2.0, 0.5])
    folds = np.arange(4)
    found = Diagnostics.of("pls", fitted("pls", levels, spectra, folds), spectra, levels, folds)
    assert found.components == 1
    assert found.residual_limit is None
    assert len(found.rmsecv["pls"]) == len(found.rmsecv["pcr"]) == 1
    np.testing.assert_allclose(found.vector, np.array([1, 2, 0.5]) / 5.25)
