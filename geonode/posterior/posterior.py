"""Posterior over metrics of concentration space: the average of all smoothers of the dictionary.

At every target the smoothers are averaged by the learned rule. The prediction stays linear in the
training spectra Y, a Y, and its covariance over wavelengths is Y^T Q Y with

    Q = sum_m w_m ((a_m - a)(a_m - a)^T + v_m P_m / (n - p_m)):

the variance between the smoothers, and that of each. Q is scaled so that its mean over wavelengths
is the squared error expected by the rule. The posterior of the metric itself is that of
sqrt(g) = dx/dc under the weights of the smoothers on each chart. Every chart has length 2 over the
training levels, so that sqrt(g) is per unit of concentration.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from geonode.devices.device import one_thread
from geonode.errors import TrainingError
from geonode.posterior.charts import FAMILIES, sqrt_metrics
from geonode.posterior.evidence import Evidence, FittedSmoothers
from geonode.posterior.prior import Prior

EVEN = 0.2
"""Share of the expected squared error that is equal at all wavelengths.

Where training spectra happen to agree, the covariance alone would vanish.
"""


FEWEST_LEVELS = 3

BLOCK = 8
"""Targets predicted together: a single one takes a third of the time of a block."""

MOST_THREADS = 4
"""Threads that take blocks. Of 16, each waits for the interpreter longer than it computes."""


class PosteriorPrediction(NamedTuple):
    """Predicted spectra as combinations of the training spectra.

    Attributes:
        weights: weights of the training spectra.
        factors: L^T of Q = L L^T; times the training spectra, rows whose outer products add up to
            the covariance over wavelengths.
        even: additional independent variance, equal at all wavelengths.
        sqrt_metric: mean and standard deviation of sqrt(g) (per unit of concentration).
    """

    weights: Float[np.ndarray, "target level"]
    factors: Float[np.ndarray, "target level level"]
    even: Float[np.ndarray, "target"]
    sqrt_metric: Float[np.ndarray, "2 target"]


@dataclass(frozen=True)
class MetricPosterior:
    """Posterior over metrics and smoothers, given the spectra of some levels.

    Attributes:
        levels: concentrations of the levels, ascending.
        wavelengths: number of wavelengths of the spectra.
        largest: largest absolute value of the spectra, by which they are divided.
        prior: the learned rule of weights.
        fitted: fitted smoothers of the dictionary.
    """

    levels: Float[np.ndarray, "level"]
    wavelengths: int
    largest: float
    prior: Prior
    fitted: FittedSmoothers

    @classmethod
    def of(
        cls,
        levels: Float[np.ndarray, "level"],
        spectra: Float[np.ndarray, "level wavelength"],
        prior: Prior,
    ) -> "MetricPosterior":
        """Fit all smoothers.

        Args:
            levels: concentrations, ascending, three or more, none negative.
            spectra: spectra of the levels.
            prior: the learned rule of weights.

        Raises:
            TrainingError: there are fewer than three levels.
        """
        if len(levels) < FEWEST_LEVELS:
            raise TrainingError(
                f"posterior: found levels {', '.join(f'{level:g}' for level in levels)}, expected "
                "three or more different ones"
            )
        with one_thread():
            largest = max(float(np.abs(spectra).max()), np.finfo(float).tiny)
            scaled = torch.from_numpy(spectra / largest)
            fitted = FittedSmoothers.of(torch.from_numpy(levels)[None], (scaled @ scaled.T)[None])
        return cls(levels, spectra.shape[1], largest, prior, fitted)

    def predict(self, targets: Float[np.ndarray, "target"]) -> PosteriorPrediction:
        """Predict spectra at concentrations, none negative.

        All blocks have one size, the last one filled up, so that a prediction does not depend on
        the other targets by a bit. Some threads take a block at a time each.
        """
        starts = range(0, max(1, len(targets)), BLOCK)
        blocks = [_filled(targets[start : start + BLOCK]) for start in starts]
        cores = min(MOST_THREADS, torch.get_num_threads())
        with ThreadPoolExecutor(cores) as threads, one_thread():
            parts = list(threads.map(self._predict, blocks))
        average, factors, even, metric = zip(*parts, strict=True)
        count = len(targets)
        return PosteriorPrediction(
            np.concatenate(average)[:count],
            np.concatenate(factors)[:count],
            np.concatenate(even)[:count],
            np.concatenate(metric, axis=1)[:, :count],
        )

    @torch.no_grad()
    def _predict(self, targets: np.ndarray) -> tuple[np.ndarray, ...]:
        found = self.fitted.evidence(torch.tensor(targets)[None])
        weights, expected = self.prior.rule(found)
        # Squared errors are sums over wavelengths of spectra divided by their largest value.
        expected = expected / self.wavelengths
        average, covariance = self._moments(found, weights)
        mean_square = (covariance * self.fitted.gram).sum((1, 2)) / self.wavelengths
        smallest = torch.finfo(mean_square.dtype).tiny
        covariance = (
            covariance * ((1 - EVEN) * expected / mean_square.clamp(min=smallest))[:, None, None]
        )
        # Far beyond all levels numbers overflow; the result is NaN then.
        finite = torch.isfinite(covariance).all(-1).all(-1)[:, None, None]
        values, vectors = torch.linalg.eigh(torch.where(finite, covariance, 0))
        factors = values.clamp(min=0).sqrt()[:, :, None] * vectors.transpose(1, 2)
        factors = torch.where(finite, factors, torch.nan)
        even = EVEN * expected * self.largest**2
        metric = self._sqrt_metric(weights.numpy(), targets)
        return average.numpy(), factors.numpy(), even.numpy(), metric

    def _sqrt_metric(self, weights: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Mean and standard deviation of sqrt(g) under the weights of the smoothers."""
        chart = self.fitted.description.chart.numpy()
        by_chart = np.stack(
            [weights[:, chart == place].sum(axis=1) for place in range(len(FAMILIES))], axis=1
        )
        levels, places = (torch.from_numpy(part)[None] for part in (self.levels, targets))
        values = np.nan_to_num(sqrt_metrics(levels, places)[0].numpy().T)
        mean = (by_chart * values).sum(axis=1)
        variance = (by_chart * (values - mean[:, None]) ** 2).sum(axis=1)
        return np.stack([mean, np.sqrt(variance)])

    def _moments(self, found: Evidence, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Average weights of the training spectra, and Q before scaling."""
        average = (weights[..., None] * found.weights).sum(1)
        apart = found.weights - average[:, None]
        between = torch.einsum("tm,tml,tmk->tlk", weights, apart, apart)
        # The variance of a smoother's process is its scale; `within` is that times v.
        smoothers = self.fitted.smoothers.projection[0]
        freedom = len(self.levels) - self.fitted.description.coefficients
        size = self.fitted.scale[0].clamp(min=1e-300)
        share = weights * found.within / size / freedom
        return average, between + torch.einsum("tm,mlk->tlk", share, smoothers)


def _filled(block: np.ndarray) -> np.ndarray:
    """Targets of a block, filled up to `BLOCK` with the last one."""
    return np.concatenate([block, np.repeat(block[-1:], BLOCK - len(block))])
