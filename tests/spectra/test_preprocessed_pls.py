"""PLS on preprocessings, against loops that refit and closed forms."""

import numpy as np
import pytest
from scipy.signal import savgol_filter
from sklearn.cross_decomposition import PLSRegression

from geonode.spectra.preprocessed_pls import (
    AS_MEASURED,
    PREPROCESSINGS,
    WEIGHT_POWER,
    fit_preprocessed,
    preprocessed,
    reweighted,
)

AXIS = np.linspace(0, 1, 60)
PURE = np.stack([np.exp(-(((AXIS - at) / 0.1) ** 2)) for at in (0.3, 0.45, 0.7)])
MATRIX = 5 * np.exp(-(((AXIS - 0.5) / 0.15) ** 2))
FOLDS = np.arange(30) % 5


def samples(seed=2, count=30, gain=0.3, noise=1e-3):
    """Amounts that sum to 1 in a matrix, with a gain of each sample, and noise."""
    random = np.random.default_rng(seed)
    amounts = random.dirichlet(np.ones(3), count)
    spectra = (MATRIX + amounts @ PURE) * np.exp(gain * random.normal(size=(count, 1)))
    return amounts, spectra + noise * random.normal(size=spectra.shape)


@pytest.mark.parametrize(
    ("name", "derivative"), [("smoothed", 0), ("first derivative", 1), ("second derivative", 2)]
)
def test_filters_are_those_of_scipy(name, derivative):
    _, spectra = samples()
    expected = savgol_filter(spectra, 11, 2, deriv=derivative, axis=1)
    np.testing.assert_allclose(preprocessed(name, spectra), expected, atol=1e-12)


def test_detrended_and_centred_spectra_have_no_such_parts():
    spectra = 4 - 3 * AXIS + 2 * AXIS**2 + np.outer([0.0, 1.0, 5.0], np.ones(60))
    np.testing.assert_allclose(preprocessed("detrended", spectra), 0, atol=1e-12)
    centred = preprocessed("centred", spectra)
    np.testing.assert_allclose(centred - centred[0], 0, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in PREPROCESSINGS if "SNV" in name])
def test_snv_removes_a_gain_and_leaves_spectra_without_shape_zero(name):
    _, spectra = samples()
    found = preprocessed(name, np.arange(1, 31)[:, None] * spectra)
    np.testing.assert_allclose(found, preprocessed(name, spectra), atol=1e-9)
    np.testing.assert_allclose(preprocessed(name, np.full((1, 60), 0.3)), 0, atol=1e-12)


def errors_of(spectra, target, folds, count):
    errors = np.empty(len(target))
    for fold in np.unique(folds):
        out = folds == fold
        model = PLSRegression(count, scale=False).fit(spectra[~out], target[~out])
        errors[out] = model.predict(spectra[out]).ravel() - target[out]
    return np.abs(errors).mean()


def slowly(spectra, target, folds, names, unknown, most=17):
    """Estimates of unknowns by fits that are made again for every number and fold."""
    found, weights = [], []
    for name in names:
        own = preprocessed(name, spectra)
        errors = [errors_of(own, target, folds, count) for count in range(1, most + 1)]
        best = int(np.argmin(errors))
        model = PLSRegression(best + 1, scale=False).fit(own, target)
        found.append(model.predict(preprocessed(name, unknown)).ravel())
        weights.append(errors[best] ** -WEIGHT_POWER)
    weights = np.where(np.array(weights) < 0.01 * max(weights), 0, weights)
    return np.average(found, axis=0, weights=weights)


def test_the_combination_is_that_of_a_loop_that_refits():
    amounts, spectra = samples(noise=0.02)
    target, names = amounts[:, 0], ["as measured", "first derivative", "SNV"]
    (found,) = fit_preprocessed(target[:, None], spectra, FOLDS, preprocessings=names)
    unknown = samples(7)[1]
    np.testing.assert_allclose(
        found.fit.estimates(unknown)[:, 0],
        slowly(spectra, target, FOLDS, names, unknown),
        rtol=1e-6,
    )
    for fold in (0, 3):
        out = fold == FOLDS
        expected = slowly(spectra[~out], target[~out], FOLDS[~out], names, spectra[out])
        np.testing.assert_allclose(found.left_out[out], expected, rtol=1e-6)


def test_a_gain_is_taken_off_where_there_is_one():
    amounts, spectra = samples(count=40)
    unknown, known = samples(9), np.arange(40) % 10
    by_all, plain = (
        fit_preprocessed(amounts[:, :1], spectra, known, preprocessings=names)[0].fit
        for names in (PREPROCESSINGS, [AS_MEASURED])
    )
    errors = [
        np.abs(fit.estimates(unknown[1])[:, 0] - unknown[0][:, 0]).mean() for fit in (by_all, plain)
    ]
    assert errors[0] < 0.5 * errors[1]


def test_slopes_as_measured_are_the_coefficients():
    amounts, spectra = samples(gain=0, noise=0.01)
    target = amounts[:, :1]
    (found,) = fit_preprocessed(target, spectra, FOLDS, preprocessings=[AS_MEASURED])
    count = len(found.fit.members[AS_MEASURED].slopes)
    expected = PLSRegression(count, scale=False).fit(spectra, target).coef_.ravel()
    np.testing.assert_allclose(found.fit.slopes_at(spectra[0]), expected, atol=1e-7)


def test_reweighted_wavelengths_are_those_of_a_loop_that_refits():
    amounts, spectra = samples(noise=0.02)
    target = amounts[:, 0] - amounts[:, 0].mean()
    centred, weights = spectra - spectra.mean(axis=0), np.ones(60)
    for _ in range(3):
        own = centred * weights
        best = 1 + np.argmin([errors_of(own, target, FOLDS, count) for count in range(1, 9)])
        slopes = weights * PLSRegression(best, scale=False).fit(own, target).coef_.ravel()
        weights = np.abs(slopes) / np.abs(slopes).max()
    _, member = reweighted(spectra, target, FOLDS)
    np.testing.assert_allclose(member.rotation @ member.slopes, slopes, rtol=1e-6, atol=1e-9)


def test_of_two_folds_each_is_estimated_by_the_other():
    """Where wavelengths are reweighted, no third fold is left to count components by."""
    amounts, spectra = samples(count=44)
    (found,) = fit_preprocessed(amounts[:, :1], spectra, np.arange(44) % 2)
    assert np.corrcoef(found.left_out, amounts[:, 0])[0, 1] > 0.9
    assert (found.leverages > 1 / 22).all()


def test_few_wavelengths_are_taken_as_measured():
    amounts, spectra = samples()
    (found,) = fit_preprocessed(amounts[:, :1], spectra[:, :2], FOLDS)
    assert [*found.fit.members] == [AS_MEASURED]
