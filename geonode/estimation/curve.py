"""Curve of predicted spectra over concentration, with the law of errors about it.

The predictions are those of the posterior over metrics of the spectra less their pedestal
(`geonode.estimation.pedestal`). All predictions of a fold are combinations of its training spectra
and of a constant, so the curve lies in the subspace of few directions that these span. There the
covariance S of the error at a concentration c has two sources. One is the covariance D of the
posterior. The other are the series' own errors: each of the n training levels is predicted from the
others, and its residual e_i, in units of the deviation that is expected of it, is z_i. With
s = tr D / r, r directions and P, the projector on the training spectra,

    S(c) = (k ((1 - a) D + a s P) + s sum_i z_i z_i^T) / (k + n).

So directions in which the residuals are large count little, and small ones carry the analyte.

The errors of a spectrum are few: a gain, an offset, something else in the sample. They are not as
many as directions, and their size is known poorly. With the squared distance q = e^T S^-1 e, the
likelihood is therefore that of Student's distribution in d effective directions and with v degrees
of freedom, where the size of an error is its geometric mean over the directions:

    ln p = -(v + d) / 2 ln(1 + q / (v f)) - d / (2 r) ln |S|.

Such a likelihood is tempered: it is no probability of the spectrum, but a loss by which to update a
prior. k (`EXPECTED`), a, d, v and f were chosen by the mean log posterior density of the
concentrations of left-out levels of simulated series, and the size of the sets is calibrated on
these (`research.simulated_sets`).

The residual of a spectrum in other directions is no evidence about its concentration, but shows
whether the spectrum belongs to the series at all. It is compared with the novelty of the training
spectra: the residual of each outside the span of the others.

Sources: P. G. Bissiri, C. C. Holmes and S. G. Walker, J. R. Stat. Soc. B 78 (2016) 1103 (updating
by a loss); A. Gelman et al., Bayesian Data Analysis, 3rd edition, CRC Press 2013, section 3.6 (a
prior of a covariance counts as some observations, and predictions are Student's).
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float
from scipy.interpolate import CubicSpline

from geonode.errors import TrainingError
from geonode.estimation.covariances import Covariances
from geonode.estimation.novelty import Novelty, outside_others
from geonode.estimation.pedestal import Pedestal
from geonode.estimation.range import CURVE_NODES, knots_over_range, nodes_on_metric
from geonode.learning.folds import Fold, leave_one_out
from geonode.learning.posterior_decoder import FoldPosterior, PosteriorDecoders
from geonode.learning.predicted import Predicted
from geonode.posterior.prior import PRIOR_WAVELENGTHS, Prior, packaged_prior
from geonode.spectra.series import Series

SCALE_DEVIATION = 0.2
"""Standard deviation of the factor between two instruments, where one is allowed."""
SMALLEST_ERROR = 1e-6  # smallest assumed error, relative to the largest signal
RANK_TOLERANCE = 1e-10  # smallest singular value of a direction, relative to the largest
OTHERWISE = 0.01  # weight of all other directions, relative to those of the training spectra

EXPECTED = 5.0  # k: levels' worth of the covariance of the posterior
EVEN_SHARE = 0.2  # a: share of its size that is equal in all directions of the training spectra
DIRECTIONS, FREEDOM, STRETCH = 4, 2.0, 3.0  # d, v and f
TESTED = 4.0
"""Variance of predictions, relative to the largest between the levels, up to which they test a fit.

Farther beyond the levels errors are so large that any spectrum would fit.
"""


@dataclass(frozen=True)
class Curve:
    """Scores of predicted spectra over a range of concentrations."""

    concentrations: Float[np.ndarray, "node"]
    """Nodes, evenly spaced on the arc length of the posterior metric."""
    edges: Float[np.ndarray, "edge"]  # edges of the cells about the nodes; one more than nodes
    inside: Bool[np.ndarray, "node"]
    """True for nodes between the lowest and the highest training level."""
    tested: Bool[np.ndarray, "node"]  # whether it takes part in the test of fit
    pedestal: Float[np.ndarray, "wavelength"]  # of the training spectra
    basis: Float[np.ndarray, "direction wavelength"]  # orthonormal directions
    scores: Float[np.ndarray, "node direction"]
    """Scores of the predicted spectra, less the pedestal, in these directions."""
    covariances: Covariances  # S of every node
    log_prior: Float[np.ndarray, "node"]  # log prior probability of the cells
    training: int  # number of training levels
    novelty: Novelty  # residuals in other directions to expect
    offset: bool  # whether the mean over wavelengths is removed from every spectrum
    mass: Float[np.ndarray, "node"]
    """Of every node, the posterior probability of more likely nodes below which it is in the 90%
    set."""

    def spectra(
        self, nodes: slice | Bool[np.ndarray, "node"]
    ) -> Float[np.ndarray, "some wavelength"]:
        """Predicted spectra at some nodes; a constant is missing if offsets are allowed."""
        return self.pedestal + self.scores[nodes] @ self.basis

    @classmethod
    def of(
        cls,
        series: Series,
        fold: Fold | None = None,
        *,
        offset: bool = False,
        scale: bool = False,
        one_scan: bool = False,
        prior: Prior | None = None,
        given: FoldPosterior | None = None,
    ) -> "Curve":
        """Curve of a fold of a series over the range of all its levels.

        Whatever predicts spectra elsewhere, this is the posterior over metrics: a blend with
        perceptrons predicts spectra better and estimates worse.

        Args:
            series: the measured series. The spectra that the fold leaves out are not read.
            fold: a fold of `leave_one_out`; None: the last one, which leaves nothing out.
            offset: whether measured spectra may differ by a constant of any size.
            scale: whether they may differ by a factor, 1 with deviation `SCALE_DEVIATION`.
            one_scan: whether they are single scans, which are noisier than the means of replicates
                in the series.
            prior: rule and calibration of the posterior; None: those of the package.
            given: what `posteriors_at_knots` found of the fold; None: it is computed.

        Raises:
            TrainingError: there are fewer than three levels, they are too far apart for a curve, or
                their spectra are zero.
        """
        fold = fold or leave_one_out(len(series.concentrations))[-1]
        prior = prior or packaged_prior()
        above, common = _above_pedestal(series, fold)
        training = _centred(above.signal[fold.training], offset)
        if not training.any():
            raise TrainingError(
                "estimation: found spectra that are all alike, expected a signal that depends on "
                "concentration"
            )
        given = given or posteriors_at_knots([(series, fold)], prior)[0]
        levels, knots = series.concentrations[fold.training], given.targets
        predicted = given.predicted(above, fold, prior)
        # Where all spectra are alike an unknown is too, and a constant would be none of its own.
        constant = common.differ[None][: 0 if offset else 1] * np.abs(training).max()
        basis = _directions(np.concatenate([training, constant]))
        nodes = nodes_on_metric(levels, knots, given.sqrt_metric[0])
        places = np.linspace(0, 1, CURVE_NODES)
        means = CubicSpline(nodes.shares, predicted.spectra @ basis.T)(places)
        at_knots = _covariance_at_knots(predicted, training, basis, offset)
        size = np.interp(places, nodes.shares, np.trace(at_knots, axis1=1, axis2=2))
        inside = fold.spans(series.concentrations, nodes.fine)
        terms = _across_cells(means)[:, None]
        if scale:
            terms = np.concatenate([terms, SCALE_DEVIATION * means[:, None]], axis=1)
        # Residuals outside the span of the others and, unless an offset is allowed, of a constant.
        parts = outside_others(np.concatenate([training, constant]), RANK_TOLERANCE)
        novelty = Novelty.of(parts[: len(training)])
        if one_scan and series.replicates is not None:
            known = np.array(fold.training)
            noise = _centred(series.replicates.excess(known), offset)
            scores = noise @ basis.T
            constant, proportional = series.replicates.growth(known, series.concentrations)
            growth = constant + proportional * knots**2
            at_knots = at_knots + growth[:, None, None] * (scores.T @ scores)
            novelty = novelty.with_noise(noise - scores @ basis)
        return cls(
            nodes.fine,
            nodes.edges,
            inside,
            size <= TESTED * size[inside].max(),
            common.values,
            basis,
            means,
            Covariances.of(at_knots, nodes.shares, places, terms),
            nodes.log_prior,
            len(levels),
            novelty,
            offset,
            prior.mass_of_sets(len(levels), inside),
        )


def posteriors_at_knots(folds: list[tuple[Series, Fold]], prior: Prior) -> list[FoldPosterior]:
    """Predictions at the knots of the curves of folds, by the posteriors of several at once.

    Args:
        folds: folds with their series, of equally many training levels and wavelengths.
        prior: rule of the posterior, on the device on which to compute.

    Raises:
        TrainingError: there are fewer than three training levels.
    """
    knots = [knots_over_range(series.concentrations[fold.training]) for series, fold in folds]
    above = [(_above_pedestal(series, fold)[0], fold) for series, fold in folds]
    return PosteriorDecoders(prior).posteriors(above, np.stack(knots))


def _above_pedestal(series: Series, fold: Fold) -> tuple[Series, Pedestal]:
    """A series less the pedestal of the training spectra of a fold."""
    pedestal = Pedestal.of(series.signal[fold.training])
    return replace(series, signal=series.signal - pedestal.values), pedestal


def _covariance_at_knots(
    predicted: Predicted, training: np.ndarray, basis: np.ndarray, offset: bool
) -> Float[np.ndarray, "knot direction direction"]:
    """S at the knots, without what the measurement of an unknown adds."""
    rows, directions = predicted.factors @ basis.T, len(basis)
    assert predicted.even is not None and predicted.residuals is not None  # the posterior has both
    # Of the directions of as many wavelengths as the prior was learned with: how densely an axis is
    # sampled is no information.
    even = predicted.even * basis.shape[1] / PRIOR_WAVELENGTHS
    disagreement = rows.swapaxes(1, 2) @ rows + even[:, None, None] * np.eye(directions)
    smallest = (SMALLEST_ERROR * float(np.ptp(training, axis=0).max())) ** 2
    size = np.trace(disagreement, axis1=1, axis2=2)[:, None, None] / directions + smallest
    prior = (1 - EVEN_SHARE) * disagreement + EVEN_SHARE * size * _spanned(training, basis)
    expected = predicted.residuals.square * basis.shape[1] / directions + smallest
    own = _centred(predicted.residuals.spectra, offset) @ basis.T / np.sqrt(expected)[:, None]
    total = EXPECTED + len(own)
    return (EXPECTED * prior + size * (own.T @ own)) / total


def _across_cells(means: np.ndarray) -> np.ndarray:
    """Root of the covariance of the curve within the cell of a node, all of which it stands for."""
    across = np.gradient(means, axis=0)
    across[[0, -1]] /= 2  # the cells at both ends are half as wide
    return across / 12**0.5  # the variance of an even distribution over a length is a twelfth


def _spanned(training: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Projector on the directions of the training spectra, plus a little of all others."""
    scores = training @ basis.T
    _, singular, right = np.linalg.svd(scores, full_matrices=False)
    kept = right[singular > RANK_TOLERANCE * singular[0]]
    return kept.T @ kept + OTHERWISE * np.eye(len(basis))


def _centred(spectra: np.ndarray, offset: bool) -> np.ndarray:
    """Spectra, without their mean over wavelengths if an offset is allowed."""
    return spectra - spectra.mean(axis=-1, keepdims=True) if offset else spectra


def _directions(spectra: np.ndarray) -> np.ndarray:
    """Orthonormal directions of spectra."""
    _, singular, right = np.linalg.svd(spectra, full_matrices=False)
    return right[singular > RANK_TOLERANCE * singular[0]]
