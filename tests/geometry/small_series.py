"""A series and learned metrics small enough to write as artifacts in a test."""

import numpy as np
import torch

from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.metric import SIZES
from geonode.geometry.perceptron import Perceptron
from geonode.spectra.chart import Chart
from geonode.spectra.series import Series
from tests.factory import series_of

LEVELS, WAVELENGTHS, MEMBERS = 4, 5, 2


def small_series(levels: int = LEVELS, wavelengths: int = WAVELENGTHS) -> Series:
    """Levels 0, 10, ... ppb; wavelengths from 400 nm on, not evenly spaced."""
    concentrations = 10.0 * np.arange(levels)
    axis = 400 + np.arange(wavelengths) ** 1.5
    signal = np.random.default_rng(0).normal(size=(levels, wavelengths))
    return series_of(concentrations, signal, axis)


def small_metrics(series: Series, seed: int = 0, gain: float = 1.0) -> LearnedMetrics:
    """Untrained metrics, those of the last fold on a chart of their own."""
    folds = len(series.concentrations) + 1
    network = Perceptron.initial(
        SIZES, [(seed, m, f) for m in range(MEMBERS) for f in range(folds)]
    )
    network = Perceptron(tuple(gain * w for w in network.weights), network.biases)
    bent = Chart.of("asinh", 5.0, series.concentrations)
    return LearnedMetrics(
        network.to(torch.device("cpu"), torch.float32), [series.chart] * (folds - 1) + [bent]
    )
