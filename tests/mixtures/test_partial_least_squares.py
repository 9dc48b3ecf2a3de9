import numpy as np
import pytest
from geonode.mixtures.partial_least_squares import components, own_basis
from sklearn.cross_decomposition import PLSRegression

from geonode.mixtures.inverse import METHODS, fit_inverse
from tests.mixtures import beer

KNOWN = beer.amounts(14, 3)
SIGNAL = beer.spectra(KNOWN, noise=0.2, bend=2.0)
COMPOSITION = np.arange(len(KNOWN))


@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("count", [1, 2, 5, 9])
def test_components_are_those_of_scikit_learn(targets, count):
    known = KNOWN[:, :targets]
    centre, mean = SIGNAL.mean(axis=0), known.mean(axis=0)
    basis = own_basis(SIGNAL)
    found = components((known - mean) / 10, (SIGNAL - centre) @ basis, 12)
    estimates = mean + 10 * (SIGNAL - centre) @ basis @ found.coefficients(count)
    slow = PLSRegression(count, scale=False, tol=1e-14, max_iter=10_000).fit(SIGNAL, known)
    np.testing.assert_allclose(estimates, slow.predict(SIGNAL).reshape(known.shape), atol=1e-5)


def test_components_beyond_the_rank_are_not_there():
    rank_two = beer.spectra(KNOWN[:, :2])
    basis = own_basis(rank_two)
    assert basis.shape[1] == 2
    scores = (rank_two - rank_two.mean(axis=0)) @ basis
    found = components(KNOWN[:, :2] - KNOWN[:, :2].mean(axis=0), scores, 6)
    assert np.isfinite(found.sizes[:2]).all()
    np.testing.assert_array_equal(found.slopes[2:], 0)


def slow_pls(signal, target, most=12):
    """Coefficients by the number of components with the least leave-one-out error."""
    errors = np.zeros(most)
    for out in range(len(signal)):
        kept = np.arange(len(signal)) != out
        for count in range(1, most + 1):
            model = PLSRegression(count, scale=False).fit(signal[kept], target[kept])
            errors[count - 1] += np.sum((model.predict(signal[[out]]) - target[out]) ** 2)
    best = int(errors.argmin()) + 1
    return PLSRegression(best, scale=False, tol=1e-14, max_iter=10_000).fit(signal, target).coef_.T


def test_methods_are_those_of_the_textbook():
    scaled = (KNOWN - KNOWN.mean(axis=0)) / KNOWN.std(axis=0)
    centred = SIGNAL - SIGNAL.mean(axis=0)
    found = fit_inverse(SIGNAL, KNOWN, COMPOSITION)
    expected = {"pls2": slow_pls(centred, scaled)}
    once = [slow_pls(centred, target[:, None]) for target in scaled.T]
    expected["pls"] = np.concatenate(once, axis=1)
    columns = []
    for target, slopes in zip(scaled.T, once, strict=True):
        weights = np.ones(len(beer.AXIS))
        for _ in range(2):
            weights = np.abs(slopes[:, 0]) / np.abs(slopes).max()
            slopes = weights[:, None] * slow_pls(centred * weights, target[:, None])  # noqa: PLW2901
        columns.append(slopes)
    expected["reweighted_pls"] = np.concatenate(columns, axis=1)
    for key, slopes in expected.items():
        estimates = KNOWN.mean(axis=0) + centred @ slopes * KNOWN.std(axis=0)
        np.testing.assert_allclose(found[key].estimates(SIGNAL), estimates, rtol=1e-5, atol=1e-5)


def test_classical_least_squares_reads_amounts_from_pure_spectra():
    offset = 0.5 * beer.AXIS
    found = fit_inverse(offset + beer.spectra(KNOWN), KNOWN, COMPOSITION)["cls"]
    foreign = 0.3 * np.sin(9 * beer.AXIS)
    signal = offset + beer.spectra([2.0, 3.0, 4.0]) + foreign
    along = np.linalg.lstsq(beer.PURE.T, foreign)[0]
    np.testing.assert_allclose(found.estimates(signal), np.add([[2, 3, 4]], along), rtol=1e-8)


@pytest.mark.parametrize("key", METHODS)
def test_linear_mixtures_are_recovered_exactly(key):
    signal = 0.2 + beer.spectra(KNOWN)
    unknown = beer.amounts(5, 3, seed=8)
    found = fit_inverse(signal, KNOWN, COMPOSITION)[key]
    np.testing.assert_allclose(found.estimates(0.2 + beer.spectra(unknown)), unknown, atol=1e-7)
