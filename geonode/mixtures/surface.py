"""Response surface: the scores of a spectrum as a smooth function of all amounts.

Every substance has its charts, the arc lengths of one-dimensional metrics (`posterior.charts`). On
the product of one chart for each, the squared geodesic distance of two compositions is the sum of
those of the substances, and the kernel of a smoother is

    k(c, c') = product over substances j of  s + (1 - s) exp(-(x_j(c_j) - x_j(c'_j))^2 / (2 l_j^2))

with s = 0 (full: substances act together) or s = 1/2 (anova: alone, in pairs, in threes, ...). The
mean is a constant, or linear in the amounts. A smoother is kriging with this covariance and noise,
and its residuals with a composition left out have a closed form,

    e_g = (P y)_g / P_gg,    e_g without h as well = ((P y)_g - P_gh e_h) / (P_gg - P_gh^2 / P_hh)

where P = K^-1 - K^-1 H (H^T K^-1 H)^-1 H^T K^-1 with the mean functions H. Samples of one composition
are represented by their mean, whose noise is smaller by their number: for kriging that is the same.
The surface averages smoothers with weights by these residuals. The charts, lengths and noises that
are tried grow with the number of substances, not as a power of it: of one substance after another.

Source: O. Dubrule, Math. Geol. 15 (1983) 687 (residuals); N. Durrande, D. Ginsbourger and
O. Roustant, Ann. Fac. Sci. Toulouse 21 (2012) 481 (anova kernels).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geonode.mixtures.design import Design
from geonode.posterior.charts import FAMILIES, LOG, positions, sqrt_metrics

CHARTS = tuple(place for place in range(len(FAMILIES)) if place != LOG)
SHARES = (0.0, 0.5)
LENGTHS = (0.4, 0.8, 1.5, 3.0, 6.0, 12.0)
NOISES = (1e-6, 1e-4, 1e-3, 1e-2, 1e-1)
FACTORS = (0.7, 1.0, 1.4)
"""Of all lengths at once, in the last round."""

POWER = 4.0
"""Weights are the squared errors to the power -4."""

MOST_KEPT = 24
MASS = 0.995
"""Share of the weights that the smoothers kept have."""

AT_ONCE = 3_000_000
"""Numbers of a batch of kernels."""


class Smoother(NamedTuple):
    """One smoother.

    Attributes:
        share: s of the kernel.
        linear: whether the mean is linear in the amounts.
        charts: one of every substance, a place in `FAMILIES`.
        lengths: of the kernel, on the charts.
        noise: variance over that of the kernel.
    """

    share: float
    linear: bool
    charts: tuple[int, ...]
    lengths: tuple[float, ...]
    noise: float


@dataclass(frozen=True, eq=False)
class Smoothers:
    """Smoothers of the same compositions, as tensors with their number as the first dimension."""

    levels: Float[Tensor, "substance sample"]
    compositions: Float[Tensor, "composition substance"]
    counts: Float[Tensor, "composition"]
    share: Float[Tensor, "smoother 1 1 1"]
    linear: Float[Tensor, "smoother"]
    charts: Int[Tensor, "smoother substance"]
    lengths: Float[Tensor, "smoother substance 1"]
    noise: Float[Tensor, "smoother"]

    @classmethod
    def of(cls, design: Design, chosen: Iterable[Smoother]) -> "Smoothers":
        """Tensors of smoothers."""
        amounts = torch.from_numpy(design.amounts)
        which = torch.from_numpy(design.composition)
        counts = torch.bincount(which).double()
        means = torch.zeros(len(counts), amounts.shape[1], dtype=torch.float64)
        means = means.index_add(0, which, amounts) / counts[:, None]
        share, linear, charts, lengths, noise = (
            torch.tensor(part, dtype=torch.int64 if place == 2 else torch.float64)
            for place, part in enumerate(zip(*chosen, strict=True))
        )
        return cls(
            amounts.T.sort(1).values.contiguous(),
            means,
            counts,
            share[:, None, None, None],
            linear,
            charts,
            lengths[:, :, None],
            noise,
        )

    def placed(self, amounts: Float[Tensor, "point substance"]) -> Float[Tensor, "..."]:
        """Positions on the charts over the lengths: (smoother, substance, point)."""
        every = positions(self.levels, amounts.T.contiguous()).targets
        return every[torch.arange(len(every)), self.charts] / self.lengths

    def slopes(self, amounts: Float[Tensor, "point substance"]) -> Float[Tensor, "..."]:
        """Derivatives of `placed` by the amounts."""
        every = sqrt_metrics(self.levels, amounts.T.contiguous())
        return every[torch.arange(len(every)), self.charts] / self.lengths

    def means(
        self, amounts: Float[Tensor, "point substance"]
    ) -> Float[Tensor, "smoother point term"]:
        """Functions of the means: 1, and the amounts scaled to -1 and 1 at their ends, or zero."""
        low, high = self.levels[:, 0], self.levels[:, -1]
        scaled = (2 * (amounts - low) / (high - low) - 1) * self.linear[:, None, None]
        return torch.cat([torch.ones_like(scaled[..., :1]), scaled], dim=2)

    def kernels(
        self, amounts: Float[Tensor, "point substance"], with_slopes: bool = False
    ) -> tuple[Float[Tensor, "smoother point composition"], Float[Tensor, "..."] | None]:
        """Kernels of points and compositions, and their derivatives by the amounts.

        The derivatives are (point, substance, smoother, composition).
        """
        apart = self.placed(amounts)[..., None] - self.placed(self.compositions)[:, :, None]
        one = torch.exp(-(apart**2) / 2)
        factors = self.share + (1 - self.share) * one
        found = factors.prod(dim=1)
        if not with_slopes:
            return found, None
        own = torch.where(self.share > 0, (1 - self.share) * one / factors, 1.0)
        slopes = -found[:, None] * own * apart * self.slopes(amounts)[..., None]
        return found, slopes.permute(2, 1, 0, 3)

    def solved(
        self,
    ) -> tuple[
        Float[Tensor, "smoother composition composition"],
        Float[Tensor, "smoother term term"],
        Float[Tensor, "smoother term composition"],
    ]:
        """P, (H^T K^-1 H)^-1, and the same times H^T K^-1: coefficients of the mean."""
        kernels, _ = self.kernels(self.compositions)
        noise = self.noise[:, None] / self.counts
        inverse = torch.linalg.inv(kernels + torch.diag_embed(noise))
        functions = self.means(self.compositions)
        weighted = inverse @ functions
        left = torch.linalg.pinv(functions.mT @ weighted, hermitian=True)
        return inverse - weighted @ left @ weighted.mT, left, left @ weighted.mT


@dataclass(frozen=True, eq=False)
class Surface:
    """Scores over amounts, by an average of smoothers.

    Attributes:
        smoothers: those kept.
        weights: theirs; they sum to 1.
        composition: of every sample.
        projections, left, crossed: of `Smoothers.solved`.
        within: scores of the samples less the mean of their composition.
        residuals: of the samples, with their composition left out.
        relative: variance expected of them, over its mean.
        sizes: variance of the process of every smoother, over that of all residuals.
        dual, terms: coefficients of kernels and of the means' functions, times the weights.
    """

    smoothers: Smoothers
    weights: Float[Tensor, "smoother"]
    composition: Int[Tensor, "sample"]
    projections: Float[Tensor, "smoother composition composition"]
    left: Float[Tensor, "smoother term term"]
    crossed: Float[Tensor, "smoother term composition"]
    within: Float[Tensor, "sample score"]
    residuals: Float[Tensor, "sample score"]
    relative: Float[Tensor, "sample"]
    sizes: Float[Tensor, "smoother"]
    dual: Float[Tensor, "smoother composition score"]
    terms: Float[Tensor, "term score"]

    @classmethod
    def of(cls, design: Design, scores: Float[Tensor, "sample score"]) -> "Surface":
        """Surface of samples."""
        which = torch.from_numpy(design.composition)
        counts = torch.bincount(which).double()
        means = torch.zeros(len(counts), scores.shape[1], dtype=scores.dtype)
        means = means.index_add(0, which, scores) / counts[:, None]
        within = scores - means[which]
        chosen, weights = _searched(design, means, within.square().sum(0))
        smoothers = Smoothers.of(design, chosen)
        projections, left, crossed = smoothers.solved()
        diagonal = projections.diagonal(dim1=1, dim2=2)
        dual = projections @ means
        residuals = torch.einsum("m,mgr->gr", weights, dual / diagonal[..., None])[which] + within
        # A sample has the noise of one, its composition that of the mean.
        variances = (1 / diagonal + smoothers.noise[:, None] * (1 - 1 / counts))[:, which]
        sizes = 1 / variances.mean(1)
        terms = torch.einsum("m,mtg,gr->tr", weights, crossed, means)
        return cls(
            smoothers,
            weights,
            which,
            projections,
            left,
            crossed,
            within,
            residuals,
            (weights * sizes) @ variances,
            sizes,
            weights[:, None, None] * dual,
            terms,
        )

    def residuals_without(self) -> Float[Tensor, "composition sample score"]:
        """Residuals of the samples without a further composition, the first dimension."""
        found = torch.zeros(len(self.smoothers.counts), *self.residuals.shape, dtype=torch.float64)
        for weight, projection, dual in zip(
            self.weights, self.projections, self.dual / self.weights[:, None, None], strict=True
        ):
            own = projection.diagonal()
            left_out = dual / own[:, None]
            numerator = dual - projection[:, :, None] * left_out[:, None]
            denominator = own - projection**2 / own[:, None]
            denominator.fill_diagonal_(1.0)
            found += (weight * numerator / denominator[..., None])[:, self.composition]
        return found + self.within

    def at(
        self, amounts: Float[Tensor, "point substance"]
    ) -> tuple[
        Float[Tensor, "point score"],
        Float[Tensor, "point score substance"],
        Float[Tensor, "point"],
    ]:
        """Scores at amounts, their derivatives by the amounts, and variances.

        Variances are those of one sample over the mean of the samples left out.
        """
        kernels, slopes = self.smoothers.kernels(amounts, with_slopes=True)
        assert slopes is not None
        functions, flat = self.smoothers.means(amounts), self.dual.flatten(0, 1)
        low, high = self.smoothers.levels[:, 0], self.smoothers.levels[:, -1]
        scaled = 2 * (amounts - low) / (high - low) - 1
        scores = self.terms[0] + scaled @ self.terms[1:]
        scores = scores + kernels.transpose(0, 1).flatten(1) @ flat
        linear = self.terms[1:] * (2 / (high - low))[:, None]
        derivatives = (slopes.flatten(2) @ flat + linear).mT
        variance = (
            1
            + self.smoothers.noise[:, None]
            - ((kernels @ self.projections) * kernels).sum(-1)
            - 2 * ((functions @ self.crossed) * kernels).sum(-1)
            + ((functions @ self.left) * functions).sum(-1)
        )
        variance = torch.maximum(variance, self.smoothers.noise[:, None])
        return scores, derivatives, (self.weights * self.sizes) @ variance


def _searched(
    design: Design, means: Tensor, within: Tensor
) -> tuple[list[Smoother], Float[Tensor, "smoother"]]:
    """The best smoothers that were tried, and their weights."""
    errors: dict[Smoother, float] = {}
    substances = design.amounts.shape[1]

    def attempt(every: Iterable[Smoother]) -> list[Smoother]:
        new = [one for one in dict.fromkeys(every) if one not in errors]
        step = max(1, AT_ONCE // (len(means) ** 2 * substances))
        for start in range(0, len(new), step):
            batch = new[start : start + step]
            errors.update(zip(batch, _errors(design, batch, means, within), strict=True))
        return sorted(errors, key=errors.__getitem__)

    best = attempt(
        Smoother(share, linear, (chart,) * substances, (length,) * substances, noise)
        for share in SHARES
        for linear in (False, True)
        for chart in CHARTS
        for length in LENGTHS[::2]
        for noise in NOISES[::2]
    )
    for place in range(substances):
        best = attempt(
            one._replace(charts=_with(one.charts, place, chart))
            for one in best[:2]
            for chart in CHARTS
        )
        best = attempt(
            one._replace(lengths=_with(one.lengths, place, length))
            for one in best[:2]
            for length in LENGTHS
        )
    best = attempt(
        Smoother(share, linear, best[0].charts, tuple(x * factor for x in best[0].lengths), noise)
        for share in SHARES
        for linear in (False, True)
        for noise in NOISES
        for factor in FACTORS
    )[: 3 * MOST_KEPT]
    logarithms = torch.tensor([errors[one] for one in best], dtype=torch.float64)
    weights = torch.softmax(-POWER * logarithms, 0)
    kept = min(MOST_KEPT, int((weights.cumsum(0) < MASS).sum()) + 1)
    return best[:kept], weights[:kept] / weights[:kept].sum()


def _with(values: tuple, place: int, value: float) -> tuple:
    return (*values[:place], value, *values[place + 1 :])


def _errors(
    design: Design, chosen: list[Smoother], means: Tensor, within: Tensor
) -> list[float]:
    """Logarithm of the squared residuals with compositions left out.

    Mean of that of their sum, in which directions count that vary much, and of the mean logarithm
    over directions, in which all do.
    """
    smoothers = Smoothers.of(design, chosen)
    projections, *_ = smoothers.solved()
    residuals = projections @ means / projections.diagonal(dim1=1, dim2=2)[..., None]
    squares = (smoothers.counts[:, None] * residuals**2).sum(1) + within
    floor = 1e-12 * (smoothers.counts[:, None] * means**2).sum()
    found = (torch.log(squares.sum(1)) + torch.log(squares + floor).mean(1)) / 2
    return torch.nan_to_num(found, nan=torch.inf).tolist()
