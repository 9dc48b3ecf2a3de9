"""Response surface: the scores of a spectrum as a smooth function of all amounts.

Every substance has its charts, the arc lengths of one-dimensional metrics (`posterior.charts`). On
the product of one chart for each, the squared geodesic distance of two compositions is the sum of
those of the substances, and the kernel of a smoother is

    k(c, c') = TREND (1 + u . u') + product over substances j of (1 + exp(-D_j^2 / 2)) / 2

with D_j the distance along substance j over a length, and u the amounts scaled to -1 and 1. The
product has every substance alone, every pair, and so on (anova kernel). Kriging residuals have a
closed form with composition g left out, and with h as well (P = K^-1):

    e_g = (P y)_g / P_gg,    e_g|h = ((P y)_g - P_gh e_h) / (P_gg - P_gh^2 / P_hh)

Samples of one composition are represented by their mean, whose noise is smaller by their number:
for kriging that is the same. The surface averages smoothers with weights by these residuals.
Charts and lengths are tried for one substance at a time, so that there are never many, and for all
substances from the same smoothers, so that their order says nothing.

Sources: O. Dubrule, Math. Geol. 15 (1983) 687 (residuals); N. Durrande, D. Ginsbourger and
O. Roustant, Ann. Fac. Sci. Toulouse 21 (2012) 481 (anova kernels).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from geonode.mixtures.design import Design
from geonode.posterior.charts import FAMILIES, LOG, Scales, arc_lengths, scales, slopes
from geonode.ties import EQUAL

CHARTS = tuple(place for place in range(len(FAMILIES)) if place != LOG)
TREND = 30.0
LENGTHS = (0.4, 0.8, 1.5, 3.0, 6.0, 12.0)
NOISES = (1e-6, 1e-4, 1e-3, 1e-2, 1e-1)
FACTORS = (0.7, 1.0, 1.4)
"""Of all lengths at once, in the last round."""

DISTANCE_POWER = 4.0
"""Weights of smoothers are their squared errors to the power -4."""

MOST_KEPT, MASS = 24, 0.995
"""Number of smoothers kept, and the share of the weights that is enough."""

AT_ONCE = 3_000_000
"""Numbers of a batch of kernels."""

WORST = 1e6
"""Logarithm of the errors of a smoother that must not count."""

IN_CACHE, ON_DEVICE = 150_000, 100_000_000
"""Numbers of a batch of points: on a CPU they stay in its cache, a GPU is filled."""

Points = Float[Tensor, "point substance"]


class Smoother(NamedTuple):
    """One smoother: chart and length of every substance, and noise over the kernel's variance."""

    charts: tuple[int, ...]
    lengths: tuple[float, ...]
    noise: float


@dataclass(frozen=True, eq=False)
class Smoothers:
    """Smoothers of the same samples."""

    ends: Float[Tensor, "substance 3"]
    """Lowest amount, lowest above zero, and highest, by which the charts are scaled."""
    counts: Float[Tensor, "composition"]  # number of samples
    compositions: Float[Tensor, "composition substance"]  # amounts
    charts: Int[Tensor, "smoother substance"]  # places in `FAMILIES`
    lengths: Float[Tensor, "smoother substance"]
    noise: Float[Tensor, "smoother"]

    @classmethod
    def of(cls, design: Design, chosen: Iterable[Smoother]) -> "Smoothers":
        """Smoothers of the samples of a design."""
        amounts = torch.from_numpy(design.amounts)
        above = torch.where(amounts > 0, amounts, torch.inf).amin(0)
        ends = torch.stack([amounts.amin(0), above, amounts.amax(0)], dim=1)
        counts = torch.bincount(torch.from_numpy(design.composition)).double()
        charts, *numbers = zip(*chosen, strict=True)
        lengths, noise = (torch.tensor(each, dtype=torch.float64) for each in numbers)
        means = _means(design, amounts)
        return cls(ends, counts, means, torch.tensor(charts), lengths, noise)

    @cached_property
    def _known(self) -> tuple[Tensor, Tensor]:
        """Compositions on the charts, and scaled to -1 and 1 at their ends."""
        on_charts = self._on_charts(self._positions(self.compositions))
        return on_charts.permute(1, 2, 0).contiguous(), self._scaled(self.compositions).T

    @cached_property
    def _scales(self) -> tuple[Scales, Tensor, Tensor]:
        """Scales of the charts, arc lengths at the lowest amounts, and from there to the others."""
        found = scales(self.ends)
        low, high = arc_lengths(found, self.ends[:, ::2]).split(1, dim=2)
        return found, low, high - low

    def _positions(self, amounts: Tensor) -> Tensor:
        found, low, length = self._scales
        return 2 * (arc_lengths(found, amounts.T) - low) / length - 1

    def _on_charts(
        self, every: Float[Tensor, "substance chart point"]
    ) -> Float[Tensor, "point substance smoother"]:
        """Those of the charts of the smoothers, over lengths."""
        places = torch.arange(len(every), device=every.device)[:, None]
        return every.permute(2, 0, 1)[:, places, self.charts.T] / self.lengths.T

    def _scaled(self, amounts: Tensor) -> Tensor:
        """Amounts scaled to -1 and 1 at their ends."""
        low, _, high = self.ends.T
        return 2 * (amounts - low) / (high - low) - 1

    def own(self, amounts: Points) -> Float[Tensor, "point"]:
        """Kernels of points with themselves."""
        return 1 + TREND * (1 + self._scaled(amounts).square().sum(1))

    def kernels(
        self, amounts: Points, with_slopes: bool = False
    ) -> tuple[
        Float[Tensor, "smoother point composition"],
        Float[Tensor, "point substance smoother composition"] | None,
    ]:
        """Kernels of points and compositions, and their derivatives by the amounts."""
        there, known = self._known
        apart = self._on_charts(self._positions(amounts))[..., None] - there
        one = apart.square().mul_(-0.5).exp_()  # in place: memory takes most of the time
        factors = one.add(1).mul_(0.5)
        product = factors.prod(dim=1)
        trend = TREND * (1 + self._scaled(amounts) @ known)
        found = (product + trend[:, None]).transpose(0, 1)
        if not with_slopes:
            return found, None
        metrics, (low, _, high) = self._metrics(amounts), self.ends.T
        of_trend = TREND * (2 / (high - low))[:, None] * known
        found_slopes = one.div_(factors).mul_(apart).mul_(-0.5 * metrics[..., None])
        return found, found_slopes.mul_(product[:, None]).add_(of_trend[:, None])

    def _metrics(self, amounts: Tensor) -> Float[Tensor, "point substance smoother"]:
        of_charts, _, length = self._scales
        return self._on_charts(2 * slopes(of_charts, amounts.T) / length)

    def own_slopes(self, amounts: Points) -> Float[Tensor, "point substance smoother"]:
        """Derivatives of kernels by both amounts, d2 k(c, c') / dc dc', where they are the same."""
        low, _, high = self.ends.T
        of_trend = TREND * (2 / (high - low)).square()
        return 0.5 * self._metrics(amounts).square() + of_trend[:, None]

    @cached_property
    def roots(self) -> Float[Tensor, "smoother composition composition"]:
        """Q with Q^T Q = P of every smoother, which lose fewer digits than P."""
        kernels, _ = self.kernels(self.compositions)
        lower = torch.linalg.cholesky(kernels + torch.diag_embed(self.noise[:, None] / self.counts))
        return torch.linalg.solve_triangular(
            lower, torch.eye(len(self.counts)).to(lower), upper=False
        )

    def errors(
        self, means: Float[Tensor, "composition score"], within: Float[Tensor, "score"]
    ) -> Float[Tensor, "smoother"]:
        """Logarithm of the squared residuals with compositions left out.

        Args:
            means: scores of the compositions.
            within: squared deviations of the samples from these, summed.
        """
        inverses = self.roots.mT @ self.roots
        residuals = inverses @ means / inverses.diagonal(dim1=1, dim2=2)[..., None]
        counts = self.counts[:, None]
        squares = (counts * residuals**2).sum(1) + within
        floor = 1e-12 * (counts * means**2).sum()
        # In the sum directions count that vary much, in the mean of logarithms all do.
        found = (torch.log(squares.sum(1)) + torch.log(squares + floor).mean(1)) / 2
        # Nothing would show what happens in a gap between amounts wider than a length.
        gaps = self._known[0].sort(2).values.diff(dim=2).amax((0, 2))
        return found.nan_to_num(nan=WORST).masked_fill(gaps > 1 + EQUAL, WORST)


@dataclass(frozen=True, eq=False)
class Surface:
    """Scores over amounts, by an average of smoothers."""

    smoothers: Smoothers
    weights: Float[Tensor, "smoother"]  # their sum is 1
    composition: Int[Tensor, "sample"]
    dual: Float[Tensor, "smoother composition leading"]  # P y, of all scores or the leading ones
    within: Float[Tensor, "sample score"]  # scores less the mean of the composition
    residuals: Float[Tensor, "sample score"]  # with the composition left out
    relative: Float[Tensor, "sample"]  # variance expected of these, over its mean
    sizes: Float[Tensor, "smoother"]  # variance of the process, over the mean square of residuals

    @classmethod
    def of(cls, design: Design, scores: Float[Tensor, "sample score"]) -> "Surface":
        """Surface of samples."""
        which, means = torch.from_numpy(design.composition), _means(design, scores)
        within = scores - means[which]
        chosen, weights = _searched(design, means, within.square().sum(0))
        smoothers = Smoothers.of(design, chosen)
        roots = smoothers.roots
        inverses = roots.mT @ roots
        diagonal, dual = inverses.diagonal(dim1=1, dim2=2), inverses @ means
        left_out = torch.einsum("m,mgr->gr", weights, dual / diagonal[..., None])
        # A sample has the noise of one, its composition that of the mean.
        variances = (1 / diagonal + smoothers.noise[:, None] * (1 - 1 / smoothers.counts))[:, which]
        sizes = 1 / variances.mean(1)
        relative = (weights * sizes) @ variances
        residuals = left_out[which] + within
        return cls(smoothers, weights, which, dual, within, residuals, relative, sizes)

    def residuals_without(self) -> Float[Tensor, "composition sample score"]:
        """Residuals of the samples without a further composition, the first dimension."""
        found = torch.zeros(len(self.smoothers.counts), *self.residuals.shape, dtype=torch.float64)
        for weight, root, dual in zip(self.weights, self.smoothers.roots, self.dual, strict=True):
            inverse = root.T @ root
            own = inverse.diagonal()
            numerator = dual - inverse[:, :, None] * (dual / own[:, None])[:, None]
            denominator = (own - inverse**2 / own[:, None]).fill_diagonal_(1.0)
            found += (weight * numerator / denominator[..., None])[:, self.composition]
        return found + self.within

    def at(
        self, amounts: Points
    ) -> tuple[
        Float[Tensor, "point score"],
        Float[Tensor, "point score substance"],
        Float[Tensor, "point"],
    ]:
        """Scores at amounts, their derivatives, and the relative variance of a sample there."""
        of_one = self.smoothers.lengths.numel() * len(self.smoothers.counts)
        most = max(1, (IN_CACHE if amounts.device.type == "cpu" else ON_DEVICE) // of_one)
        parts = zip(*map(self._at, amounts.split(most)), strict=True)
        scores, derivatives, variance = (torch.cat(part) for part in parts)
        return scores, derivatives, variance

    def _at(self, amounts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        kernels, derived = self.smoothers.kernels(amounts, with_slopes=True)
        assert derived is not None
        weighted = (self.weights[:, None, None] * self.dual).flatten(0, 1)
        scores = kernels.transpose(0, 1).flatten(1) @ weighted
        derivatives = (derived.flatten(2) @ weighted).mT
        explained = (kernels @ self.smoothers.roots.mT).square().sum(-1)
        noise = self.smoothers.noise[:, None]
        variance = (self.smoothers.own(amounts) - explained).clamp(min=0) + noise
        return scores, derivatives, (self.weights * self.sizes) @ variance

    def slope_variances(self, amounts: Points) -> Points:
        """Relative variances of the derivatives of the scores, as that of the scores in `at`."""
        _, derived = self.smoothers.kernels(amounts, with_slopes=True)
        assert derived is not None
        explained = torch.einsum("pdmc,mgc->pdmg", derived, self.smoothers.roots).square().sum(-1)
        variances = (self.smoothers.own_slopes(amounts) - explained).clamp(min=0)
        return variances @ (self.weights * self.sizes)


def _means(design: Design, values: Tensor) -> Float[Tensor, "composition value"]:
    """Mean of the values of the samples of every composition."""
    which = torch.from_numpy(design.composition)
    counts = torch.bincount(which).double()
    total = torch.zeros(len(counts), values.shape[1], dtype=torch.float64)
    return total.index_add(0, which, values) / counts[:, None]


def _searched(
    design: Design, means: Tensor, within: Tensor
) -> tuple[list[Smoother], Float[Tensor, "smoother"]]:
    """The best smoothers that were tried, and their weights."""
    errors: dict[Smoother, float] = {}
    substances, by_name = range(design.amounts.shape[1]), np.argsort(design.names).tolist()
    step = max(1, AT_ONCE // (len(means) ** 2 * len(substances)))

    def attempt(every: Iterable[Smoother]) -> list[Smoother]:
        new = [one for one in dict.fromkeys(every) if one not in errors]
        for start in range(0, len(new), step):
            batch = new[start : start + step]
            found = Smoothers.of(design, batch).errors(means, within)
            errors.update(zip(batch, found.tolist(), strict=True))
        return sorted(errors, key=lambda one: (round(errors[one] / EQUAL), _simple(one, by_name)))

    best = attempt(
        Smoother((chart,) * len(substances), (length,) * len(substances), noise)
        for chart in CHARTS
        for length in LENGTHS[::2]
        for noise in NOISES[::2]
    )
    for _ in substances:
        for field, values in (("charts", CHARTS), ("lengths", LENGTHS)):
            best = attempt(
                one._replace(**{field: (*old[:place], value, *old[place + 1 :])})  # type: ignore[arg-type]
                for one in best[:2]
                for old in [getattr(one, field)]
                for place in substances
                for value in values
            )
    best = attempt(
        Smoother(best[0].charts, tuple(x * factor for x in best[0].lengths), noise)
        for noise in NOISES
        for factor in FACTORS
    )[: 3 * MOST_KEPT]
    logarithms = torch.tensor([errors[one] for one in best], dtype=torch.float64)
    weights = torch.softmax(-DISTANCE_POWER * logarithms, 0)
    kept = min(MOST_KEPT, int((weights.cumsum(0) < MASS).sum()) + 1)
    return best[:kept], weights[:kept] / weights[:kept].sum()


def _simple(one: Smoother, by_name: list[int]) -> tuple[Any, ...]:
    """Key of smoothers that fit equally: simple charts first, whatever the order of substances."""
    each = [(one.charts[at], one.lengths[at]) for at in by_name]
    return sorted(one.charts), sorted(one.lengths), one.noise, each
