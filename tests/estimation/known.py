"""Models whose predictions are a formula."""

from dataclasses import dataclass

import numpy as np

from geonode.decoders.blend import Blend, Prediction
from geonode.decoders.calibration import PROBABILITIES, Calibration
from geonode.decoders.posterior_decoder import PosteriorDecoders
from geonode.decoders.predicted import Predicted
from geonode.estimation.model import SpectralModel
from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.metric import SIZES
from geonode.geometry.perceptron import Perceptron
from geonode.posterior.prior import packaged_prior
from geonode.spectra.chart import Chart
from geonode.spectra.series import Series
from geonode.training.folds import leave_one_out
from tests.geometry.small_series import LABELS


@dataclass(frozen=True)
class Known(SpectralModel):
    """Predicts by a formula of the concentration, with the same factors everywhere."""

    formula: object = None
    rows: object = None

    def predict(self, concentrations):
        spectra = self.formula(concentrations)
        factors = np.broadcast_to(self.rows, (len(spectra), *self.rows.shape))
        predicted = Predicted(spectra, factors)
        return Prediction(predicted, predicted.deviation, None)


def of_fold(kind, levels, signal, blend, chart, fold, *others):
    """A model of one fold of a series, with an untrained metric of every fold on one chart."""
    series = Series(levels, np.linspace(400, 700, signal.shape[1]), signal, chart, LABELS)
    folds = leave_one_out(len(levels))
    network = Perceptron.initial(SIZES, [(0,)] * len(folds))
    return kind(series, LearnedMetrics(network, [chart] * len(folds)), blend, folds[fold], *others)


def known(formula, levels, errors, rows=None, chart=None, fold=-1, inside=None):
    """A model of a formula.

    Args:
        formula: spectra (target, wavelength) of concentrations.
        levels: concentrations of the series, whose spectra are exact.
        errors: made inside every fold, one row a level.
        rows: factors of the covariance of the predictions; none.
        chart: linear.
        fold: the last.
        inside: calibration set inside the training range; outside, all levels calibrate.
    """
    levels = np.asarray(levels, dtype=float)
    signal, count = formula(levels), len(levels)
    chart = chart or Chart.of("linear", None, levels)
    calibration_set = np.ones((count + 1, 2, count), dtype=bool)
    if inside is not None:
        calibration_set[:, 0] = np.isin(np.arange(count), inside)
    calibration = Calibration(
        np.zeros((count + 1, 2, signal.shape[1])),
        np.zeros((count + 1, 2, len(PROBABILITIES))),
        np.tile(errors, (count + 1, 1, 1)),
        calibration_set,
    )
    blend = Blend({}, np.ones((count + 1, 1)), calibration, np.arange(2), signal.shape[1])
    rows = np.zeros((1, signal.shape[1])) if rows is None else rows
    return of_fold(Known, levels, signal, blend, chart, fold, formula, rows)


def learned(levels, signal, fold=-1):
    """The model of a posterior over metrics.

    Args:
        levels: concentrations of the series.
        signal: its spectra.
        fold: the last.
    """
    count, width = signal.shape
    decoders = {"posterior": PosteriorDecoders(packaged_prior())}
    blend = Blend(decoders, np.ones((count + 1, 1)), None, np.arange(2), width)
    return of_fold(SpectralModel, levels, signal, blend, Chart.of("linear", None, levels), fold)


W = np.linspace(0, 1, 40)
LEVELS = [0.0, 10.0, 20.0, 30.0, 40.0, 60.0]


def straight(concentrations):
    """A peak that grows."""
    return 0.2 + np.asarray(concentrations)[:, None] / 60 * np.exp(-((W - 0.4) ** 2) / 0.05)


def bent(concentrations):
    """A peak that grows and shrinks again, the same at 30 - d and 30 + d, as it moves."""
    distance = (np.asarray(concentrations)[:, None] - 30) / 30
    return 0.2 + np.exp(-((W - 0.4 - 0.1 * distance**2) ** 2) / 0.05) * (1 - 0.5 * distance**2)


def holds(intervals, concentration):
    """Whether a concentration is in one of some intervals."""
    return any(low <= concentration <= high for low, high in intervals)


def noise(count, size, seed=0):
    """Errors without direction, one row each."""
    return size * np.random.default_rng(seed).normal(size=(count, len(W)))
