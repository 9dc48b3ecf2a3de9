import warnings

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from geonode.evaluation.likelihood import CONSTANTS, LENGTHS, NOISES, most_likely


def draws(seed, levels, length, noise, outputs=5):
    """Positions, and outputs of the process itself."""
    generator = np.random.default_rng(seed)
    positions = np.sort(generator.uniform(-1, 1, levels))
    kernel = np.exp(-(((positions[:, None] - positions) / length) ** 2) / 2)
    covariance = kernel + noise * np.eye(levels)
    return positions, np.linalg.cholesky(covariance) @ generator.normal(size=(levels, outputs))


def by_search(positions, values):
    """scikit-learn's process, from a fixed and five random first guesses."""
    kernel = ConstantKernel(1.0, CONSTANTS) * RBF(1.0, LENGTHS) + WhiteKernel(1e-2, NOISES)
    process = GaussianProcessRegressor(kernel, n_restarts_optimizer=5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return process.fit(positions[:, None], values)


@pytest.mark.parametrize(
    ("levels", "length", "noise"), [(3, 0.5, 0.1), (5, 0.7, 1e-4), (9, 0.3, 0.01), (9, 5.0, 0.5)]
)
def test_the_likelihood_is_at_least_what_a_search_finds(levels, length, noise):
    positions, values = draws(levels, levels, length, noise)
    searched, found = by_search(positions, values), most_likely(positions, values)
    logarithms = np.log([found.constant, found.length, found.noise])
    best = searched.log_marginal_likelihood_value_
    # The grid is narrowed to a thousandth of a step; the likelihood is flat at its top.
    assert searched.log_marginal_likelihood(logarithms) >= best - 1e-5 * (1 + abs(best))
    for value, bounds in zip(found, (CONSTANTS, LENGTHS, NOISES), strict=True):
        assert bounds[0] * (1 - 1e-9) <= value <= bounds[1] * (1 + 1e-9)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("values", [np.eye(6), np.zeros((6, 2)), np.outer(np.arange(6.0), [1, 2])])
def test_odd_values_have_a_kernel_within_the_bounds(values):
    found = most_likely(np.linspace(-1, 1, 6), values)
    assert np.isfinite(found.weights(np.linspace(-1, 1, 6), np.array([0.3])) @ values).all()
    assert NOISES[0] * (1 - 1e-9) <= found.noise <= NOISES[1] * (1 + 1e-9)
