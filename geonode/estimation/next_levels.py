"""Concentrations whose measurement should make the predictions surer.

The next level is where the posterior over metrics expects the largest error between the ends of the
range (maximum variance design: D. J. C. MacKay, Information-based objective functions for active
data selection, Neural Computation 4 (1992) 590). What it would gain is estimated by adding the
predicted spectrum there as if it had been measured.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from geonode.posterior.posterior import MetricPosterior
from geonode.posterior.prior import Prior, packaged_prior
from geonode.progress import Progress, silent
from geonode.spectra.inspection import proposes_log

CANDIDATES = 64
"""Concentrations that are compared, from the lowest level to the highest."""

SAME = 1e-9
"""Concentrations that differ by less, relative to the highest level, are one level."""

Levels = Float[np.ndarray, "level"]
Spectra = Float[np.ndarray, "level wavelength"]


class Proposal(NamedTuple):
    """A concentration to measure next.

    Attributes:
        concentration: where the largest error is expected.
        expected_error: root mean square over wavelengths, signal units, expected there now.
        before, after: root mean square of the expected error over the range, without this
            measurement and with it.
    """

    concentration: float
    expected_error: float
    before: float
    after: float

    @property
    def gain(self) -> float:
        """Share of the expected error over the range that the measurement takes away."""
        return 1 - self.after / self.before if self.before else 0.0


def propose(
    levels: Levels, spectra: Spectra, count: int, report: Progress = silent
) -> list[Proposal]:
    """Propose the next concentrations to measure, each as if the ones before had been measured.

    Args:
        levels: concentrations, ascending, three or more, none negative.
        spectra: theirs.
        count: how many to propose.
        report: called after every proposal.

    Raises:
        TrainingError: as `MetricPosterior.of`.
    """
    prior, grid = packaged_prior(), _grid(levels)
    found: list[Proposal] = []
    predicted, errors = expected_errors(levels, spectra, grid, prior)
    for _ in range(count):
        known = np.abs(grid[:, None] - levels).min(axis=1) <= SAME * levels[-1]
        best = int(np.argmax(np.where(known, -1.0, errors)))
        at = int(np.searchsorted(levels, grid[best]))
        levels = np.insert(levels, at, grid[best])
        spectra = np.insert(spectra, at, predicted[best], axis=0)
        before, largest = _root_mean_square(errors), float(errors[best])
        predicted, errors = expected_errors(levels, spectra, grid, prior)
        found.append(Proposal(float(grid[best]), largest, before, _root_mean_square(errors)))
        report(1)
    return found


def expected_errors(
    levels: Levels, spectra: Spectra, targets: Float[np.ndarray, "target"], prior: Prior
) -> tuple[Float[np.ndarray, "target wavelength"], Float[np.ndarray, "target"]]:
    """Predicted spectra, and the root mean square over wavelengths of their expected errors."""
    found = MetricPosterior.of(levels, spectra, prior).predict(targets)
    deviations = found.factors @ spectra
    return found.weights @ spectra, np.sqrt((deviations**2).sum(1).mean(1) + found.even)


def _grid(levels: Levels) -> Float[np.ndarray, "candidate"]:
    """Concentrations from the lowest level to the highest, by equal ratios over decades."""
    space: Callable[..., np.ndarray] = np.geomspace if proposes_log(levels) else np.linspace
    return space(levels[0], levels[-1], CANDIDATES)


def _root_mean_square(errors: Float[np.ndarray, "target"]) -> float:
    return float(np.sqrt(np.mean(errors**2)))
