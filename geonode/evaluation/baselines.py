"""Classical interpolation between measured spectra: what a learned model has to beat.

A baseline takes the chart positions of the training levels (ascending, at least three), their
spectra and a position, and returns the spectrum it predicts there. Its docstring says what it does
outside the training levels.
"""

import warnings
from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy.interpolate import CubicSpline, PchipInterpolator, make_interp_spline
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from threadpoolctl import threadpool_limits

from geonode.learning.process import fit_process
from geonode.progress import Report, silent

Positions = Float[np.ndarray, "level"]
Spectra = Float[np.ndarray, "level wavelength"]
Spectrum = Float[np.ndarray, "wavelength"]
Baseline = Callable[[Positions, Spectra, float], Spectrum]

FEWEST_TO_CHOOSE = 5
"""Levels of a series with which baselines can be compared inside every fold."""

TIE = 1e-12
"""Distances (chart) that differ by less are equal: levels are charted with rounding."""


def linear(train_positions: Positions, train_spectra: Spectra, position: float) -> Spectrum:
    """Straight lines between neighbours; the first and the last line go on outside."""
    return make_interp_spline(train_positions, train_spectra, k=1)(position)


def pchip(train_positions: Positions, train_spectra: Spectra, position: float) -> Spectrum:
    """Monotone cubic Hermite interpolation; the first and the last cubic go on outside.

    Source: Fritsch and Butland, SIAM J. Sci. Stat. Comput. 5, 300 (1984).
    """
    return PchipInterpolator(train_positions, train_spectra)(position)


def natural_cubic(train_positions: Positions, train_spectra: Spectra, position: float) -> Spectrum:
    """Cubic spline without curvature at its ends; straight lines go on outside."""
    spline = CubicSpline(train_positions, train_spectra, bc_type="natural")
    inside = np.clip(position, train_positions[0], train_positions[-1])
    return spline(inside) + (position - inside) * spline(inside, 1)


def nearest(train_positions: Positions, train_spectra: Spectra, position: float) -> Spectrum:
    """The spectrum of the nearest level; of two equally near ones, the lower."""
    distance = np.abs(train_positions - position)
    return train_spectra[np.argmax(distance <= distance.min() + TIE)]


def mean(train_positions: Positions, train_spectra: Spectra, position: float) -> Spectrum:  # noqa: ARG001
    """The mean of the training spectra, wherever the position."""
    return train_spectra.mean(axis=0)


def gaussian_process(
    train_positions: Positions, train_spectra: Spectra, position: float
) -> Spectrum:
    """Gaussian process with a constant x RBF + white kernel shared by all wavelengths.

    Every wavelength is centred on the mean of the training spectra, to which the prediction reverts
    far from them; one scale serves all wavelengths. The three hyper-parameters maximise the
    marginal likelihood, from a fixed and five random first guesses (fixed seed), as that of few
    spectra has several maxima.

    Source: Rasmussen and Williams, Gaussian Processes for Machine Learning (2006), chapters 2, 5.
    """
    centre = train_spectra.mean(axis=0)
    # The likelihood knows the spectra by their inner products alone, and so equally by their scores
    # on an orthonormal basis: at most one output per level, in place of one per wavelength.
    left, singular, basis = np.linalg.svd(train_spectra - centre, full_matrices=False)
    scores = left * singular
    scale = np.sqrt(np.mean(scores**2))
    if scale == 0:
        return centre
    kernel = ConstantKernel(1.0) * RBF(1.0, (1e-2, 1e2)) + WhiteKernel(1e-2, (1e-6, 1e1))
    process = GaussianProcessRegressor(kernel, n_restarts_optimizer=5, random_state=0)
    # Threads only slow matrices of this size down, several times so on a busy machine.
    with threadpool_limits(1), warnings.catch_warnings():
        # A maximum at a bound is a fair answer here: noise-free, or without correlation.
        warnings.simplefilter("ignore", ConvergenceWarning)
        process.fit(train_positions[:, None], scores / scale)
    return centre + scale * process.predict(np.array([[position]]))[0] @ basis


def process_with_trend(
    train_positions: Positions, train_spectra: Spectra, position: float
) -> Spectrum:
    """Gaussian process about a straight line, to which the prediction reverts far outside.

    Length and noise maximise the restricted likelihood (`geonode.learning.process`).
    """
    process, _ = fit_process(train_positions, train_spectra, "linear")
    return process.predict(train_positions, train_spectra, np.array([position]))[0]


def low_rank_pchip(train_positions: Positions, train_spectra: Spectra, position: float) -> Spectrum:
    """PCHIP of the leading scores of the training spectra, which leaves their noise out.

    Scores belong to the singular vectors of the spectra about their mean. How many are kept is
    what predicts the training spectra themselves best when each is left out in turn.
    """
    ranks = range(1, len(train_positions) - 1)
    errors = [
        np.sum((_left_out(train_positions, train_spectra, rank) - train_spectra) ** 2)
        for rank in ranks
    ]
    best = ranks[int(np.argmin(errors))]
    return _truncated_pchip(train_positions, train_spectra, position, best)


def _left_out(train_positions: Positions, train_spectra: Spectra, rank: int) -> Spectra:
    return leave_one_out(
        lambda positions, spectra, at: _truncated_pchip(positions, spectra, at, rank),
        train_positions,
        train_spectra,
    )


def _truncated_pchip(
    train_positions: Positions, train_spectra: Spectra, position: float, rank: int
) -> Spectrum:
    centre = train_spectra.mean(axis=0)
    left, singular, basis = np.linalg.svd(train_spectra - centre, full_matrices=False)
    scores = (left * singular)[:, :rank]
    return centre + PchipInterpolator(train_positions, scores)(position) @ basis[:rank]


BASELINES: dict[str, Baseline] = {
    baseline.__name__: baseline
    for baseline in (
        linear,
        pchip,
        natural_cubic,
        nearest,
        mean,
        low_rank_pchip,
        gaussian_process,
        process_with_trend,
    )
}


def leave_one_out(
    baseline: Baseline,
    positions: Float[np.ndarray, "concentration"],
    spectra: Float[np.ndarray, "concentration wavelength"],
) -> Float[np.ndarray, "concentration wavelength"]:
    """Predict every spectrum from the others.

    Args:
        baseline: one of `BASELINES`. It is handed the rows of the other levels only.
        positions: chart positions of the levels, ascending, one more than the baseline takes.
        spectra: the measured spectra.

    Returns:
        Row i is the spectrum predicted at position i with row i left out.
    """
    return np.stack(
        [
            baseline(np.delete(positions, fold), np.delete(spectra, fold, axis=0), float(position))
            for fold, position in enumerate(positions)
        ]
    )


def chosen_inside(
    positions: Float[np.ndarray, "concentration"],
    spectra: Float[np.ndarray, "concentration wavelength"],
    report: Report = silent,
) -> tuple[Float[np.ndarray, "concentration wavelength"], list[str]]:
    """Predict every spectrum by the baseline that predicts the others best among themselves.

    That is what a careful reader could have done without the method under test: for every fold the
    baseline with the least squared error when each training spectrum is left out in turn.

    Args:
        positions: chart positions of the levels, ascending, at least five.
        spectra: the measured spectra.
        report: told of every fold.

    Returns:
        The predictions, and the name of the baseline chosen in every fold.
    """
    predictions, names = [], []
    for fold, position in enumerate(positions):
        training, known = np.delete(positions, fold), np.delete(spectra, fold, axis=0)
        errors = {
            name: np.sum((leave_one_out(baseline, training, known) - known) ** 2)
            for name, baseline in BASELINES.items()
        }
        names.append(min(errors, key=lambda name: errors[name]))
        predictions.append(BASELINES[names[-1]](training, known, float(position)))
        report(1)
    return np.stack(predictions), names
