import numpy as np
import pytest
from scipy.linalg import null_space
from scipy.stats import multivariate_normal

from geonode.learning.gaussian_process import (
    PROCESS_LENGTHS,
    PROCESS_MEANS,
    PROCESS_NOISES,
    GaussianProcess,
    fit_process,
    restricted_likelihood,
)

POSITIONS = np.array([-1.0, -0.7, -0.1, 0.2, 0.55, 1.0])
TARGETS = np.array([-1.4, -0.7, 0.0, 0.9, 1.3])
SPECTRA = np.random.default_rng(3).normal(size=(6, 9)).cumsum(axis=0)
BOTH = pytest.mark.parametrize("mean", PROCESS_MEANS)


def kernel(one, other, length):
    return np.exp(-(np.subtract.outer(one, other) ** 2) / (2 * length**2))


def basis(positions, mean):
    return np.stack([positions**power for power in range(PROCESS_MEANS[mean])], axis=1)


@BOTH
@pytest.mark.parametrize(("length", "noise"), [(0.3, 1e-3), (1.0, 0.1), (5.0, 1e-6)])
def test_weights_solve_the_kriging_equations(mean, length, noise):
    """The unbiased weights of least variance, with a multiplier for every term of the mean."""
    terms = basis(POSITIONS, mean)
    noisy = kernel(POSITIONS, POSITIONS, length) + noise * np.eye(6)
    matrix = np.block([[noisy, terms], [terms.T, np.zeros_like(terms.T @ terms)]])
    wanted = np.vstack([kernel(POSITIONS, TARGETS, length), basis(TARGETS, mean).T])
    expected = np.linalg.solve(matrix, wanted)[:6].T
    found = GaussianProcess(length, noise, mean).weights(POSITIONS, TARGETS)
    np.testing.assert_allclose(found, expected, atol=1e-8)


@BOTH
def test_the_restricted_likelihood_is_that_of_contrasts(mean):
    """Contrasts do not feel the mean: their likelihood, with the scale at its maximum."""
    contrasts = null_space(basis(POSITIONS, mean).T).T
    found = restricted_likelihood(POSITIONS, SPECTRA, mean)
    assert found.shape == (len(PROCESS_LENGTHS), len(PROCESS_NOISES))
    expected = np.empty_like(found)
    for i, length in enumerate(PROCESS_LENGTHS):
        for j, noise in enumerate(PROCESS_NOISES):
            whole = kernel(POSITIONS, POSITIONS, length) + noise * np.eye(6)
            covariance = contrasts @ whole @ contrasts.T
            data = contrasts @ SPECTRA
            scale = np.mean(data * np.linalg.solve(covariance, data))
            law = multivariate_normal(cov=scale * (covariance + covariance.T) / 2)
            expected[i, j] = law.logpdf(data.T).mean()
    difference = found - expected  # a constant
    np.testing.assert_allclose(difference, difference[0, 0], atol=1e-6)
    length, noise = np.unravel_index(expected.argmax(), expected.shape)
    best = GaussianProcess(PROCESS_LENGTHS[length], PROCESS_NOISES[noise], mean)
    assert fit_process(POSITIONS, SPECTRA, mean) == (best, pytest.approx(found.max()))


@BOTH
@pytest.mark.parametrize("levels", [2, 6])
def test_spectra_that_the_mean_follows_exactly_are_predicted_exactly(mean, levels):
    few = POSITIONS[:levels]
    spectra = np.full((levels, 4), 2.5) + (few[:, None] if mean == "linear" else 0)
    process, evidence = fit_process(few, spectra, mean)
    assert np.isfinite(evidence)
    expected = 2.5 + (TARGETS if mean == "linear" else 0 * TARGETS)
    found = process.predict(few, spectra, TARGETS)
    np.testing.assert_allclose(found, np.tile(expected[:, None], 4), atol=1e-6)


def test_hyper_parameters_that_one_contrast_cannot_tell_apart_are_not_left_to_rounding():
    positions, generator = np.array([-1.0, -0.2, 1.0]), np.random.default_rng(5)
    middle = PROCESS_LENGTHS[[19, 20]].tolist()  # of forty
    for _ in range(10):
        spectra = generator.normal(size=(3, 7))
        evidence = restricted_likelihood(positions, spectra, "linear")
        assert np.ptp(evidence) < 1e-8
        process, _ = fit_process(positions, spectra, "linear")
        assert process.length in middle
        assert process.noise == PROCESS_NOISES[6]
