"""Posterior over metrics of concentration space: the average of all smoothers of the dictionary.

At every target the smoothers are averaged by the learned rule. The prediction stays linear in the
training spectra Y, a Y, and its covariance over wavelengths is Y^T Q Y with

    Q = sum_m w_m ((a_m - a)(a_m - a)^T + v_m P_m / (n - p_m)):

the variance between the smoothers, and that of each. Q is scaled so that its mean over wavelengths
is the squared error expected by the rule. The posterior of the metric itself is that of
sqrt(g) = dx/dc under the weights of the smoothers on each chart. Every chart has length 2 over the
training levels, so that sqrt(g) is per unit of concentration.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from geonode.compute.profile import profile_of
from geonode.compute.threads import in_threads
from geonode.errors import TrainingError
from geonode.posterior.charts import FAMILIES, sqrt_metrics
from geonode.posterior.evidence import Evidence, FittedSmoothers
from geonode.posterior.prior import Prior

FLAT_SHARE = 0.2
"""Share of the expected squared error that is equal at all wavelengths.

Where training spectra happen to agree, the covariance alone would vanish.
"""


FEWEST_TRAINING_LEVELS = 3

BLOCK = 8
"""Number of targets predicted together, of one fold or several; one alone takes a third as long."""

TARGET_BYTES = 8 * 2**20
"""Memory for a target on a GPU, of up to 20 levels: a few arrays as wide as the networks."""


def targets_at_once(place: torch.device) -> int:
    """Number of targets predicted together: they stay in the cache of a CPU, and fill a GPU."""
    return BLOCK if place.type == "cpu" else 10**6 * profile_of(place).memory_mb // TARGET_BYTES


class PosteriorPrediction(NamedTuple):
    """Predicted spectra of every fold as combinations of its training spectra."""

    weights: Float[np.ndarray, "fold target level"]  # weights of the training spectra
    factors: Float[np.ndarray, "fold target level level"]
    """L^T of Q = L L^T; times the training spectra, rows whose outer products add up to the
    covariance over wavelengths."""
    even: Float[np.ndarray, "fold target"]
    """Additional independent variance, equal at all wavelengths."""
    sqrt_metric: Float[np.ndarray, "fold 2 target"]
    """Mean and standard deviation of sqrt(g) (per unit of concentration)."""


@dataclass(frozen=True)
class MetricPosterior:
    """Posteriors over metrics and smoothers of some folds, given the spectra of some levels."""

    levels: Float[np.ndarray, "fold level"]  # concentrations of the levels, ascending
    wavelengths: int  # number of wavelengths of the spectra
    largest: Float[np.ndarray, "fold"]
    """Largest absolute value of the spectra, by which they are divided."""
    prior: Prior  # the learned rule of weights
    fitted: FittedSmoothers  # fitted smoothers of the dictionary

    @classmethod
    def of(
        cls,
        levels: Float[np.ndarray, "fold level"],
        spectra: Float[np.ndarray, "fold level wavelength"],
        prior: Prior,
    ) -> "MetricPosterior":
        """Fit all smoothers.

        Levels are concentrations, ascending, three or more, none negative. The device of the prior
        computes.

        Raises:
            TrainingError: there are fewer than three levels.
        """
        if levels.shape[1] < FEWEST_TRAINING_LEVELS:
            raise TrainingError(
                f"posterior: found levels {', '.join(f'{level:g}' for level in levels[0])}, "
                "expected three or more different ones"
            )
        # From now on glibc keeps up to twice as much freed memory. If every array came anew from
        # the kernel, page by page, that would take a third of the time.
        torch.empty(2**25 - 2**14, dtype=torch.uint8)
        largest = np.abs(spectra).max(axis=(1, 2)).clip(min=np.finfo(float).tiny)
        scaled = torch.from_numpy(spectra / largest[:, None, None])
        fitted = FittedSmoothers.of(torch.from_numpy(levels).to(prior.rule.place), scaled)
        return cls(levels, spectra.shape[2], largest, prior, fitted)

    def left_out_residuals(
        self,
    ) -> tuple[Float[np.ndarray, "fold level level"], Float[np.ndarray, "fold level"]]:
        """Residuals of the training levels in closed form, each predicted from the others.

        The average is that of the initial weights, without the rule of the prior.

        Returns:
            A row per level, which times the training spectra is the residual of that level; and the
            squared size to expect of it (signal squared, mean over wavelengths).
        """
        weights, square = self.fitted.left_out_residuals()
        size = (self.fitted.total / self.wavelengths)[:, None] * square
        return weights.cpu().numpy(), size.cpu().numpy() * self.largest[:, None] ** 2

    def predict(self, targets: Float[np.ndarray, "fold target"]) -> PosteriorPrediction:
        """Predict spectra at concentrations, none negative.

        On a CPU all blocks have one size, the last one padded, so that a target is rounded the same
        whatever else is asked for. On some processors its place in the block still matters: MKL
        rounds matrices of odd size by where they begin in memory.
        """
        count = targets.shape[1]
        size = max(1, targets_at_once(self.prior.rule.place) // len(targets))
        if self.prior.rule.place.type != "cpu":
            size = max(1, min(size, count))
        starts = range(0, max(1, count), size)
        blocks = [targets[:, start : start + size] for start in starts]
        filling = np.repeat(blocks[-1][:, -1:], size - blocks[-1].shape[1], axis=1)
        blocks[-1] = np.concatenate([blocks[-1], filling], axis=1)
        parts = in_threads(self._predict, blocks)
        average, factors, even, metric = zip(*parts, strict=True)
        return PosteriorPrediction(
            np.concatenate(average, axis=1)[:, :count],
            np.concatenate(factors, axis=1)[:, :count],
            np.concatenate(even, axis=1)[:, :count],
            np.concatenate(metric, axis=2)[:, :, :count],
        )

    @torch.no_grad()
    def _predict(self, targets: np.ndarray) -> tuple[np.ndarray, ...]:
        places = torch.tensor(targets, device=self.prior.rule.place)
        found = self.fitted.evidence(places)
        weights, expected = self.prior.rule(found)
        # Squared errors are sums over wavelengths of spectra divided by their largest value.
        expected = expected.view_as(places) / self.wavelengths
        average, covariance, ones = self._moments(found, weights)
        finite = torch.isfinite(covariance).all(-1).all(-1)[..., None, None]
        factors = _factors(torch.where(finite, covariance, 0), torch.where(finite[..., 0], ones, 0))
        mean_square = (factors @ self.fitted.spectra[:, None]).square().sum((2, 3))
        mean_square = mean_square / self.wavelengths
        # Of exact spectra it is rounding alone, or zero.
        number = torch.finfo(factors.dtype)
        rounding = factors.square().sum((2, 3)) * self.fitted.total[:, None] / self.wavelengths
        size = (
            (1 - FLAT_SHARE) * expected / mean_square.maximum(number.eps * rounding + number.tiny)
        )
        # Far beyond all levels numbers overflow; the result is NaN then.
        factors = torch.where(finite, factors * size.sqrt()[..., None, None], torch.nan)
        metric = self._sqrt_metric(weights, places)
        even = FLAT_SHARE * expected.cpu().numpy() * self.largest[:, None] ** 2
        return *(part.cpu().numpy() for part in (average, factors)), even, metric.cpu().numpy()

    def _sqrt_metric(self, weights: Tensor, targets: Tensor) -> Tensor:
        """Mean and standard deviation of sqrt(g) under the weights of the smoothers."""
        of_chart = torch.nn.functional.one_hot(self.fitted.description.chart, len(FAMILIES))
        by_chart = (weights @ of_chart.to(weights)).view(*targets.shape, -1)
        values = sqrt_metrics(self.fitted.smoothers.levels, targets).mT.nan_to_num()
        mean = (by_chart * values).sum(-1)
        variance = (by_chart * (values - mean[..., None]) ** 2).sum(-1)
        return torch.stack([mean, variance.sqrt()], dim=1)

    def _moments(self, found: Evidence, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Average weights of the training spectra, Q before scaling, and Q 1."""
        # What Q makes of equal spectra, Q 1, comes from the mean functions without a constant term
        # alone. Sums over Q itself would have rounding beside it, which a pedestal multiplies.
        average = found.weights @ weights[..., None]
        apart = (found.weights - average) * weights.sqrt()[:, None]
        between = apart @ apart.mT
        free = ~self.fitted.description.has_constant
        sums = torch.where(free, found.weights.sum(1) - 1, 0) * weights.sqrt()
        ones = (apart @ sums[..., None])[..., 0]
        by_fold = len(self.levels), -1
        share, average, between, ones = (
            part.unflatten(0, by_fold)
            for part in (weights * found.within, average[..., 0], between, ones)
        )
        # The variance of a smoother's process is its scale; `within` is that times v.
        freedom = self.levels.shape[1] - self.fitted.description.coefficients
        share = share / self.fitted.scale.clamp(min=1e-300)[:, None] / freedom
        smoothers = self.fitted.smoothers
        ones = ones + smoothers.summed(share * free).sum(-1)
        return average, between + smoothers.summed(share), ones


def _factors(matrix: Tensor, ones: Tensor) -> Tensor:
    """Rows L^T of Q = L L^T: one along Q 1, the others with sums of zero."""
    # One step of Cholesky's elimination, along 1 in place of an axis, and the eigenvectors of the
    # rest.
    first = ones / ones.sum(-1, keepdim=True).clamp(min=torch.finfo(ones.dtype).tiny).sqrt()
    rest = matrix - first[..., :, None] * first[..., None, :]
    values, vectors = torch.linalg.eigh(rest)
    # The smallest eigenvalue is that of 1 itself, zero.
    rows = (values.clamp(min=0).sqrt()[..., None] * vectors.mT)[..., 1:, :]
    return torch.cat([first[..., None, :], rows - rows.mean(-1, keepdim=True)], dim=-2)
