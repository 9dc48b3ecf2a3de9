"""Calibration of the intervals of the prior on simulated series.

Every level of a simulated series is left out and predicted, as for measured series. The half widths
of intervals are quantiles of |error| / deviation over all wavelengths of many series, for targets
inside and outside of the training levels, by the number of levels. The coverage therefore holds on
average over series like the simulated ones, not for each.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from geonode.decoders.blend import Blend, Prediction
from geonode.decoders.kinds import Decoders
from geonode.decoders.posterior_decoder import PosteriorDecoders
from geonode.estimation.model import SpectralModel
from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.metric import SIZES
from geonode.geometry.perceptron import Perceptron
from geonode.posterior.prior import PROBABILITIES, Prior
from geonode.progress import Progress, silent
from geonode.simulation.draws import Draws
from geonode.simulation.series import simulate
from geonode.spectra.chart import Chart
from geonode.spectra.series import Series
from geonode.training.folds import leave_one_out

LEVELS = (4, 5, 6, 8, 12)
"""Numbers of levels of the simulated series; half widths are interpolated, and constant beyond."""

LABELS = dict.fromkeys(("signal", "axis"), "simulated") | dict.fromkeys(
    ("signal_unit", "axis_unit", "concentration_unit"), "1"
)


class LeftOutLevel(NamedTuple):
    """Level of a simulated series, predicted from the others.

    Attributes:
        spectrum: spectrum of the level.
        prediction: prediction of the spectrum.
        inside: whether the level is between the others.
    """

    spectrum: Float[np.ndarray, "wavelength"]
    prediction: Prediction
    inside: bool


def calibrated(prior: Prior, levels_of_each: int, seed: int, report: Progress = silent) -> Prior:
    """Prior with newly calibrated half widths.

    Args:
        prior: prior whose rule is used.
        levels_of_each: approximate number of left-out levels for every number of levels.
        seed: seed of the series, which must not have been used for learning.
        report: called after every level.
    """
    half_widths = []
    for place, levels in enumerate(LEVELS):
        found = []
        series = -(-levels_of_each // levels)
        for one in left_out_levels(prior, levels, series, seed + place):
            found.append(one)
            report(1)
        half_widths.append([_half_widths(found, inside) for inside in (True, False)])
    counts = np.array([levels - 1.0 for levels in LEVELS])
    return replace(prior, counts=counts, half_widths=np.array(half_widths))


def left_out_levels(prior: Prior, levels: int, series: int, seed: int) -> Iterator[LeftOutLevel]:
    """Levels of simulated series, each predicted from the others.

    Args:
        prior: prior of the posterior.
        levels: number of levels of every series.
        series: number of series.
        seed: seed of the series.
    """
    found = simulate(Draws.of(seed, torch.device("cpu")), series, levels)
    for concentrations, spectra in zip(found.concentrations, found.spectra, strict=True):
        whole = simulated_model(concentrations.numpy(), spectra.numpy(), prior)
        for fold in leave_one_out(levels)[:-1]:
            level = concentrations[[fold.index]].numpy()
            yield LeftOutLevel(
                whole.series.signal[fold.index],
                replace(whole, fold=fold).predict(level),
                fold.is_inside(fold.index),
            )


def simulated_model(
    concentrations: Float[np.ndarray, "level"],
    spectra: Float[np.ndarray, "level wavelength"],
    prior: Prior,
) -> SpectralModel:
    """Model of a series with the posterior over its metrics."""
    levels, wavelengths = spectra.shape
    chart = Chart.of("linear", None, concentrations)
    axis = np.arange(wavelengths, dtype=np.float64)
    series = Series(concentrations, axis, spectra, chart, LABELS)
    folds = leave_one_out(levels)
    flat = LearnedMetrics(Perceptron.initial(SIZES, [(0,)] * len(folds)), [chart] * len(folds))
    weights = np.ones((len(folds), 2, 1))
    decoders: dict[str, Decoders] = {"posterior": PosteriorDecoders(prior)}
    blend = Blend(decoders, weights, None, None, np.arange(wavelengths), wavelengths)
    return SpectralModel(series, flat, blend, folds[-1])


def _half_widths(found: list[LeftOutLevel], inside: bool) -> Float[np.ndarray, "probability"]:
    ratios = [
        np.abs(one.prediction.spectra[0] - one.spectrum) / one.prediction.scale[0]
        for one in found
        if one.inside == inside
    ]
    return np.quantile(np.concatenate(ratios), PROBABILITIES)
