"""Baselines: classical interpolation between measured spectra, which a learned model has to beat.

A baseline predicts spectra at some concentrations from the spectra of at least three training
levels, ascending. Most predict from positions on the given chart of the series; the three processes
with a chart of their own predict from concentrations. Each says how it extrapolates. All Gaussian
processes are those of `geonode.learning.gaussian_process`.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy.interpolate import CubicSpline, PchipInterpolator, make_interp_spline

from geonode.evaluation.scores import PerLevel, SpectraAtLevels
from geonode.learning.gaussian_process import GaussianProcess, fit_process
from geonode.progress import Progress, silent
from geonode.spectra.chart import Chart
from geonode.ties import first_smallest

Targets = Float[np.ndarray, "target"]
SpectraAtTargets = Float[np.ndarray, "target wavelength"]
Predictor = Callable[[PerLevel, SpectraAtLevels, Targets], SpectraAtTargets]
"""Function of positions of training levels, their spectra, and positions to predict at."""

EQUAL_DISTANCE = 1e-12
"""Largest difference of equal distances (chart units), due to rounding."""

FEWEST_TO_CHOOSE = 5
"""Fewest levels of a series with which baselines can be compared inside every fold."""

MOST_LEFT_OUT = 10
"""Largest number of training levels that are left out in turn to choose among the baselines."""


# one baseline each


def natural_cubic(
    training: PerLevel, spectra: SpectraAtLevels, positions: Targets
) -> SpectraAtTargets:
    """Cubic spline without curvature at its ends, extrapolated by straight lines."""
    spline = CubicSpline(training, spectra, bc_type="natural")
    inside = np.clip(positions, training[0], training[-1])
    return spline(inside) + (positions - inside)[:, None] * spline(inside, 1)


def nearest(training: PerLevel, spectra: SpectraAtLevels, positions: Targets) -> SpectraAtTargets:
    """Spectrum of the nearest level; of the lower level if two are equally near."""
    distance = np.abs(positions[:, None] - training)
    equal = distance <= distance.min(axis=1, keepdims=True) + EQUAL_DISTANCE
    return spectra[np.argmax(equal, axis=1)]


def process_with_trend(
    training: PerLevel, spectra: SpectraAtLevels, positions: Targets
) -> SpectraAtTargets:
    """Gaussian process about a straight line, to which the prediction reverts far outside.

    Length and noise maximise the restricted likelihood.
    """
    process, _ = fit_process(training, spectra, "linear")
    return process.predict(training, spectra, positions)


def low_rank_pchip(
    training: PerLevel, spectra: SpectraAtLevels, positions: Targets
) -> SpectraAtTargets:
    """PCHIP of the leading scores of the training spectra, without the noise of the others.

    Scores belong to the singular vectors of the spectra about their mean. Their number is the one
    with the smallest leave-one-out error among the training spectra.
    """
    centre, scores, basis = _principal_scores(spectra)
    errors: np.ndarray = np.zeros(min(len(scores) - 2, scores.shape[1]))
    for level, position in enumerate(training):
        others, known = np.delete(training, level), np.delete(scores, level, axis=0)
        inner_centre, inner, inner_basis = _principal_scores(known)
        found = PchipInterpolator(others, inner)(position)
        by_rank = inner_centre + np.cumsum(found[:, None] * inner_basis, axis=0)[: len(errors)]
        errors += np.sum((by_rank - scores[level]) ** 2, axis=1)
    best = int(first_smallest(errors)) + 1
    return centre + PchipInterpolator(training, scores[:, :best])(positions) @ basis[:best]


def _principal_scores(spectra: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean of spectra, scores about it with their inner products, and the orthonormal basis."""
    centre = spectra.mean(axis=0)
    left, singular, basis = np.linalg.svd(spectra - centre, full_matrices=False)
    return centre, left * singular, basis


def _log_chart(levels: PerLevel) -> Chart:
    """Logarithmic chart, or the nearest to it where a level has no logarithm."""
    lowest = levels.min()
    if lowest > 0:
        return Chart.of("log", None, levels)
    if lowest == 0:
        return Chart.of("asinh", float(levels[levels > 0].min()) / 2, levels)
    return Chart.of("linear", None, levels)


def _processes_on_own_charts(
    concentrations: PerLevel, spectra: SpectraAtLevels, targets: Targets
) -> dict[str, SpectraAtTargets]:
    """Gaussian processes about a constant, to which they revert outside, on their own charts."""
    # A chart maps the ends of the training levels and of the level to predict to -1 and 1. Length
    # and noise maximise the restricted likelihood, and so does the chart of the third prediction;
    # the linear one if both are equal.
    fits: dict[Chart, tuple[GaussianProcess, float]] = {}
    rows = []
    for target in targets:
        levels, found = np.append(concentrations, target), []
        for chart in (Chart.of("linear", None, levels), _log_chart(levels)):
            training, position = chart.position(concentrations), chart.position(levels[-1:])
            if chart not in fits:
                fits[chart] = fit_process(training, spectra, "constant")
            process, evidence = fits[chart]
            found.append((evidence, process.predict(training, spectra, position)[0]))
        (of_linear, linearly), (of_log, logarithmically) = found
        rows.append((linearly, logarithmically, found[int(of_log > of_linear)][1]))
    return dict(zip(PROCESSES, np.stack(rows, axis=1), strict=True))


ON_GIVEN_CHART: dict[str, Predictor] = {
    # straight lines between neighbours, extrapolated by the first and the last
    "linear": lambda levels, spectra, at: make_interp_spline(levels, spectra, k=1)(at),
    # monotone cubic Hermite interpolation (Fritsch and Butland, SIAM J. Sci. Stat. Comput. 5, 300
    # (1984)), extrapolated by the first and the last cubic
    "pchip": lambda levels, spectra, at: PchipInterpolator(levels, spectra)(at),
    "natural_cubic": natural_cubic,
    "nearest": nearest,
    # of the training spectra, at every position
    "mean": lambda _, spectra, at: np.tile(spectra.mean(axis=0), (len(at), 1)),
    "low_rank_pchip": low_rank_pchip,
    "process_with_trend": process_with_trend,
}
PROCESSES = ("process_on_linear_chart", "process_on_log_chart", "process_on_chart_by_evidence")
BASELINES = (*ON_GIVEN_CHART, *PROCESSES)
"""Names of all baselines."""


def predict_by_baselines(
    given: Chart, concentrations: PerLevel, spectra: SpectraAtLevels, targets: Targets
) -> dict[str, SpectraAtTargets]:
    """Predict spectra by all baselines, which are fitted once for all targets.

    The levels ascend and are at least three; `given` is the chart of the series.
    """
    training, positions = given.position(concentrations), given.position(targets)
    on_chart = {
        name: predict(training, spectra, positions) for name, predict in ON_GIVEN_CHART.items()
    }
    return on_chart | _processes_on_own_charts(concentrations, spectra, targets)


# leave-one-out


def left_out_predictions(
    chart: Chart, levels: PerLevel, spectra: SpectraAtLevels, report: Progress = silent
) -> dict[str, SpectraAtLevels]:
    """Predict every spectrum from the others by every baseline.

    The levels ascend, one more than a baseline takes; `report` is called after every fold.

    Returns:
        By baseline, row i is the spectrum predicted at level i with its row left out.
    """
    folds = []
    for fold in range(len(levels)):
        others, known = np.delete(levels, fold), np.delete(spectra, fold, axis=0)
        folds.append(predict_by_baselines(chart, others, known, levels[[fold]]))
        report(1)
    return {name: np.concatenate([found[name] for found in folds]) for name in folds[0]}


def chosen_inside(
    chart: Chart, levels: PerLevel, spectra: SpectraAtLevels, report: Progress = silent
) -> list[str]:
    """Choose for every fold the baseline with the smallest leave-one-out error inside it.

    This is the choice open to a careful user without the method under test. Two levels are left out
    of a series together, one by the fold and one inside it. Either may be the fold, so that every
    pair is predicted from the rest once. The levels ascend and are at least five. Neither the
    spectrum of a fold nor its error counts in its choice. `report` is called once for every level.
    """
    count = len(levels)
    # Whether a fold leaves out a level inside: all others, or `MOST_LEFT_OUT` evenly spaced.
    inside = np.zeros((count, count), dtype=bool)
    some = np.linspace(0, count - 2, MOST_LEFT_OUT).round().astype(int)
    for fold in range(count):
        inside[fold, np.delete(np.arange(count), fold)[some]] = True
    errors = np.zeros((len(BASELINES), count))
    for first in range(count):
        for second in range(first + 1, count):
            pair = [first, second]
            if not inside[first, second] and not inside[second, first]:
                continue
            others, known = np.delete(levels, pair), np.delete(spectra, pair, axis=0)
            found = predict_by_baselines(chart, others, known, levels[pair])
            predicted = np.stack([found[name] for name in BASELINES])
            squared = np.sum((predicted - spectra[pair]) ** 2, axis=2)
            errors[:, first] += inside[first, second] * squared[:, 1]
            errors[:, second] += inside[second, first] * squared[:, 0]
        report(1)
    return [BASELINES[best] for best in first_smallest(errors.T)]
