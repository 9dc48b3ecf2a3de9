"""Calibration of the intervals and sets of the prior on simulated series.

Every level of a simulated series is left out and predicted, and its concentration is estimated, as
for measured series. The half widths of intervals are quantiles of |error| / deviation over all
wavelengths of many series. The mass of sets is a quantile of the posterior probability of all
concentrations that are more likely than the true one. Both are of levels inside and outside of the
training levels apart, by the number of levels. Half of the series have twice the errors of
preparation, matrix and drift that the rule was learned with: laboratories are worse than they
think. The coverage is right on average over series like these, not for each.

Source: V. Vovk, A. Gammerman and G. Shafer, Algorithmic Learning in a Random World, Springer 2005,
chapter 4 (quantiles of scores of past examples, of each class apart, bound those of the next).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from geonode.compute.processes import finished
from geonode.estimation.curve import Curve, posteriors_at_knots
from geonode.estimation.posterior import Law
from geonode.learning.folds import Fold, leave_one_out
from geonode.learning.posterior_decoder import PosteriorDecoders
from geonode.posterior.prior import COVERAGE, PROBABILITIES, Prior
from geonode.progress import Progress, silent
from geonode.spectra.chart import Chart
from geonode.spectra.series import LABELS, Series
from research.draws import Draws
from research.simulated_series import simulate

LEVELS = (4, 5, 6, 8, 12, 20)
"""Numbers of levels of the simulated series; between them it is interpolated, constant beyond."""

ERRORS = (1.0, 2.0)
"""Factors of the errors of the simulated series."""

BATCH = 60
"""Left-out levels of a batch of series."""


class Batch(NamedTuple):
    """Simulated series of equally many levels."""

    prior: Prior  # prior whose rule is used
    levels: int  # number of levels
    series: int  # number of series
    errors: float  # factor of their errors
    seed: int  # seed of the series

    def simulated(self) -> list[Series]:
        """The series, each on a linear chart."""
        draws = Draws.of(self.seed, torch.device("cpu"))
        found = simulate(draws, self.series, self.levels, errors=self.errors)
        axis, labels = np.arange(float(found.spectra.shape[2])), dict.fromkeys(LABELS, "1")
        return [
            Series.of_levels(levels, axis, spectra, Chart.of("linear", None, levels), labels)
            for levels, spectra in zip(*(part.numpy() for part in found), strict=True)
        ]


def batches_of(prior: Prior, counts: Sequence[int], levels: int, seed: int) -> list[Batch]:
    """Series of some numbers of levels, so many levels each, with every kind of errors in turn."""
    draws = [(count, number) for count in counts for number in range(-(-levels // BATCH))]
    return [
        Batch(prior, count, -(-BATCH // count), ERRORS[number % len(ERRORS)], seed + place)
        for place, (count, number) in enumerate(draws, 1)
    ]


class LeftOut(NamedTuple):
    """A level that was left out."""

    inside: bool  # whether it is between the others
    ratios: Float[np.ndarray, "wavelength"]  # |error| / deviation of its predicted spectrum
    more_likely: float
    """Probability of the concentrations that are more likely than the true one; 1 if that is out of
    range."""


def calibrated(
    prior: Prior, levels_of_each: int, seed: int, report: Progress = silent, processes: int = 1
) -> Prior:
    """Prior with newly calibrated half widths and masses.

    The seed must not have been used for learning; the result does not depend on the number of
    processes.
    """
    batches = batches_of(prior, LEVELS, levels_of_each, seed - 1)
    by_class: dict[tuple[int, bool], list[LeftOut]] = {}
    parts = finished(left_out, batches, processes, report)
    for batch, found in sorted(parts, key=lambda part: part[0].seed):
        for one in found:
            by_class.setdefault((batch.levels, one.inside), []).append(one)
    half_widths = np.empty((len(LEVELS), 2, len(PROBABILITIES)))
    masses = np.empty((len(LEVELS), 2))
    for (levels, inside), members in by_class.items():
        place = LEVELS.index(levels), 1 - int(inside)
        ratios = np.concatenate([one.ratios for one in members])
        half_widths[place] = np.quantile(ratios, PROBABILITIES)
        masses[place] = np.quantile([one.more_likely for one in members], COVERAGE)
    counts = np.array([levels - 1.0 for levels in LEVELS])
    return replace(prior, counts=counts, half_widths=half_widths, masses=masses)


def left_out(batch: Batch, report: Progress = silent) -> list[LeftOut]:
    """All levels of a batch, each predicted and estimated from the others of its series."""
    folds = leave_one_out(batch.levels)[:-1]
    pairs = [(series, fold) for series in batch.simulated() for fold in folds]
    truths = np.array([[series.concentrations[fold.index]] for series, fold in pairs])
    posteriors = PosteriorDecoders(batch.prior).posteriors(pairs, truths)
    knots, found = posteriors_at_knots(pairs, batch.prior), []
    for (series, fold), at_truth, at_knots in zip(pairs, posteriors, knots, strict=True):
        predicted = at_truth.predicted(series, fold, batch.prior)
        error = np.abs(predicted.spectra[0] - series.signal[fold.index])
        curve = Curve.of(series, fold, prior=batch.prior, given=at_knots)
        unlikely = _more_likely_than_truth(curve, series, fold)
        inside = fold.is_inside(fold.index)
        found.append(LeftOut(inside, error / predicted.deviation[0], unlikely))
        report(1)
    return found


def _more_likely_than_truth(curve: Curve, series: Series, fold: Fold) -> float:
    truth = series.concentrations[fold.index]
    if not curve.edges[0] <= truth <= curve.edges[-1]:
        return 1.0
    cell = min(int(np.searchsorted(curve.edges, truth, side="right")), len(curve.edges) - 1) - 1
    found = Law(curve).posteriors(series.signal[[fold.index]])
    return likelier(found.probability[0].numpy(), cell)


def likelier(probability: Float[np.ndarray, "node"], node: int) -> float:
    """Posterior probability of all nodes that are more likely than one of them."""
    density = probability.copy()
    density[[0, -1]] *= 2  # the cells at both ends are half as wide
    return float(probability[density > density[node]].sum())
