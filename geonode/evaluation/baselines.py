"""Baselines: classical interpolation between measured spectra, which a learned model has to beat.

A baseline predicts spectra at some concentrations from the spectra of at least three training
levels, ascending. Most predict from positions on the given chart of the series; the three processes
with a chart of their own predict from concentrations. The docstring of each describes its
extrapolation.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy.interpolate import CubicSpline, PchipInterpolator, make_interp_spline

from geonode.evaluation.likelihood import most_likely
from geonode.learning.gaussian_process import GaussianProcess, fit_process
from geonode.spectra.chart import Chart

Concentrations = Float[np.ndarray, "level"]
Spectra = Float[np.ndarray, "level wavelength"]
Positions = Float[np.ndarray, "level"]
Targets = Float[np.ndarray, "target"]
Predicted = Float[np.ndarray, "target wavelength"]
Predictor = Callable[[Positions, Spectra, Targets], Predicted]
"""Function of positions of training levels, their spectra, and positions to predict at."""

TIE = 1e-12
"""Largest difference of equal distances (chart units), due to rounding."""


def linear(train_positions: Positions, train_spectra: Spectra, positions: Targets) -> Predicted:
    """Linear interpolation between neighbours, extrapolated by the first and the last line."""
    return make_interp_spline(train_positions, train_spectra, k=1)(positions)


def pchip(train_positions: Positions, train_spectra: Spectra, positions: Targets) -> Predicted:
    """Monotone cubic Hermite interpolation, extrapolated by the first and the last cubic.

    Source: Fritsch and Butland, SIAM J. Sci. Stat. Comput. 5, 300 (1984).
    """
    return PchipInterpolator(train_positions, train_spectra)(positions)


def natural_cubic(
    train_positions: Positions, train_spectra: Spectra, positions: Targets
) -> Predicted:
    """Cubic spline without curvature at its ends, extrapolated by straight lines."""
    spline = CubicSpline(train_positions, train_spectra, bc_type="natural")
    inside = np.clip(positions, train_positions[0], train_positions[-1])
    return spline(inside) + (positions - inside)[:, None] * spline(inside, 1)


def nearest(train_positions: Positions, train_spectra: Spectra, positions: Targets) -> Predicted:
    """Spectrum of the nearest level; of the lower level if two are equally near."""
    distance = np.abs(positions[:, None] - train_positions)
    equal = distance <= distance.min(axis=1, keepdims=True) + TIE
    return train_spectra[np.argmax(equal, axis=1)]


def mean(train_positions: Positions, train_spectra: Spectra, positions: Targets) -> Predicted:  # noqa: ARG001
    """Mean of the training spectra at every position."""
    return np.tile(train_spectra.mean(axis=0), (len(positions), 1))


def gaussian_process(
    train_positions: Positions, train_spectra: Spectra, positions: Targets
) -> Predicted:
    """Gaussian process with a constant x RBF + white kernel shared by all wavelengths.

    Every wavelength is centred on the mean of the training spectra, to which the prediction reverts
    far from them; one scale serves all wavelengths. The three hyper-parameters maximise the
    marginal likelihood (`geonode.evaluation.likelihood`).

    Source: Rasmussen and Williams, Gaussian Processes for Machine Learning (2006), chapters 2, 5.
    """
    # The likelihood depends on inner products of spectra alone, which are those of their scores.
    centre, scores, basis = _scores(train_spectra)
    scale = np.sqrt(np.mean(scores**2))
    if scale == 0:
        return np.tile(centre, (len(positions), 1))
    weights = most_likely(train_positions, scores / scale).weights(train_positions, positions)
    return centre + weights @ scores @ basis


def process_with_trend(
    train_positions: Positions, train_spectra: Spectra, positions: Targets
) -> Predicted:
    """Gaussian process about a straight line, to which the prediction reverts far outside.

    Length and noise maximise the restricted likelihood (`geonode.learning.gaussian_process`).
    """
    process, _ = fit_process(train_positions, train_spectra, "linear")
    return process.predict(train_positions, train_spectra, positions)


def low_rank_pchip(
    train_positions: Positions, train_spectra: Spectra, positions: Targets
) -> Predicted:
    """PCHIP of the leading scores of the training spectra, without the noise of the others.

    Scores belong to the singular vectors of the spectra about their mean. Their number is the one
    with the smallest leave-one-out error among the training spectra.
    """
    centre, scores, basis = _scores(train_spectra)
    levels = len(train_positions)
    ranks = min(levels - 2, scores.shape[1])
    errors = np.zeros(ranks)
    for level in range(levels):
        known, others = np.delete(train_positions, level), np.delete(scores, level, axis=0)
        by_rank = _of_every_rank(known, others, train_positions[[level]])[:ranks, 0]
        errors += np.sum((by_rank - scores[level]) ** 2, axis=1)
    best = int(np.argmin(errors))
    return centre + _of_every_rank(train_positions, scores, positions)[best] @ basis


def _of_every_rank(
    train_positions: Positions, train_spectra: Spectra, positions: Targets
) -> Float[np.ndarray, "rank target wavelength"]:
    """Predictions by PCHIP of the leading scores, for every number of them."""
    centre, scores, basis = _scores(train_spectra)
    predicted = PchipInterpolator(train_positions, scores)(positions)
    return centre + np.cumsum(predicted.T[..., None] * basis[:, None], axis=0)


def _scores(spectra: Spectra) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean of spectra, their scores about it, and the orthonormal basis of the scores.

    Scores have the inner products of the spectra, with at most one output per level.
    """
    centre = spectra.mean(axis=0)
    left, singular, basis = np.linalg.svd(spectra - centre, full_matrices=False)
    return centre, left * singular, basis


def _linear_chart(levels: Concentrations) -> Chart:
    return Chart.of("linear", None, levels)


def _log_chart(levels: Concentrations) -> Chart:
    """Logarithmic chart, or the nearest to it where a level has no logarithm.

    With a level of zero it is asinh(c / kappa), with half the smallest positive level as kappa;
    with a negative level it is the linear chart.
    """
    lowest = levels.min()
    if lowest > 0:
        return Chart.of("log", None, levels)
    if lowest == 0:
        return Chart.of("asinh", float(levels[levels > 0].min()) / 2, levels)
    return _linear_chart(levels)


def _processes_on_own_charts(
    concentrations: Concentrations, spectra: Spectra, targets: Targets
) -> dict[str, Predicted]:
    """Gaussian processes about a constant on charts of their own, to which they revert far outside.

    A chart maps the ends of the training levels and of the level to predict to -1 and 1. Length
    and noise maximise the restricted likelihood (`geonode.learning.gaussian_process`). Of the
    linear and the logarithmic chart, the one with the larger likelihood makes the third prediction;
    the linear one if they are equal.
    """
    fits: dict[Chart, tuple[GaussianProcess, float]] = {}
    rows: dict[str, list[np.ndarray]] = {name: [] for name in PROCESSES}
    for target in targets:
        levels, found = np.append(concentrations, target), []
        for chart in (_linear_chart(levels), _log_chart(levels)):
            training, position = chart.position(concentrations), chart.position(levels[-1:])
            if chart not in fits:
                fits[chart] = fit_process(training, spectra, "constant")
            process, evidence = fits[chart]
            found.append((evidence, process.predict(training, spectra, position)[0]))
        (of_linear, linearly), (of_log, logarithmically) = found
        likelier = logarithmically if of_log > of_linear else linearly
        for name, row in zip(PROCESSES, (linearly, logarithmically, likelier), strict=True):
            rows[name].append(row)
    return {name: np.stack(of_targets) for name, of_targets in rows.items()}


ON_GIVEN_CHART: dict[str, Predictor] = {
    predict.__name__: predict
    for predict in (
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
PROCESSES = ("process_on_linear_chart", "process_on_log_chart", "process_on_chart_by_evidence")
BASELINES = (*ON_GIVEN_CHART, *PROCESSES)
"""Names of all baselines."""


def predict_by_baselines(
    given: Chart, concentrations: Concentrations, spectra: Spectra, targets: Targets
) -> dict[str, Predicted]:
    """Predict spectra by all baselines, which are fitted once for all targets.

    Args:
        given: chart of the series.
        concentrations: training levels, ascending, at least three.
        spectra: their spectra.
        targets: concentrations to predict at.
    """
    training, positions = given.position(concentrations), given.position(targets)
    on_chart = {
        name: predict(training, spectra, positions) for name, predict in ON_GIVEN_CHART.items()
    }
    return on_chart | _processes_on_own_charts(concentrations, spectra, targets)
