"""Calibration of the intervals of the prior on simulated series.

Every level of a simulated series is left out and predicted, as for measured series. The half widths
of intervals are quantiles of |error| / deviation over all wavelengths of many series, for targets
inside and outside of the training levels, by the number of levels. The coverage therefore holds on
average over series like the simulated ones, not for each.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float

from geonode.decoders.posterior_decoder import PosteriorDecoders
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
        ratios: dict[bool, list[np.ndarray]] = {True: [], False: []}
        for inside, found in left_out(prior, levels, -(-levels_of_each // levels), seed + place):
            ratios[inside].append(found)
            report(1)
        sides = [np.concatenate(found) for found in ratios.values()]
        half_widths.append([np.quantile(side, PROBABILITIES) for side in sides])
    counts = np.array([levels - 1.0 for levels in LEVELS])
    return replace(prior, counts=counts, half_widths=np.array(half_widths))


def left_out(
    prior: Prior, levels: int, series: int, seed: int
) -> Iterator[tuple[bool, Float[np.ndarray, "wavelength"]]]:
    """Levels of simulated series, each predicted from the others.

    Args:
        prior: prior of the posterior.
        levels: number of levels of every series.
        series: number of series.
        seed: seed of the series.

    Yields:
        Whether the level is between the others, and |error| / deviation of its spectrum.
    """
    found = simulate(Draws.of(seed, torch.device("cpu")), series, levels)
    decoders, axis = PosteriorDecoders(prior), np.arange(found.spectra.shape[2], dtype=np.float64)
    for concentrations, spectra in zip(found.concentrations.numpy(), found.spectra, strict=True):
        chart = Chart.of("linear", None, concentrations)
        whole = Series(concentrations, axis, spectra.numpy(), chart, LABELS)
        folds = leave_one_out(levels)[:-1]
        predictions = decoders.predict_left_out(folds, whole, None)
        for fold, predicted in zip(folds, predictions, strict=True):
            error = predicted.spectra[0] - whole.signal[fold.index]
            yield fold.is_inside(fold.index), np.abs(error) / predicted.deviation[0]
