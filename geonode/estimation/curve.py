"""Curve of predicted spectra over concentration, with the distribution of errors about it.

The predictions are those of the posterior over metrics, or of perceptrons where there is none.

All predictions of a fold are combinations of its training spectra and of a constant, so the curve
lies in the subspace of few directions that these span. There the error of a prediction by
perceptrons has the covariance S = D + R: D is the covariance over members and sources at that
concentration, R the second moment of the errors inside the fold. A few errors determine R poorly.
It therefore has an inverse Wishart prior with as many degrees of freedom as directions, which makes
the predictive distribution Student's instead of normal. With n errors e_i, r directions and s^2 the
mean squared norm of the errors, R = (sum e_i e_i^T + s^2 I) / (n + 1), with n + 1 degrees of
freedom.

The residual of a spectrum in other directions is no evidence about its concentration, but shows
whether the spectrum belongs to the series at all. It is compared with the novelty of the training
spectra: the residual of each outside the span of the others.

Source: A. Gelman et al., Bayesian Data Analysis, 3rd edition, CRC Press 2013, section 3.6 (a normal
model with a conjugate prior of its covariance predicts by a multivariate t).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.interpolate import CubicSpline

from geonode.decoders.calibration import Calibration
from geonode.errors import TrainingError
from geonode.estimation.model import SpectralModel
from geonode.estimation.range import NODES, Nodes, knots_over_range, nodes_on_metric

CREDIBLE = 0.9
"""Nominal coverage of the sets: the share that is to hold the true concentration."""

CHART_KNOTS = 65  # concentrations at which a curve without a posterior is predicted
SCALE_DEVIATION = 0.2
"""Standard deviation of the factor between two instruments, where one is allowed."""
SMALLEST = 1e-6  # smallest assumed error, relative to the largest signal
RANK_TOLERANCE = 1e-10
SHARED = 0.5
"""Share of the expected squared error that is equal in all directions of the training spectra.

Gain, offset and mishaps of one preparation are in no covariance over smoothers.
"""
OTHERWISE = 0.01  # weight of all other directions, relative to those of the training spectra
STRETCH = 1.4
"""Factor of the deviations of a posterior in the likelihood of a concentration.

Half width of its 90% intervals in deviations, over that of a normal distribution: 2.3 / 1.64.
"""
MASS = 0.95
"""Posterior probability of the sets of a posterior over metrics, of which about 90% hold the truth.

The likelihood has errors of one size, where a series has errors of many sizes.
"""


@dataclass(frozen=True)
class Novelty:
    """Residuals of training spectra outside the span of the others of their fold.

    Attributes:
        square: mean square of the residuals (signal squared, summed over wavelengths).
        freedom: degrees of freedom of the chi-squared distribution with the same relative variance.
        spectra: number of training spectra.
    """

    square: float
    freedom: float
    spectra: int

    @classmethod
    def of(cls, parts: Float[np.ndarray, "training wavelength"]) -> "Novelty":
        """Novelty from the residuals of the training spectra.

        The degrees of freedom are the smaller of two estimates, and at least 1: (tr C)^2 / tr C^2,
        with C the second moment of the residuals, from products of different spectra alone; and
        2 mean^2 / variance of their squares.
        """
        gram = parts @ parts.T
        squares = np.diag(gram)
        mean, count = float(squares.mean()), len(parts)
        if mean == 0:
            return cls(0.0, 1.0, count)
        apart = ~np.eye(count, dtype=bool)
        products = np.sum(np.outer(squares, squares)[apart])
        by_direction = products / max(np.sum(gram[apart] ** 2), np.finfo(float).tiny)
        by_size = 2 * mean**2 / max(squares.var(ddof=1), np.finfo(float).tiny)
        freedom = min(by_direction, by_size, parts.shape[1])
        return cls(mean, max(1.0, float(freedom)), count)

    def with_noise(self, rows: Float[np.ndarray, "row wavelength"]) -> "Novelty":
        """Novelty of spectra with additional noise.

        Degrees of freedom by Satterthwaite, Biometrics Bulletin 2 (1946) 110.

        Args:
            rows: rows whose outer products add up to the covariance of the noise.
        """
        gram = rows @ rows.T
        noise = float(np.trace(gram))
        if noise == 0:
            return self
        square = self.square + noise
        # Half the variance: square^2 / freedom of the novelty, tr C^2 of the noise.
        freedom = square**2 / (self.square**2 / self.freedom + float(np.sum(gram**2)))
        return Novelty(square, max(1.0, freedom), self.spectra)


@dataclass(frozen=True)
class Curve:
    """Scores of predicted spectra over a range of concentrations.

    Attributes:
        concentrations: nodes, evenly spaced on the chart of the fold.
        edges: edges of the cells about the nodes; one more than nodes.
        basis: orthonormal directions.
        scores: scores of the predicted spectra in these directions.
        inverse: inverse Cholesky factors of S.
        log_determinant: log determinant of S.
        log_prior: log prior probability of the cells.
        tested: whether a node takes part in the goodness-of-fit test; beyond the levels errors are
            so large that any spectrum would fit.
        freedom: degrees of freedom of Student's distribution at every node.
        novelty: residuals in other directions to expect.
        offset: whether the mean over wavelengths is removed from every spectrum.
        mass: posterior probability of the sets whose nominal coverage is `CREDIBLE`.
    """

    concentrations: Float[np.ndarray, "node"]
    edges: Float[np.ndarray, "edge"]
    basis: Float[np.ndarray, "direction wavelength"]
    scores: Float[np.ndarray, "node direction"]
    inverse: Float[np.ndarray, "node direction direction"]
    log_determinant: Float[np.ndarray, "node"]
    log_prior: Float[np.ndarray, "node"]
    tested: Bool[np.ndarray, "node"]
    freedom: Int[np.ndarray, "node"]
    novelty: Novelty
    offset: bool
    mass: float

    @classmethod
    def of(
        cls,
        model: SpectralModel,
        *,
        offset: bool = False,
        scale: bool = False,
        one_scan: bool = False,
    ) -> "Curve":
        """Curve of a model over the range of all levels of its series.

        Args:
            model: model that predicts the spectra.
            offset: whether measured spectra may differ by a constant of any size.
            scale: whether they may differ by a factor, 1 with deviation `SCALE_DEVIATION`.
            one_scan: whether they are single scans, which are noisier than the means of replicates
                in the series.

        Raises:
            TrainingError: there are neither inner folds nor a posterior, from which the errors are
                known; or the levels are too far apart for a curve.
        """
        model = _estimator(model)
        training = _centred(model.series.signal[model.fold.training], offset)
        basis = _directions(training, offset)
        nodes, means, disagreement = _at_nodes(model, basis)
        law = (
            _law_of_posterior(model, nodes, disagreement, training, basis)
            if model.has_posterior
            else _law_of_inner_folds(model, nodes, disagreement, basis, offset)
        )
        noise = _centred(_noise_of_a_scan(model), offset) if one_scan else training[:0]
        noise_scores = noise @ basis.T
        covariance = law.covariance + noise_scores.T @ noise_scores + _within_cells(means)
        if scale:
            covariance = covariance + SCALE_DEVIATION**2 * means[:, :, None] * means[:, None]
        factors = np.linalg.cholesky(covariance)
        return cls(
            nodes.fine,
            nodes.edges,
            basis,
            means,
            np.linalg.inv(factors),
            2 * np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1),
            nodes.log_prior,
            law.tested,
            law.freedom,
            Novelty.of(_novel(training, offset)).with_noise(noise - noise_scores @ basis),
            offset,
            law.mass,
        )


def _estimator(model: SpectralModel) -> SpectralModel:
    """Part of a model that estimates: the posterior, where there is one.

    A blend predicts spectra better and estimates worse. Its perceptrons are noise on the curve, and
    their disagreement is no covariance of errors.
    """
    return model.by_posterior() if model.has_posterior else model


class _Law(NamedTuple):
    """Student's distribution of spectra about a curve: S, and attributes as of `Curve`."""

    covariance: np.ndarray
    freedom: np.ndarray
    tested: np.ndarray
    mass: float


def _law_of_posterior(
    model: SpectralModel,
    nodes: Nodes,
    disagreement: np.ndarray,
    training: np.ndarray,
    basis: np.ndarray,
) -> _Law:
    """Distribution with S = D, in part spread evenly over the directions of the spectra."""
    smallest = (SMALLEST * float(np.abs(training).max())) ** 2
    size = np.trace(disagreement, axis1=1, axis2=2) / disagreement.shape[1] + smallest
    even = size[:, None, None] * _spanned(training, basis)
    return _Law(
        STRETCH**2 * ((1 - SHARED) * disagreement + SHARED * even),
        np.full(NODES, len(training)),
        model.is_inside(nodes.fine),
        MASS,
    )


def _law_of_inner_folds(
    model: SpectralModel, nodes: Nodes, disagreement: np.ndarray, basis: np.ndarray, offset: bool
) -> _Law:
    """Distribution with S = D + R, where R is of errors on the same side of the training range.

    Raises:
        TrainingError: there are no inner folds.
    """
    inner, inside = model.blend.calibration, model.is_inside(nodes.fine)
    if inner is None:
        raise TrainingError(
            "estimation: found inner.members 0, expected 1 or more, as errors inside the folds "
            "say how far a spectrum may be off; or set decoders.kind to posterior or blend"
        )
    within, beyond = (_second_moment(model, inner, side, basis, offset) for side in (0, 1))
    moment = np.where(inside[:, None, None], within[0], beyond[0])
    freedom = np.where(inside, within[1], beyond[1])
    return _Law(disagreement + moment, freedom, np.ones_like(inside), CREDIBLE)


def _within_cells(means: np.ndarray) -> np.ndarray:
    """Covariance of the curve within the cell of every node, whose likelihood is that of the node.

    Across a cell the curve is nearly straight, and an even distribution over a length has a twelfth
    of its square as variance. It counts where errors are smaller than the distance of the nodes.
    """
    across = np.gradient(means, axis=0)
    across[[0, -1]] /= 2  # the cells at both ends are half as wide
    return across[:, :, None] * across[:, None] / 12


def _noise_of_a_scan(model: SpectralModel) -> Float[np.ndarray, "row wavelength"]:
    """Rows whose outer products add up to the excess covariance of a scan over a mean of scans."""
    replicates, training = model.series.replicates, model.fold.training
    if replicates is None:
        return model.series.signal[:0]
    return replicates.excess(np.array(training))


def _at_nodes(model: SpectralModel, basis: np.ndarray) -> tuple[Nodes, np.ndarray, np.ndarray]:
    """Nodes, with the scores of the predictions there and their covariance D."""
    levels, on_chart = model.series.concentrations[model.fold.training], _chart_nodes(model)
    knots = knots_over_range(levels) if model.has_posterior else on_chart.knots
    predicted = model.predict(knots).predicted
    metric = predicted.sqrt_metric
    nodes = on_chart if metric is None else nodes_on_metric(levels, knots, metric[0])
    rows = predicted.factors @ basis.T
    disagreement = rows.swapaxes(1, 2) @ rows
    if predicted.even is not None:
        disagreement = disagreement + predicted.even[:, None, None] * np.eye(len(basis))
    fine = np.linspace(0, 1, NODES)
    means = CubicSpline(nodes.shares, predicted.spectra @ basis.T)(fine)
    return nodes, means, _upsampled(disagreement, nodes.shares, fine)


def _spanned(training: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Projector on the directions of the training spectra, plus a little of all others.

    The constant direction, present unless an offset is allowed, counts among the others.
    """
    scores = training @ basis.T
    _, singular, right = np.linalg.svd(scores, full_matrices=False)
    kept = right[singular > RANK_TOLERANCE * singular[0]]
    return kept.T @ kept + OTHERWISE * np.eye(len(basis))


def _chart_nodes(model: SpectralModel) -> Nodes:
    """Nodes evenly spaced on the chart of the fold, over the range of all levels."""
    chart = model.learned.charts[model.fold.index]
    low, high = chart.position(model.series.concentrations[[0, -1]])
    fine = np.linspace(low, high, NODES)
    half = (fine[1] - fine[0]) / 2
    edges = np.concatenate([[low], fine[:-1] + half, [high]])
    even = np.zeros(len(fine))
    even[[0, -1]] = -np.log(2)  # the cells at both ends are half as wide
    shares, at = np.linspace(0, 1, CHART_KNOTS), chart.concentration
    return Nodes(at(low + shares * (high - low)), shares, at(fine), at(edges), even)


def _second_moment(
    model: SpectralModel, inner: Calibration, side: int, basis: np.ndarray, offset: bool
) -> tuple[np.ndarray, int]:
    """Second moment R of the errors on one side of the training range, and its freedom."""
    fold, signal = model.fold, model.series.signal
    rows = []
    for level in np.flatnonzero(inner.calibration_set[fold.index, side]).tolist():
        # Errors in directions of the training spectra; all others count as novelty.
        known = _directions(_centred(signal[fold.without(level).training], offset), offset)
        error = _centred(inner.errors[fold.index, level], offset)
        rows.append(error @ known.T @ known @ basis.T)
    errors = np.stack(rows)
    count, directions = errors.shape
    largest = np.abs(signal[fold.training]).max()
    smallest = (SMALLEST * largest) ** 2 * signal.shape[1]
    square = max(float(np.mean(np.sum(errors**2, axis=1))), smallest)
    return (errors.T @ errors + square * np.eye(directions)) / (count + 1), count + 1


def _centred(spectra: np.ndarray, offset: bool) -> np.ndarray:
    """Spectra, without their mean over wavelengths if an offset is allowed."""
    return spectra - spectra.mean(axis=-1, keepdims=True) if offset else spectra


def _directions(spectra: np.ndarray, offset: bool) -> np.ndarray:
    """Orthonormal directions of spectra and, unless an offset is allowed, of a constant."""
    constant = np.full((0 if offset else 1, spectra.shape[1]), np.abs(spectra).max())
    _, singular, right = np.linalg.svd(np.concatenate([spectra, constant]), full_matrices=False)
    return right[singular > RANK_TOLERANCE * singular[0]]


def _upsampled(values: np.ndarray, knots: np.ndarray, fine: np.ndarray) -> np.ndarray:
    """Linear interpolation of covariances, which keeps them positive semi-definite."""
    place = np.clip(np.searchsorted(knots, fine) - 1, 0, len(knots) - 2)
    share = ((fine - knots[place]) / (knots[place + 1] - knots[place]))[:, None, None]
    return (1 - share) * values[place] + share * values[place + 1]


def _novel(spectra: np.ndarray, offset: bool) -> np.ndarray:
    """Residual of every spectrum outside the span of the others and of a constant."""
    parts = []
    for place in range(len(spectra)):
        known = _directions(np.delete(spectra, place, axis=0), offset)
        parts.append(spectra[place] - spectra[place] @ known.T @ known)
    return np.stack(parts)
