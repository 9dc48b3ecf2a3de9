"""Maximum marginal likelihood of a Gaussian process with a constant x RBF + white kernel.

For each length the kernel has one decomposition, Q L Q^T. With the variance of the noise relative
to the constant, r, the best constant is the mean of |Q^T y|^2 / (L + r) within its bounds. Length
and r are found on a grid that is refined about the best point, as a likelihood of few spectra has
several maxima.

Source: Rasmussen and Williams, Gaussian Processes for Machine Learning (2006), sections 2.3, 5.4.1.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

Positions = Float[np.ndarray, "level"]

CONSTANTS, LENGTHS, NOISES = (1e-5, 1e5), (1e-2, 1e2), (1e-6, 1e1)
"""Bounds of the variance of the process, its length (chart) and the variance of the noise."""

COARSE, FINE, ROUNDS = 81, 9, 10
"""Points of either axis of the first grid and of refined ones, and number of grids."""


class RbfKernel(NamedTuple):
    """Kernel constant exp(-(x - x')^2 / (2 length^2)) + noise where x = x'."""

    constant: float
    length: float
    noise: float

    def weights(
        self, training: Positions, positions: Float[np.ndarray, "target"]
    ) -> Float[np.ndarray, "target level"]:
        """Weights of the training values in the predictions at some positions."""
        covariance = self.constant * _rbf(training[:, None] - training, self.length)
        covariance[np.diag_indices(len(training))] += self.noise
        cross = self.constant * _rbf(training[:, None] - positions, self.length)
        return np.linalg.solve(covariance, cross).T


def most_likely(training: Positions, values: Float[np.ndarray, "level output"]) -> RbfKernel:
    """Find the kernel with the largest likelihood of values with mean zero.

    Args:
        training: positions, all different.
        values: values of outputs that share the kernel.
    """
    lengths = np.geomspace(*LENGTHS, COARSE)
    ratios = np.geomspace(NOISES[0] / CONSTANTS[1], NOISES[1] / CONSTANTS[0], COARSE)
    for _ in range(ROUNDS):
        likelihood, constant = _likelihood(training, values, lengths, ratios)
        at = divmod(int(likelihood.argmax()), len(ratios))
        size, length, ratio = float(constant[at]), float(lengths[at[0]]), float(ratios[at[1]])
        best = RbfKernel(size, length, size * ratio)
        lengths, ratios = (
            _about(axis, place) for axis, place in zip((lengths, ratios), at, strict=True)
        )
    return best


def _likelihood(
    training: np.ndarray, values: np.ndarray, lengths: np.ndarray, ratios: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Log likelihood for every length and ratio, and the constant that maximises it."""
    levels, outputs = values.shape
    eigenvalues, vectors = np.linalg.eigh(
        _rbf(training[:, None] - training, lengths[:, None, None])
    )
    squares = np.sum((vectors.swapaxes(1, 2) @ values) ** 2, axis=2)[:, None]
    variance = eigenvalues[:, None].clip(min=0) + ratios[:, None]
    size = (squares / variance).sum(axis=2)
    low = np.maximum(CONSTANTS[0], NOISES[0] / ratios)
    high = np.maximum(low, np.minimum(CONSTANTS[1], NOISES[1] / ratios))
    constant = np.clip(size / (levels * outputs), low, high)
    logarithm = np.log(variance).sum(axis=2) + levels * np.log(constant)
    return -0.5 * (size / constant + outputs * logarithm), constant


def _about(axis: np.ndarray, place: int) -> np.ndarray:
    """Finer axis between the second neighbours of a point, in case the ridge is oblique."""
    low, high = float(axis[max(place - 2, 0)]), float(axis[min(place + 2, len(axis) - 1)])
    return np.geomspace(low, high, FINE)


def _rbf(distance: np.ndarray, length: float | np.ndarray) -> np.ndarray:
    return np.exp(-((distance / length) ** 2) / 2)
