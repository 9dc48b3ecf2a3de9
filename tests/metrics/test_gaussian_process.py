import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import null_space
from scipy.stats import multivariate_normal, t

from geonode.errors import TrainingError
from geonode.metrics.gaussian_process import (
    LENGTHS,
    MEANS,
    NOISES,
    GaussianProcess,
    fit_process,
    restricted_likelihood,
)

POSITIONS = np.array([-1.0, -0.7, -0.1, 0.2, 0.55, 1.0])
TARGETS = np.array([-1.4, -0.7, 0.0, 0.9, 1.3])
SPECTRA = np.random.default_rng(3).normal(size=(6, 9)).cumsum(axis=0)
BOTH = pytest.mark.parametrize("mean", MEANS)


def kernel(one, other, length):
    return np.exp(-(np.subtract.outer(one, other) ** 2) / (2 * length**2))


def basis(positions, mean):
    return np.stack([positions**power for power in range(MEANS[mean])], axis=1)


@BOTH
@pytest.mark.parametrize(("length", "noise"), [(0.3, 1e-3), (1.0, 0.1), (5.0, 1e-6)])
def test_weights_solve_the_kriging_equations(mean, length, noise):
    """The unbiased weights of least variance, with a multiplier for every term of the mean."""
    terms = basis(POSITIONS, mean)
    count = terms.shape[1]
    matrix = np.block(
        [
            [kernel(POSITIONS, POSITIONS, length) + noise * np.eye(6), terms],
            [terms.T, np.zeros((count, count))],
        ]
    )
    wanted = np.vstack([kernel(POSITIONS, TARGETS, length), basis(TARGETS, mean).T])
    expected = np.linalg.solve(matrix, wanted)[:6].T
    found = GaussianProcess(length, noise, mean).weights(POSITIONS, TARGETS)
    np.testing.assert_allclose(found, expected, atol=1e-8)


@settings(deadline=None, max_examples=25)
@given(st.floats(0.1, 20), st.floats(1e-6, 1), st.sampled_from(list(MEANS)))
def test_weights_are_unbiased(length, noise, mean):
    weights = GaussianProcess(length, noise, mean).weights(POSITIONS, TARGETS)
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-7)
    if mean == "linear":
        np.testing.assert_allclose(weights @ POSITIONS, TARGETS, atol=1e-7)


@BOTH
def test_without_noise_the_training_spectra_come_back(mean):
    weights = GaussianProcess(0.5, 1e-9, mean).weights(POSITIONS, POSITIONS)
    np.testing.assert_allclose(weights @ SPECTRA, SPECTRA, atol=1e-5)


@BOTH
def test_the_restricted_likelihood_is_that_of_contrasts(mean):
    """Contrasts do not feel the mean: their likelihood, with the scale at its maximum."""
    contrasts = null_space(basis(POSITIONS, mean).T).T
    found = restricted_likelihood(POSITIONS, SPECTRA, mean)
    assert found.shape == (len(LENGTHS), len(NOISES))
    expected = np.empty_like(found)
    for i, length in enumerate(LENGTHS):
        for j, noise in enumerate(NOISES):
            whole = kernel(POSITIONS, POSITIONS, length) + noise * np.eye(6)
            covariance = contrasts @ whole @ contrasts.T
            data = contrasts @ SPECTRA
            scale = np.mean(data * np.linalg.solve(covariance, data))
            law = multivariate_normal(cov=scale * (covariance + covariance.T) / 2)
            expected[i, j] = law.logpdf(data.T).mean()
    difference = found - expected  # a constant
    np.testing.assert_allclose(difference, difference[0, 0], atol=1e-6)


def test_length_and_noise_of_simulated_spectra_are_found():
    positions = np.linspace(-1, 1, 14)
    generator = np.random.default_rng(0)
    for i, j in ((12, 6), (18, 9)):
        covariance = kernel(positions, positions, LENGTHS[i]) + NOISES[j] * np.eye(14)
        spectra = np.linalg.cholesky(covariance) @ generator.normal(size=(14, 5000))
        process, _ = fit_process(positions, 3.0 + 7.0 * spectra, "constant")
        assert abs(LENGTHS.searchsorted(process.length) - i) <= 1
        assert abs(NOISES.searchsorted(process.noise) - j) <= 1


@BOTH
def test_scale_of_the_signal_and_what_the_mean_can_follow_do_not_matter(mean):
    moved = 5.0 - 3.0 * SPECTRA
    if mean == "linear":
        moved = moved + 11.0 * POSITIONS[:, None]
    assert fit_process(POSITIONS, moved, mean)[0] == fit_process(POSITIONS, SPECTRA, mean)[0]


@BOTH
def test_spectra_that_the_mean_follows_exactly_are_predicted_exactly(mean):
    spectra = np.full((6, 4), 2.5) + (POSITIONS[:, None] if mean == "linear" else 0)
    process, evidence = fit_process(POSITIONS, spectra, mean)
    assert np.isfinite(evidence)
    expected = 2.5 + (TARGETS if mean == "linear" else 0 * TARGETS)
    found = process.weights(POSITIONS, TARGETS) @ spectra
    np.testing.assert_allclose(found, np.tile(expected[:, None], 4), atol=1e-6)


def deviation(process, *known_and_targets):
    return np.sqrt(np.sum(process.factors(*known_and_targets) ** 2, axis=1))


@BOTH
@pytest.mark.parametrize(("length", "noise"), [(0.4, 0.05), (1.5, 1e-3)])
def test_the_variance_is_that_of_the_prediction_error(mean, length, noise):
    """Var(y* - w y) of a process with these hyper-parameters, for the weights themselves."""
    process = GaussianProcess(length, noise, mean)
    weights = process.weights(POSITIONS, TARGETS)
    covariance = kernel(POSITIONS, POSITIONS, length) + noise * np.eye(6)
    cross = kernel(TARGETS, POSITIONS, length)
    relative = 1 + noise - 2 * np.sum(weights * cross, axis=1)
    relative += np.einsum("ti,ij,tj->t", weights, covariance, weights)
    found = deviation(process, POSITIONS, SPECTRA, TARGETS)
    contrasts = null_space(basis(POSITIONS, mean).T).T
    data = contrasts @ SPECTRA
    among = contrasts @ covariance @ contrasts.T
    over_wavelengths = data.T @ np.linalg.solve(among, data) / len(contrasts)
    factors = process.factors(POSITIONS, SPECTRA, TARGETS)
    expected = relative[:, None, None] * over_wavelengths
    products = np.einsum("trv,trw->tvw", factors, factors)
    np.testing.assert_allclose(products, expected, rtol=1e-6, atol=1e-9 * expected.max())
    scale = np.diag(over_wavelengths)
    np.testing.assert_allclose(found, np.sqrt(np.outer(relative, scale)), rtol=1e-6)
    assert (found[0] > found[2]).all()  # outside the training range it is wider


def test_intervals_of_simulated_spectra_hold():
    positions = np.linspace(-1, 1, 12)
    training, inside = np.delete(np.arange(12), 5), positions[[5]]
    covariance = kernel(positions, positions, 0.5) + 0.01 * np.eye(12)
    spectra = np.linalg.cholesky(covariance) @ np.random.default_rng(4).normal(size=(12, 4000))
    process = GaussianProcess(0.5, 0.01, "constant")
    predicted = process.weights(positions[training], inside) @ spectra[training]
    found = deviation(process, positions[training], spectra[training], inside)
    # by wavelength the scale has ten degrees of freedom: Student's law
    covered = np.abs(spectra[5] - predicted[0]) <= t.ppf(0.95, 10) * found[0]
    assert covered.mean() == pytest.approx(0.9, abs=0.02)


def test_hyper_parameters_that_one_contrast_cannot_tell_apart_are_not_left_to_rounding():
    positions, generator = np.array([-1.0, -0.2, 1.0]), np.random.default_rng(5)
    middle = LENGTHS[[19, 20]].tolist()  # of forty
    for _ in range(20):
        spectra = generator.normal(size=(3, 7))
        evidence = restricted_likelihood(positions, spectra, "linear")
        assert np.ptp(evidence) < 1e-8
        process, _ = fit_process(positions, spectra, "linear")
        assert process.length in middle
        assert process.noise == NOISES[6]


def test_spectra_that_are_not_finite_are_refused():
    broken = SPECTRA.copy()
    broken[2, 3] = np.nan
    with pytest.raises(TrainingError, match=r"found spectra that are not finite.*expected finite"):
        fit_process(POSITIONS, broken, "constant")


@BOTH
def test_as_many_levels_as_the_mean_has_coefficients_are_followed_exactly(mean):
    """The mean goes through them, whatever the hyper-parameters; they say nothing of the scale."""
    few, known = POSITIONS[: MEANS[mean]], SPECTRA[: MEANS[mean]]
    process, evidence = fit_process(few, known, mean)
    assert np.isfinite(evidence)
    expected = np.stack(
        [np.polyval(np.polyfit(few, row, len(few) - 1), TARGETS) for row in known.T]
    )
    np.testing.assert_allclose(process.predict(few, known, TARGETS), expected.T, atol=1e-9)
    np.testing.assert_array_equal(deviation(process, few, known, TARGETS) < 1e-6, True)


@BOTH
def test_fewer_levels_than_coefficients_are_refused(mean):
    few = MEANS[mean] - 1
    message = rf"{mean} mean: found {few} training levels, expected {few + 1} or more"
    with pytest.raises(TrainingError, match=message):
        fit_process(POSITIONS[:few], SPECTRA[:few], mean)
