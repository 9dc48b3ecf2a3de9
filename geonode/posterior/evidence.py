"""Evidence for every smoother at every target, from which its weight is computed.

It follows from the training spectra and the closed forms of the smoothers. Errors are relative to
the variance of the training spectra about their mean, and so have no unit. The left-out spectrum of
a fold takes no part; only its concentration is known.

Spectra enter as coordinates on orthogonal axes, their deviations apart from their mean: a pedestal
100,000 times as high as the spectra differ would otherwise leave no digit of their differences in
the sums of squares. A mean function with a constant term does not see the mean spectrum at all.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from geonode.posterior.charts import Positions, positions
from geonode.posterior.smoothers import (
    FUNCTIONS,
    ON_A_CHART,
    PARTS,
    ChartSmoothers,
    Description,
    dictionary,
)

CANDIDATE_FEATURES, CONTEXT = 14, 16
INITIAL_POWER = 4
"""Initial weight of a smoother: its leave-one-out error to the power of -4."""

LEAST_ERROR = 1e-12
"""Smallest squared error, relative to the variance of the spectra."""

LEAST_VARIANCE = 1e-30
"""Smallest variance of spectra, relative to their squares: what rounding makes of equal ones."""

PRODUCTS = 2**18
"""Numbers of products that stay in the cache of a processor."""

FREE = 2
"""Place in `FUNCTIONS` of the mean function without a constant term, and of its only function."""

NEAR = 0.7
"""Width of the window of levels around a target: standard deviation in ranks."""


class Evidence(NamedTuple):
    """Evidence of some rows, one per fold and target."""

    features: Float[Tensor, "row feature smoother"]  # evidence for every smoother
    context: Float[Tensor, "row number"]  # evidence common to all smoothers of the row
    initial: Float[Tensor, "row smoother"]
    """Logarithms of the initial weights; -inf where not valid."""
    weights: Float[Tensor, "row level smoother"]
    """Weights of the training spectra in the prediction of every smoother."""
    within: Float[Tensor, "row smoother"]
    """Variance of the prediction of every smoother, relative to `total`."""
    total: Float[Tensor, "row"]
    """Variance of the training spectra about their mean (signal squared, summed over
    wavelengths)."""
    expected: Float[Tensor, "row"]
    """Mean squared leave-one-out error under the initial weights, relative to `total`."""

    @property
    def valid(self) -> Bool[Tensor, "row smoother"]:
        """True where a target is in the domain of the chart of a smoother."""
        return torch.isfinite(self.initial)


@dataclass(frozen=True)
class FittedSmoothers:
    """Smoothers fitted to the training spectra of some folds."""

    smoothers: ChartSmoothers  # smoothers in closed form
    deviations: Float[Tensor, "fold level axis"]
    """The training spectra less their mean, as coordinates on orthogonal axes."""
    mean: Float[Tensor, "fold 1 axis"]  # their mean on the same axes
    description: Description  # description of the dictionary

    @classmethod
    def of(
        cls, levels: Float[Tensor, "fold level"], spectra: Float[Tensor, "fold level wavelength"]
    ) -> "FittedSmoothers":
        """Fit every smoother to the training spectra of every fold.

        Levels are concentrations, ascending, none negative, not all zero; spectra are on any
        device.
        """
        mean = spectra.mean(1, keepdim=True)
        rows = torch.cat([spectra - mean, mean], dim=1)
        _, upper = torch.linalg.qr(rows.mT, mode="r")  # rows = (Q R)^T: R^T keeps all products
        coordinates = upper.mT.to(levels.device).contiguous()
        description = Description(*(part.to(levels.device) for part in dictionary()))
        return cls(ChartSmoothers.of(levels), coordinates[:, :-1], coordinates[:, -1:], description)

    @cached_property
    def spectra(self) -> Float[Tensor, "fold level axis"]:
        """The training spectra as coordinates."""
        return self.deviations + self.mean

    @cached_property
    def total(self) -> Float[Tensor, "fold"]:
        """Variance of the training spectra about their mean, at least that of rounding."""
        variance = self.deviations.square().sum((1, 2)) / (self.deviations.shape[1] - 1)
        return variance.maximum(LEAST_VARIANCE * _square(self.spectra).amax(1)).clamp(min=1e-300)

    @cached_property
    def errors(self) -> Float[Tensor, "fold level smoother"]:
        """Squared leave-one-out errors of all levels, relative to `total`."""
        squares, _ = self._products
        found = squares / self.smoothers.diagonal.square() / self.total[:, None, None]
        return found.clamp(min=LEAST_ERROR)

    @cached_property
    def scale(self) -> Float[Tensor, "fold smoother"]:
        """Variance of the process, tr(P Y Y^T) / (n - p), relative to `total`."""
        _, trace = self._products
        return trace.clamp(min=0) / self._freedom / self.total[:, None]

    @cached_property
    def likelihood(self) -> Float[Tensor, "fold smoother"]:
        """Log restricted likelihood per level, relative to the largest."""
        found = self._freedom * _ln(self.scale) + self.smoothers.log_determinant
        found = -0.5 * found / self.deviations.shape[1]
        return found - found.amax(1, keepdim=True)

    @cached_property
    def _products(self) -> tuple[Tensor, Tensor]:
        """Squared norms of the rows of P Y and traces of Y^T P Y, a few axes at a time."""
        inverse, along = self.smoothers.inverse, self.smoothers.along
        # P 1, which is zero if there is a constant term.
        of_ones = inverse.sum(2) - along[:, FREE] * along[:, FREE].sum(1, keepdim=True)
        size = max(1, PRODUCTS // inverse[..., 0, :].numel())
        zero = inverse.new_zeros(())
        squares, traces = ([zero] * len(FUNCTIONS) for _ in range(2))
        axes = self.deviations.split(size, -1), self.mean.split(size, -1)
        for rows, mean in zip(*axes, strict=True):
            of_kernels = rows.mT[:, None] @ inverse  # (fold, level, axis, kernel)
            of_functions = rows.mT[:, None] @ along
            for place, (functions, kernels) in enumerate(zip(FUNCTIONS, PARTS, strict=True)):
                product, others = of_kernels, rows
                for one in functions:
                    product = product - along[:, one, :, None] * of_functions[:, one, None]
                if functions == (FREE,):
                    product, others = product + of_ones[:, :, None] * mean[..., None], rows + mean
                product = product[..., -kernels:]
                squares[place] = squares[place] + product.square().sum(2)
                trace = others.flatten(1)[:, None] @ product.flatten(1, 2)
                traces[place] = traces[place] + trace[:, 0]
        return torch.cat(squares, -1), torch.cat(traces, -1)

    @cached_property
    def _freedom(self) -> Tensor:
        return self.deviations.shape[1] - self.description.coefficients

    @cached_property
    def _log_error(self) -> Tensor:
        """Logarithm of the mean squared leave-one-out error of every smoother."""
        return _ln(self.errors.mean(1))

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
        share = torch.softmax(
            (-INITIAL_POWER * self._log_error).masked_fill(~valid, -torch.inf), dim=-1
        )
        diagonal, share = self.smoothers.diagonal, share[:, None]
        weights = self.smoothers.summed_by_level(share / diagonal)
        each = self.errors + self.scale[:, None] / diagonal
        together = _square(weights @ self.spectra) / self.total[:, None]
        square = (share * each).sum(-1) - together
        return weights, square.clamp(min=LEAST_ERROR)

    def evidence(self, targets: Float[Tensor, "fold target"]) -> Evidence:
        """Evidence for all smoothers at all targets, one row per fold and target."""
        found = self.smoothers.at(targets)
        weights, valid, log_error = found.weights, found.valid, self._log_error[:, None]
        initial = (-INITIAL_POWER * log_error).masked_fill(~valid, -torch.inf)
        share = torch.softmax(initial, dim=-1)
        within = self.scale[:, None] * found.variance
        # (fold, target, axis, smoother), from the mean spectrum
        predicted = self.spectra.mT[:, None] @ weights - self.mean.mT[:, None]
        average = predicted @ share[..., None]
        total = self.total[:, None, None]
        # by differences: products of the norms would lose small distances
        apart = (predicted - average).square().sum(2) / total
        from_mean = predicted.square().sum(2) / total
        best = torch.where(valid, log_error, torch.inf).amin(-1)
        least, errors = best[..., None], self.errors
        nearby, distance, beyond = self._nearness(found.positions)
        columns = [
            log_error - least,
            _ln(errors).mean(1)[:, None] - least,
            _ln(nearby) - least,
            self.likelihood.clamp(min=-20)[:, None],
            _ln(within) - least,
            _ln(found.variance, 1e-8),
            _ln(apart) - least,
            _ln(from_mean, 1e-8),
            _ln(errors[:, 0])[:, None] - least,
            _ln(errors[:, -1])[:, None] - least,
            distance,
            beyond,
            _ln(self.scale)[:, None] - least,
            _ln((1 / self.smoothers.diagonal).mean(1), 1e-8)[:, None],
        ]
        context = self._context(
            targets,
            best,
            _square(average[..., 0] + self.mean) / total[..., 0],
            (apart * share).sum(-1),
            torch.where(valid, share * _ln(within), 0).sum(-1),
        )
        return Evidence(
            torch.stack([column.expand_as(within) for column in columns], dim=2).flatten(0, 1),
            context.flatten(0, 1),
            initial.flatten(0, 1),
            weights.flatten(0, 1),
            within.flatten(0, 1),
            self.total[:, None].expand_as(targets).flatten(),
            (share * errors.mean(1)[:, None]).sum(-1).flatten(),
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
        chart = self.description.chart
        errors = self.errors.unflatten(-1, (-1, ON_A_CHART)).transpose(1, 2)
        nearby = near[:, chart[::ON_A_CHART]] @ errors
        nearest = (levels[..., None, :] - targets[..., None]).abs().amin(-1).mT
        beyond = (targets.abs() - 1).clamp(min=0).mT
        return (
            nearby.transpose(1, 2).flatten(2),
            torch.log1p(nearest[..., chart] / self.description.length.to(levels.dtype)),
            torch.log1p(beyond)[..., chart],
        )

    def _context(
        self,
        targets: Tensor,
        best: Tensor,
        square: Tensor,
        disagreement: Tensor,
        log_within: Tensor,
    ) -> Float[Tensor, "fold target number"]:
        levels, count = self.smoothers.levels, self.deviations.shape[1]
        low, high = levels[:, :1], levels[:, -1:]
        lowest = torch.where(levels > 0, levels, torch.inf).amin(1, keepdim=True)
        products = self.deviations @ self.deviations.mT
        values = torch.linalg.eigvalsh(products).flip(-1).clamp(min=0)
        # They distinguish a signal that only grows from one whose shape changes.
        second, third = _ln(values[:, 1:3] / values[:, :1].clamp(min=1e-300), 1e-10).T[..., None]
        mean = _square(self.mean)[:, 0].clamp(min=1e-300)
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


def _square(rows: Tensor) -> Tensor:
    """Squared norms of rows."""
    return torch.linalg.vector_norm(rows, dim=-1).square()


def _ln(values: Tensor, smallest: float = LEAST_ERROR) -> Tensor:
    return torch.log(values.clamp(min=smallest))
