"""Gaussian processes over geodesic distance: spectra of a series as smooth functions on a line.

One-dimensional manifolds are isometric to the line, so a kernel of geodesic distance is a valid
kernel of arc length, k(s, s') = exp(-(s - s')^2 / (2 length^2)). All wavelengths share one process.
Its two hyper-parameters maximise the restricted likelihood, in which the mean function (a constant,
or a straight line) is integrated out with a flat prior.

Source: C. E. Rasmussen and C. K. I. Williams, Gaussian Processes for Machine Learning, MIT Press
2006, section 2.7; D. A. Harville, Maximum likelihood approaches to variance component estimation,
J. Am. Stat. Assoc. 72 (1977) 320.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from geonode.errors import TrainingError

PROCESS_LENGTHS = np.geomspace(0.1, 20, 40)  # in units of the chart, which is 2 long
PROCESS_NOISES = np.geomspace(1e-6, 1, 13)  # variance, relative to that of the process
TIE = 1e-6  # of the logarithm of the likelihood per wavelength
PROCESS_MEANS = {"constant": 1, "linear": 2}
"""Number of coefficients of the mean functions, by name."""


@dataclass(frozen=True)
class GaussianProcess:
    """A Gaussian process with given hyper-parameters."""

    length: float  # length scale of the kernel (chart units)
    noise: float  # variance of a reading, relative to that of the process
    mean: str  # name of the mean function

    def weights(
        self, training: Float[np.ndarray, "level"], positions: Float[np.ndarray, "target"]
    ) -> Float[np.ndarray, "target level"]:
        """Weights of the training spectra in the best linear unbiased prediction."""
        basis, wanted = _basis(training, self.mean), _basis(positions, self.mean)
        covariance = _kernel(training, training, self.length) + self.noise * np.eye(len(training))
        inverse = np.linalg.inv(covariance)
        among = basis.T @ inverse @ basis
        cross = _kernel(positions, training, self.length)
        unexplained = wanted - cross @ inverse @ basis
        return cross @ inverse + unexplained @ np.linalg.solve(among, basis.T @ inverse)

    def predict(
        self,
        training: Float[np.ndarray, "level"],
        spectra: Float[np.ndarray, "level wavelength"],
        positions: Float[np.ndarray, "target"],
    ) -> Float[np.ndarray, "target wavelength"]:
        """Best linear unbiased prediction at some positions."""
        centre = spectra.mean(axis=0)  # removes rounding errors: the weights add up to one
        return centre + self.weights(training, positions) @ (spectra - centre)


def fit_process(
    training: Float[np.ndarray, "level"], spectra: Float[np.ndarray, "level wavelength"], mean: str
) -> tuple[GaussianProcess, float]:
    """Process of the largest restricted likelihood, and the log likelihood per wavelength.

    With at most one level more than mean coefficients, all hyper-parameters are equally likely, as
    the scale alone fits the only contrast. Of hyper-parameters whose likelihoods differ by less
    than `TIE`, those nearest to the middle of both ranges are taken, not those that rounding
    favours. Training levels are given by arc length, all different, as many as the mean function (a
    key of `PROCESS_MEANS`) has coefficients or more.

    Raises:
        TrainingError: the spectra are not finite, or two levels are equal.
    """
    evidence = restricted_likelihood(training, spectra, mean)
    if not np.isfinite(evidence).all():
        raise TrainingError(
            "a Gaussian process: found spectra that are not finite or levels that are equal, "
            "expected finite spectra of different levels"
        )
    middle_length, middle_noise = (len(PROCESS_LENGTHS) - 1) / 2, (len(PROCESS_NOISES) - 1) / 2
    from_middle = np.add.outer(
        np.abs(np.arange(len(PROCESS_LENGTHS)) - middle_length),
        np.abs(np.arange(len(PROCESS_NOISES)) - middle_noise),
    )
    tied = np.where(evidence >= evidence.max() - TIE, from_middle, np.inf)
    length, noise = np.unravel_index(tied.argmin(), tied.shape)
    best = GaussianProcess(float(PROCESS_LENGTHS[length]), float(PROCESS_NOISES[noise]), mean)
    return best, float(evidence[length, noise])


def restricted_likelihood(
    training: Float[np.ndarray, "level"], spectra: Float[np.ndarray, "level wavelength"], mean: str
) -> Float[np.ndarray, "length noise"]:
    """Logarithm of the restricted likelihood per wavelength, up to a constant.

    The scale of the process, one for all wavelengths, is at its maximum for every pair of length
    and noise: with P = K^-1 - K^-1 H (H^T K^-1 H)^-1 H^T K^-1 and n - p degrees of freedom,
    -1/2 ((n - p) ln tr(Y^T P Y) + ln |K| + ln |H^T K^-1 H|). The basis H of the mean function is
    orthonormal, so that the likelihood of a chart does not depend on its scale.
    """
    basis = np.linalg.qr(_basis(training, mean))[0]
    levels, coefficients = basis.shape
    # Without noise K = Q L Q^T, whatever the noise then is: one decomposition for every length.
    values, vectors = np.linalg.eigh(_kernel(training, training, PROCESS_LENGTHS[:, None, None]))
    turned = vectors.swapaxes(1, 2)
    # Coordinates in place of wavelengths, of which there are more: R of (Q R)^T.
    rest = np.asarray(np.linalg.qr((spectra - basis @ (basis.T @ spectra)).T, mode="r")).T
    basis, spectra = turned @ basis, turned @ rest
    gram = (spectra @ spectra.swapaxes(1, 2))[:, None]
    variance = values[:, None].clip(min=0) + PROCESS_NOISES[:, None]
    inverse_basis = basis[:, None] / variance[..., None]
    among = basis[:, None].swapaxes(2, 3) @ inverse_basis
    of_mean = inverse_basis.swapaxes(2, 3) @ gram @ inverse_basis
    residual = (np.diagonal(gram, axis1=2, axis2=3) / variance).sum(axis=2)
    residual -= np.trace(np.linalg.solve(among, of_mean), axis1=2, axis2=3)
    smallest = np.finfo(float).tiny  # spectra that the mean function fits exactly
    return -0.5 * (
        (levels - coefficients) * np.log(np.maximum(residual, smallest))
        + np.log(variance).sum(axis=2)
        + np.linalg.slogdet(among)[1]
    )


def _basis(positions: np.ndarray, mean: str) -> np.ndarray:
    """Basis functions of the mean at some positions, one column each."""
    return positions[:, None] ** np.arange(PROCESS_MEANS[mean])


def _kernel(positions: np.ndarray, others: np.ndarray, length: float | np.ndarray) -> np.ndarray:
    """Covariances of a process; several lengths broadcast along two trailing dimensions."""
    return np.exp(-((positions[:, None] - others) ** 2) / (2 * length**2))
