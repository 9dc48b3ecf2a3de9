"""Baselines: classical interpolation between measured spectra, which a learned model has to beat.

A baseline takes the chart of the series, the concentrations of the training levels (ascending, at
least three), their spectra and a concentration, and returns the spectrum it predicts there. Most
predict from positions on the given chart; the three with a chart of their own predict from
concentrations. The docstring of each describes its extrapolation.
"""

from collections.abc import Callable
from operator import itemgetter

import numpy as np
from jaxtyping import Float
from scipy.interpolate import CubicSpline, PchipInterpolator, make_interp_spline

from geonode.metrics.gaussian_process import fit_process
from geonode.scores.likelihood import most_likely
from geonode.spectra.chart import Chart

Positions = Float[np.ndarray, "level"]
Concentrations = Float[np.ndarray, "level"]
Spectra = Float[np.ndarray, "level wavelength"]
Spectrum = Float[np.ndarray, "wavelength"]
Predictor = Callable[[Float[np.ndarray, "level"], Spectra, float], Spectrum]
"""Function of training levels, their spectra and a level, all as positions or concentrations."""

Baseline = Callable[[Chart, Concentrations, Spectra, float], Spectrum]

TIE = 1e-12
"""Largest difference of equal distances (chart units), due to rounding."""


def linear(train_positions: Positions, train_spectra: Spectra, position: float) -> Spectrum:
    """Linear interpolation between neighbours, extrapolated by the first and the last line."""
    return make_interp_spline(train_positions, train_spectra, k=1)(position)


def pchip(train_positions: Positions, train_spectra: Spectra, position: float) -> Spectrum:
    """Monotone cubic Hermite interpolation, extrapolated by the first and the last cubic.

    Source: Fritsch and Butland, SIAM J. Sci. Stat. Comput. 5, 300 (1984).
    """
    return PchipInterpolator(train_positions, train_spectra)(position)


def natural_cubic(train_positions: Positions, train_spectra: Spectra, position: float) -> Spectrum:
    """Cubic spline without curvature at its ends, extrapolated by straight lines."""
    spline = CubicSpline(train_positions, train_spectra, bc_type="natural")
    inside = np.clip(position, train_positions[0], train_positions[-1])
    return spline(inside) + (position - inside) * spline(inside, 1)


def nearest(train_positions: Positions, train_spectra: Spectra, position: float) -> Spectrum:
    """Spectrum of the nearest level; of the lower level if two are equally near."""
    distance = np.abs(train_positions - position)
    return train_spectra[np.argmax(distance <= distance.min() + TIE)]


def mean(train_positions: Positions, train_spectra: Spectra, position: float) -> Spectrum:  # noqa: ARG001
    """Mean of the training spectra at every position."""
    return train_spectra.mean(axis=0)


def gaussian_process(
    train_positions: Positions, train_spectra: Spectra, position: float
) -> Spectrum:
    """Gaussian process with a constant x RBF + white kernel shared by all wavelengths.

    Every wavelength is centred on the mean of the training spectra, to which the prediction reverts
    far from them; one scale serves all wavelengths. The three hyper-parameters maximise the
    marginal likelihood (`geonode.scores.likelihood`).

    Source: Rasmussen and Williams, Gaussian Processes for Machine Learning (2006), chapters 2, 5.
    """
    # The likelihood depends on inner products of spectra alone, which are those of their scores.
    centre, scores, basis = _scores(train_spectra)
    scale = np.sqrt(np.mean(scores**2))
    if scale == 0:
        return centre
    weights = most_likely(train_positions, scores / scale).weights(train_positions, position)
    return centre + weights @ scores @ basis


def process_with_trend(
    train_positions: Positions, train_spectra: Spectra, position: float
) -> Spectrum:
    """Gaussian process about a straight line, to which the prediction reverts far outside.

    Length and noise maximise the restricted likelihood (`geonode.metrics.gaussian_process`).
    """
    process, _ = fit_process(train_positions, train_spectra, "linear")
    return process.predict(train_positions, train_spectra, np.array([position]))[0]


def low_rank_pchip(train_positions: Positions, train_spectra: Spectra, position: float) -> Spectrum:
    """PCHIP of the leading scores of the training spectra, without the noise of the others.

    Scores belong to the singular vectors of the spectra about their mean. Their number is the one
    with the smallest leave-one-out error among the training spectra.
    """
    centre, scores, basis = _scores(train_spectra)
    levels = len(train_positions)
    ranks = min(levels - 2, scores.shape[1])
    errors = np.zeros(ranks)
    for level in range(levels):
        positions, others = np.delete(train_positions, level), np.delete(scores, level, axis=0)
        by_rank = _of_every_rank(positions, others, train_positions[level])[:ranks]
        errors += np.sum((by_rank - scores[level]) ** 2, axis=1)
    best = int(np.argmin(errors))
    return centre + _of_every_rank(train_positions, scores, position)[best] @ basis


def _of_every_rank(
    train_positions: Positions, train_spectra: Spectra, position: float
) -> Float[np.ndarray, "rank wavelength"]:
    """Predictions by PCHIP of the leading scores, for every number of them."""
    centre, scores, basis = _scores(train_spectra)
    predicted = PchipInterpolator(train_positions, scores)(position)
    return centre + np.cumsum(predicted[:, None] * basis, axis=0)


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


def _process_on(*charts: Callable[[Concentrations], Chart]) -> Baseline:
    """Gaussian process about a constant on a chart of its own, to which it reverts far outside.

    A chart maps the ends of the training levels and of the level to predict to -1 and 1. Length
    and noise maximise the restricted likelihood (`geonode.metrics.gaussian_process`). Of several
    charts the one with the largest likelihood is taken, the first if they are equal.
    """

    def baseline(
        given: Chart,  # noqa: ARG001
        concentrations: np.ndarray,
        spectra: np.ndarray,
        concentration: float,
    ) -> np.ndarray:
        levels = np.append(concentrations, concentration)
        candidates = []
        for chart in (chart_of(levels) for chart_of in charts):
            training, target = chart.position(concentrations), chart.position(levels[-1:])
            process, evidence = fit_process(training, spectra, "constant")
            candidates.append((evidence, process.predict(training, spectra, target)[0]))
        return max(candidates, key=itemgetter(0))[1]

    return baseline


def _on_given_chart(predict: Predictor) -> Baseline:
    """Baseline that predicts from positions on the given chart."""

    def baseline(
        given: Chart, concentrations: np.ndarray, spectra: np.ndarray, concentration: float
    ) -> np.ndarray:
        target = float(given.position(np.array([concentration]))[0])
        return predict(given.position(concentrations), spectra, target)

    return baseline


BASELINES: dict[str, Baseline] = {
    predict.__name__: _on_given_chart(predict)
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
} | {
    "process_on_linear_chart": _process_on(_linear_chart),
    "process_on_log_chart": _process_on(_log_chart),
    "process_on_chart_by_evidence": _process_on(_linear_chart, _log_chart),
}
