"""Evidence for every smoother at every target, from which its weight is computed.

It is computed from the Gram matrix of the training spectra and the closed forms of the smoothers.
Errors are relative to the variance of the training spectra about their mean, and so without units.
The left-out spectrum of a fold takes no part; only its concentration is known.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from geonode.posterior.charts import Positions, positions
from geonode.posterior.smoothers import ON_A_CHART, Description, Smoothers, dictionary

FEATURES, CONTEXT = 14, 16
POWER = 4
"""Initial weight of a smoother: its leave-one-out error to the power of -4."""

SMALLEST = 1e-12
"""Smallest squared error, relative to the variance of the spectra."""

PRODUCTS = 2**17
"""Numbers of products that stay in the cache of a processor."""

NEAR = 0.7
"""Width of the window of levels around a target: standard deviation in ranks."""


class Evidence(NamedTuple):
    """Evidence of some rows, one per fold and target.

    Attributes:
        features: evidence for every smoother.
        context: evidence common to all smoothers of the row.
        initial: logarithms of the initial weights; -inf where not valid.
        weights: weights of the training spectra in the prediction of every smoother.
        within: variance of the prediction of every smoother, relative to `total`.
        total: variance of the training spectra about their mean (signal squared, summed over
            wavelengths).
        expected: mean squared leave-one-out error under the initial weights, relative to `total`.
    """

    features: Float[Tensor, "row smoother feature"]
    context: Float[Tensor, "row number"]
    initial: Float[Tensor, "row smoother"]
    weights: Float[Tensor, "row smoother level"]
    within: Float[Tensor, "row smoother"]
    total: Float[Tensor, "row"]
    expected: Float[Tensor, "row"]

    @property
    def valid(self) -> Bool[Tensor, "row smoother"]:
        """Whether the target is in the domain of the chart of a smoother."""
        return torch.isfinite(self.initial)


@dataclass(frozen=True)
class FittedSmoothers:
    """Smoothers fitted to the training spectra of some folds.

    Attributes:
        smoothers: smoothers in closed form.
        gram: inner products of the training spectra.
        description: description of the dictionary.
    """

    smoothers: Smoothers
    gram: Float[Tensor, "fold level level"]
    description: Description

    @classmethod
    def of(
        cls, levels: Float[Tensor, "fold level"], gram: Float[Tensor, "fold level level"]
    ) -> "FittedSmoothers":
        """Fit every smoother to the training spectra of every fold.

        Args:
            levels: concentrations, ascending, none negative, not all zero.
            gram: inner products of the spectra.
        """
        return cls(
            Smoothers.of(levels), gram, Description(*(p.to(gram.device) for p in dictionary()))
        )

    @cached_property
    def total(self) -> Float[Tensor, "fold"]:
        """Variance of the training spectra about their mean, at least that of rounding."""
        count = self.gram.shape[-1]
        squares = torch.diagonal(self.gram, dim1=1, dim2=2)
        variance = (squares.mean(1) - self.gram.mean((1, 2))) * count / (count - 1)
        return variance.maximum(1e-14 * squares.amax(1)).clamp(min=1e-300)

    @cached_property
    def errors(self) -> Float[Tensor, "fold smoother level"]:
        """Squared leave-one-out errors of all levels, relative to `total`."""
        squares, _ = self._products
        return (squares / self._diagonal**2 / self.total[:, None, None]).clamp(min=SMALLEST)

    @cached_property
    def scale(self) -> Float[Tensor, "fold smoother"]:
        """Variance of the process, tr(P Y Y^T) / (n - p), relative to `total`."""
        _, trace = self._products
        return trace.clamp(min=0) / self._freedom / self.total[:, None]

    @cached_property
    def likelihood(self) -> Float[Tensor, "fold smoother"]:
        """Log restricted likelihood per level, relative to the largest."""
        found = self._freedom * _ln(self.scale) + self.smoothers.log_determinant
        found = -0.5 * found / self.gram.shape[-1]
        return found - found.amax(1, keepdim=True)

    @cached_property
    def _products(self) -> tuple[Tensor, Tensor]:
        """Diagonals of P G P and traces of P G, a few smoothers at a time.

        Of many levels, memory for all products at once would take longer than the arithmetic.
        """
        size = max(1, PRODUCTS // self.gram.numel())
        squares, traces = [], []
        for projection in self.smoothers.projection.split(size, dim=1):
            product = projection @ self.gram[:, None]
            squares.append((product * projection).sum(-1))
            traces.append(torch.diagonal(product, dim1=-2, dim2=-1).sum(-1))
        return torch.cat(squares, dim=1), torch.cat(traces, dim=1)

    @cached_property
    def _coordinates(self) -> Float[Tensor, "fold level level"]:
        """Training spectra on orthogonal axes, F of the Gram matrix F F^T.

        Norms of combinations of rows of F lose fewer digits than quadratic forms of the Gram
        matrix, where spectra cancel each other.
        """
        values, vectors = torch.linalg.eigh(self.gram)
        return vectors * values.clamp(min=0).sqrt()[:, None]

    @cached_property
    def _diagonal(self) -> Tensor:
        """P_ii, at least what rounding makes of zero: where a mean function explains a level."""
        found = torch.diagonal(self.smoothers.projection, dim1=-2, dim2=-1)
        return found.maximum(torch.finfo(found.dtype).eps * found.amax(-1, keepdim=True))

    @cached_property
    def _freedom(self) -> Tensor:
        return self.gram.shape[-1] - self.description.coefficients

    @cached_property
    def _log_error(self) -> Tensor:
        """Logarithm of the mean squared leave-one-out error of every smoother."""
        return _ln(self.errors.mean(-1))

    def left_out_residuals(
        self,
    ) -> tuple[Float[Tensor, "fold level level"], Float[Tensor, "fold level"]]:
        """Residual of every training level, predicted from the others by the initial average.

        A smoother m leaves r_i = (P Y)_i / P_ii of level i and expects the variance s^2 / P_ii,
        with s^2 its scale. The average with weights w_m leaves sum_m w_m r_mi, and expects the
        variance between the smoothers and that of each. Charts and weights are those of all levels.

        Source: G. Wahba, Spline Models for Observational Data, SIAM 1990, section 4.2 (the
        leave-one-out residual without a refit).

        Returns:
            Weights of the training spectra in the residual of every level, and its expected squared
            norm, relative to `total`.
        """
        levels = self.smoothers.levels
        valid = positions(levels, levels[:, -1:]).valid[:, self.description.chart, 0]
        share = torch.softmax((-POWER * self._log_error).masked_fill(~valid, -torch.inf), dim=-1)
        combined = share[..., None] / self._diagonal
        weights = torch.einsum("fml,fmlk->flk", combined, self.smoothers.projection)
        each = self.errors + self.scale[..., None] / self._diagonal
        together = _square(weights @ self._coordinates) / self.total[:, None]
        square = (share[..., None] * each).sum(1) - together
        return weights, square.clamp(min=SMALLEST)

    def evidence(self, targets: Float[Tensor, "fold target"]) -> Evidence:
        """Evidence for all smoothers at all targets, one row per fold and target."""
        found = self.smoothers.at(targets)
        weights, valid, log_error = found.weights, found.valid, self._log_error[:, None]
        initial = (-POWER * log_error).masked_fill(~valid, -torch.inf)
        share = torch.softmax(initial, dim=-1)
        within = self.scale[:, None] * found.variance
        predicted = weights @ self._coordinates[:, None]
        average = share[:, :, None] @ predicted
        mean = self._coordinates.mean(1)[:, None, None].expand_as(average)
        total = self.total[:, None, None]
        apart, from_mean = (
            _distances(predicted, torch.cat([average, mean], dim=2)).square() / total[..., None]
        ).unbind(-1)
        best = torch.where(valid, log_error, torch.inf).amin(-1)
        least, errors = best[..., None], self.errors
        nearby, distance, beyond = self._nearness(found.positions)
        columns = [
            log_error - least,
            _ln(errors).mean(-1)[:, None] - least,
            _ln(nearby) - least,
            self.likelihood.clamp(min=-20)[:, None],
            _ln(within) - least,
            _ln(found.variance, 1e-8),
            _ln(apart) - least,
            _ln(from_mean, 1e-8),
            _ln(errors[..., 0])[:, None] - least,
            _ln(errors[..., -1])[:, None] - least,
            distance,
            beyond,
            _ln(self.scale)[:, None] - least,
            _ln((1 / self._diagonal).mean(-1), 1e-8)[:, None],
        ]
        context = self._context(
            targets,
            best,
            (_square(average) / total)[..., 0],
            (apart * share).sum(-1),
            torch.where(valid, share * _ln(within), 0).sum(-1),
        )
        return Evidence(
            torch.stack([column.expand_as(within) for column in columns], dim=-1).flatten(0, 1),
            context.flatten(0, 1),
            initial.flatten(0, 1),
            weights.flatten(0, 1),
            within.flatten(0, 1),
            self.total[:, None].expand_as(targets).flatten(),
            (share * errors.mean(-1)[:, None]).sum(-1).flatten(),
        )

    def _nearness(self, places: Positions) -> tuple[Tensor, Tensor, Tensor]:
        """Errors of near levels, distance to the nearest in lengths, distance beyond."""
        levels, targets = places.levels, places.targets  # (fold, chart, level), (.., target)
        count = levels.shape[-1]
        after = (levels[..., None, :] < targets[..., None]).sum(-1).clamp(1, count - 1)
        low, high = (levels.gather(-1, place) for place in (after - 1, after))
        step = (high - low).clamp(min=torch.finfo(low.dtype).tiny)  # rounding joins far levels
        rank = after - 1 + ((targets - low) / step).clamp(-0.5, 1.5)
        ranks = torch.arange(count, device=levels.device, dtype=levels.dtype)
        near = torch.softmax(-(((ranks - rank[..., None]) / NEAR) ** 2) / 2, dim=-1)
        # Smoothers on one chart are neighbours in the dictionary.
        errors = self.errors.unflatten(1, (-1, ON_A_CHART)).transpose(-1, -2)
        nearby = near[:, self.description.chart[::ON_A_CHART]] @ errors
        nearest = (levels[..., None, :] - targets[..., None]).abs().amin(-1)
        beyond = (targets.abs() - 1).clamp(min=0)
        chart = self.description.chart
        length = self.description.length.to(levels.dtype)
        return (
            nearby.transpose(1, 2).flatten(2),
            torch.log1p(nearest[:, chart] / length[:, None]).transpose(1, 2),
            torch.log1p(beyond[:, chart]).transpose(1, 2),
        )

    def _context(
        self,
        targets: Tensor,
        best: Tensor,
        square: Tensor,
        disagreement: Tensor,
        log_within: Tensor,
    ) -> Float[Tensor, "fold target number"]:
        levels, count = self.smoothers.levels, self.gram.shape[-1]
        low, high = levels[:, :1], levels[:, -1:]
        lowest = torch.where(levels > 0, levels, torch.inf).amin(1, keepdim=True)
        centred = self.gram - self.gram.mean(1, keepdim=True) - self.gram.mean(2, keepdim=True)
        centred = centred + self.gram.mean((1, 2), keepdim=True)
        values = torch.linalg.eigvalsh(centred).flip(-1).clamp(min=0)
        # They distinguish a signal that only grows from one whose shape changes.
        second, third = _ln(values[:, 1:3] / values[:, :1].clamp(min=1e-300), 1e-10).T[..., None]
        mean = self.gram.mean((1, 2)).clamp(min=1e-300)
        positive = targets.maximum(1e-12 * high)
        numbers = [
            torch.full_like(targets, count / 10),
            torch.full_like(targets, 1 / count),
            ((targets > low) & (targets < high)).to(targets.dtype),
            (targets <= low).to(targets.dtype),
            torch.log(high / lowest) / 5,
            (low <= 0).to(targets.dtype),
            best / 4,
            _ln(square, 1e-8) / 4,
            second / 4,
            third / 4,
            (_ln(self.total / mean, 1e-10).clamp(max=20) / 4)[:, None],
            ((targets - low) / (high - low)).clamp(-3, 3),
            torch.log(positive / lowest).clamp(-10, 20) / 4,
            (targets <= 0).to(targets.dtype),
            torch.log1p(disagreement).clamp(max=10),
            (log_within - best) / 4,
        ]
        return torch.stack([number.expand_as(targets) for number in numbers], dim=-1)


def _distances(rows: Tensor, others: Tensor) -> Tensor:
    """Distances between rows and a few others, by their differences."""
    return torch.cdist(rows, others, compute_mode="donot_use_mm_for_euclid_dist")


def _square(rows: Tensor) -> Tensor:
    """Squared norms of rows."""
    return torch.linalg.vector_norm(rows, dim=-1).square()


def _ln(values: Tensor, smallest: float = SMALLEST) -> Tensor:
    return torch.log(values.clamp(min=smallest))
