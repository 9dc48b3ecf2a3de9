"""Concentrations whose measurement should make the predictions surer.

The next level is the middle of two neighbouring levels where the posterior over metrics expects the
largest error. Source of this maximum variance design: D. J. C. MacKay, Information-based objective
functions for active data selection, Neural Computation 4 (1992) 590. The gain is estimated by
adding the predicted spectrum there as if it had been measured.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from geonode.posterior.metric_posterior import MetricPosterior
from geonode.posterior.prior import packaged_prior
from geonode.progress import Progress, silent
from geonode.spectra.chart import proposes_log
from geonode.spectra.series import require_levels, require_response
from geonode.ties import first_largest

GRID = 64
"""Concentrations from the lowest level to the highest, by which the gain is measured."""

Scale = tuple[Callable[..., np.ndarray], Callable[..., np.ndarray]]
"""Function to the scale on which levels are spaced, and its inverse."""


class Proposal(NamedTuple):
    """A concentration to measure next, or a mixture."""

    amounts: list[float]  # of every substance; the concentration if there is one
    expected_error: float  # root mean square over wavelengths, signal units, expected there now
    before: float
    after: float
    """Root mean square of the expected error over the range, without this measurement and with
    it."""

    @property
    def gain(self) -> float:
        """Share of the expected error over the range that the measurement takes away, or none."""
        return max(0.0, 1 - self.after / self.before) if self.before else 0.0


def propose(
    levels: Float[np.ndarray, "level"],
    spectra: Float[np.ndarray, "level wavelength"],
    count: int,
    report: Progress = silent,
) -> list[Proposal]:
    """Propose the next concentrations to measure, each as if the ones before had been measured.

    Middles are arithmetic, over decades geometric. Levels are concentrations, ascending, three or
    more, none negative; `report` is called after every proposal.

    Raises:
        TrainingError: as `MetricPosterior.of` and `require_response`.
    """
    require_levels(levels)
    require_response(spectra)
    scale: Scale = (np.log, np.exp) if proposes_log(levels) else (np.asarray, np.asarray)
    to, back = scale
    grid = back(np.linspace(to(levels[0]), to(levels[-1]), GRID))
    found: list[Proposal] = []
    for measured in range(count + 1):
        middles = back((to(levels[1:]) + to(levels[:-1])) / 2)
        predicted, errors = expected_errors(levels, spectra, np.append(grid, middles))
        over_range = float(np.sqrt(np.mean(errors[:GRID] ** 2)))
        if measured:
            found[-1] = found[-1]._replace(after=over_range)
            report(1)
        gap = int(first_largest(errors[GRID:]))
        found.append(Proposal([float(middles[gap])], float(errors[GRID + gap]), over_range, 0.0))
        levels = np.insert(levels, gap + 1, middles[gap])
        spectra = np.insert(spectra, gap + 1, predicted[GRID + gap], axis=0)
    return found[:count]


def expected_errors(
    levels: Float[np.ndarray, "level"],
    spectra: Float[np.ndarray, "level wavelength"],
    targets: Float[np.ndarray, "target"],
) -> tuple[Float[np.ndarray, "target wavelength"], Float[np.ndarray, "target"]]:
    """Predicted spectra, and the root mean square over wavelengths of their expected errors."""
    posterior = MetricPosterior.of(levels[None], spectra[None], packaged_prior())
    (weights,), (factors,), (even,), _ = posterior.predict(targets[None])
    errors = np.sqrt(((factors @ spectra) ** 2).sum(1).mean(1) + even)
    return weights @ spectra, errors
