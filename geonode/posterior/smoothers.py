"""Geodesic smoothers: Gaussian processes over the arc length of a chart, in closed form.

A smoother has a chart, a kernel of geodesic distance, a noise and a mean function with basis H. The
mean function is on concentration itself ({c}, {1, c}: Beer and Lambert's law) or on the chart
({1}, {1, x}), independent of the chart of the deviations. With K = kernel + noise I and

    P = K^-1 - K^-1 H (H^T K^-1 H)^-1 H^T K^-1

the prediction at a target is linear in the training spectra, and the leave-one-out residual of
level i is (P Y)_i / P_ii, without a refit. The mean functions share K, and most the constant: with
K^-1 = R^T R and orthonormal columns q that span R H, P = K^-1 - sum_q (R^T q) (R^T q)^T. So no P is
formed. In tensors the smoothers are the last dimension, so that one instruction serves several.

Source: C. E. Rasmussen and C. K. I. Williams, Gaussian Processes for Machine Learning, MIT Press
2006, sections 2.7 and 5.4.2; D. A. Harville, Maximum likelihood approaches to variance component
estimation, J. Am. Stat. Assoc. 72 (1977) 320.
"""

from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geonode.posterior.charts import FAMILIES, Positions, positions

KERNELS = ("squared exponential", "Matern 3/2")
SMOOTHER_LENGTHS = (0.2, 0.5, 1.0, 2.0, 4.0, 10.0)  # chart units; the training levels are 2 long
SMOOTHER_NOISES = (1e-6, 1e-3, 1e-2, 1e-1)  # variance, relative to that of the process
SMOOTHER_MEANS = ("1", "1 x", "c", "1 c")
FUNCTIONS = ((0,), (0, 1), (2,), (0, 3))
"""Of every mean, its functions: the constant, x and c less their means over the levels, and c.

They are ordered 1, x - mean, c, c - mean, so that those of one mean are orthogonal.
"""
ON_A_CHART = len(KERNELS) * len(SMOOTHER_LENGTHS) * len(SMOOTHER_NOISES)
"""Smoothers of one chart and one mean function."""


def _charts_of(mean: int) -> range:
    """Charts combined with a mean function; {1, c} is {1, x} on the linear chart."""
    return range(1 if SMOOTHER_MEANS[mean] == "1 c" else 0, len(FAMILIES))


class Description(NamedTuple):
    """Components of every smoother of the dictionary."""

    chart: Int[Tensor, "smoother"]
    mean: Int[Tensor, "smoother"]
    kernel: Int[Tensor, "smoother"]
    """Indices in `FAMILIES`, `SMOOTHER_MEANS` and `KERNELS`."""
    length: Float[Tensor, "smoother"]
    noise: Float[Tensor, "smoother"]
    """Length scale and noise of the kernel."""

    @property
    def coefficients(self) -> Int[Tensor, "smoother"]:
        """Number of coefficients of every mean function."""
        return torch.tensor([len(terms) for terms in FUNCTIONS], device=self.mean.device)[self.mean]

    @property
    def has_constant(self) -> Bool[Tensor, "smoother"]:
        """True where the mean function has a constant term, so that weights add up to one."""
        return torch.tensor(["1" in terms for terms in SMOOTHER_MEANS], device=self.mean.device)[
            self.mean
        ]

    def numbers(self) -> Float[Tensor, "smoother number"]:
        """Description of every smoother as inputs of a network."""
        chart = torch.nn.functional.one_hot(self.chart, len(FAMILIES))
        mean = torch.nn.functional.one_hot(self.mean, len(SMOOTHER_MEANS))
        others = [self.kernel, self.length.log(), self.noise.log10() / 3 + 1]
        return torch.cat([chart, mean, torch.stack(others, dim=1)], dim=1).float()


@cache
def dictionary() -> Description:
    """All smoothers: mean functions outermost, then charts, kernels, lengths, noises."""
    rows = [
        (chart, mean, kernel, length, noise)
        for mean in range(len(SMOOTHER_MEANS))
        for chart in _charts_of(mean)
        for kernel in range(len(KERNELS))
        for length in SMOOTHER_LENGTHS
        for noise in SMOOTHER_NOISES
    ]
    chart, mean, kernel, length, noise = zip(*rows, strict=True)
    places = (torch.tensor(chart), torch.tensor(mean), torch.tensor(kernel))
    return Description(*places, torch.tensor(length), torch.tensor(noise))


SMOOTHERS = len(dictionary().chart)
PARTS = [len(_charts_of(mean)) * ON_A_CHART for mean in range(len(SMOOTHER_MEANS))]
"""Smoothers of every mean function: with the last of the kernels, on all charts or all but one."""


class AtTargets(NamedTuple):
    """Predictions of all smoothers at some targets."""

    weights: Float[Tensor, "fold target level smoother"]
    """Weights of the training spectra in the prediction."""
    variance: Float[Tensor, "fold target smoother"]
    """Variance of the predicted mean, relative to that of the process."""
    valid: Bool[Tensor, "fold target smoother"]
    """True where the target is in the domain of the chart of a smoother."""
    positions: Positions  # positions of levels and targets on every chart


class _Columns(NamedTuple):
    """Gram and Schmidt's triangle: of every R h its part along R 1, and the norm of the rest."""

    overlap: Float[Tensor, "fold function 1 kernel"]
    norm: Float[Tensor, "fold function 1 kernel"]

    @classmethod
    def of(cls, white: Float[Tensor, "fold function level kernel"]) -> "_Columns":
        """Triangle of all R h."""
        one = white[:, :1]
        one = one / one.square().sum(2, keepdim=True).sqrt()
        centred = torch.tensor([[[0.0]], [[1.0]], [[0.0]], [[1.0]]]).to(white)
        overlap = (one * white).sum(2, keepdim=True) * centred
        return cls(overlap, (white - overlap * one).square().sum(2, keepdim=True).sqrt())

    def orthonormal(
        self, values: Float[Tensor, "fold function any kernel"]
    ) -> Float[Tensor, "fold function any kernel"]:
        """Values linear in all R h, for the orthonormal q instead."""
        one = values[:, :1] / self.norm[:, :1]
        return (values - self.overlap * one) / self.norm


@dataclass(frozen=True)
class ChartSmoothers:
    """Smoothers of the dictionary on the training levels of some folds.

    Kernels, each with its noise and on its chart, are those of the first mean function in order.
    """

    levels: Float[Tensor, "fold level"]  # concentrations, ascending, none negative, not all zero
    inverse: Float[Tensor, "fold level level kernel"]  # K^-1 of every kernel
    along: Float[Tensor, "fold function level kernel"]  # R^T q of every function
    log_determinant: Float[Tensor, "fold smoother"]
    """ln |K| + ln |H^T K^-1 H|, with an orthonormal basis H."""
    _root: Tensor  # R: (fold, kernel, level, level)
    _white: Tensor  # R h of every function h: (fold, kernel, level, function)
    _columns: _Columns

    @classmethod
    def of(cls, levels: Float[Tensor, "fold level"]) -> "ChartSmoothers":
        """Compute the closed forms, which need neither spectra nor targets."""
        place = positions(levels, levels).levels
        noise = torch.tensor(SMOOTHER_NOISES, dtype=levels.dtype, device=levels.device)
        identity = torch.eye(levels.shape[1], dtype=levels.dtype, device=levels.device)
        kernels = _kernels(place[..., :, None] - place[..., None, :])[:, :, :, None]
        covariance = (kernels + noise[:, None, None] * identity).flatten(1, 3)
        lower, _ = torch.linalg.cholesky_ex(covariance)  # no eigenvalue is smaller than the noise
        root = torch.linalg.solve_triangular(lower.mT, identity, upper=True).mT.contiguous()
        functions = _functions(place, levels, place, levels)
        by_chart = root.unflatten(1, (-1, ON_A_CHART)).flatten(2, 3)
        white = (by_chart @ functions).view(*root.shape[:3], -1)
        columns = _Columns.of(white.permute(0, 3, 2, 1).contiguous())
        of_kernels = 2 * torch.diagonal(lower, dim1=-2, dim2=-1).log().sum(-1)
        return cls(
            levels,
            (root.mT @ root).permute(0, 2, 3, 1).contiguous(),
            columns.orthonormal((white.mT @ root).permute(0, 2, 3, 1)),
            by_means(of_kernels, 2 * columns.norm[:, :, 0].log()),
            root,
            white,
            columns,
        )

    @cached_property
    def diagonal(self) -> Float[Tensor, "fold level smoother"]:
        """P_ii, at least what rounding makes of zero: where a mean function explains a level."""
        of_inverse = torch.diagonal(self.inverse, dim1=1, dim2=2).mT
        found = by_means(of_inverse, -self.along.square())
        return found.maximum(torch.finfo(found.dtype).eps * found.amax(1, keepdim=True))

    def summed(
        self, shares: Float[Tensor, "fold row smoother"]
    ) -> Float[Tensor, "fold row level level"]:
        """Sums of P over all smoothers with some shares."""
        of_kernels, of_functions = _by_kernels(shares)
        inverse = of_kernels @ self.inverse.flatten(1, 2).mT
        found = inverse.unflatten(-1, self.inverse.shape[1:3])
        for share, along in zip(of_functions, self.along.unbind(1), strict=True):
            found = found - (share[:, :, None] * along[:, None]) @ along.mT[:, None]
        return found

    def summed_by_level(
        self, shares: Float[Tensor, "fold level smoother"]
    ) -> Float[Tensor, "fold level level"]:
        """Sums of P, with shares of their own for every row of it."""
        of_kernels, of_functions = _by_kernels(shares)
        found = (of_kernels[:, :, None] @ self.inverse.mT)[:, :, 0]
        for share, along in zip(of_functions, self.along.unbind(1), strict=True):
            found = found - (share * along) @ along.mT
        return found

    def at(self, targets: Float[Tensor, "fold target"]) -> AtTargets:
        """Predictions at some concentrations, none negative."""
        place = positions(self.levels, targets)
        kernels = _kernels(place.targets[..., :, None] - place.levels[..., None, :])[:, :, :, None]
        root = self._root.view(*kernels.shape[:3], len(SMOOTHER_NOISES), *self._root.shape[2:])
        white = (kernels @ root.mT).flatten(1, 3)  # (fold, kernel, target, level)
        known = (white @ self._root).permute(0, 2, 3, 1).contiguous()
        rest = 1 - white.square().sum(-1).mT
        functions = _functions(place.targets, targets, place.levels, self.levels)
        wanted = functions.permute(0, 3, 2, 1).repeat_interleave(ON_A_CHART, dim=-1)
        gain = self._columns.orthonormal(wanted - (white @ self._white).permute(0, 3, 2, 1))
        by_charts = place.valid.mT.repeat_interleave(ON_A_CHART, dim=-1)
        return AtTargets(
            by_means(known, gain[:, :, :, None] * self.along[:, :, None]),
            by_means(rest, gain.square()).clamp(min=0),
            torch.cat([by_charts[..., -size:] for size in PARTS], dim=-1),
            place,
        )


def by_means(
    of_kernels: Float[Tensor, "fold *rest kernel"],
    of_functions: Float[Tensor, "fold function *rest kernel"],
) -> Float[Tensor, "fold *rest smoother"]:
    """Sum of what every smoother has of its kernel and of the functions of its mean."""
    parts = []
    for functions, size in zip(FUNCTIONS, PARTS, strict=True):
        found = sum((of_functions[:, one] for one in functions), of_kernels)
        parts.append(found[..., -size:])
    return torch.cat(parts, dim=-1)


def _by_kernels(shares: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Shares of the kernels, and of every function, summed over the mean functions they serve."""
    parts = [
        torch.nn.functional.pad(part, (ON_A_CHART * len(FAMILIES) - part.shape[-1], 0))
        for part in shares.split(PARTS, dim=-1)
    ]
    of_functions = [
        torch.stack([part for part, terms in zip(parts, FUNCTIONS, strict=True) if one in terms])
        for one in range(len(SMOOTHER_MEANS))
    ]
    return torch.stack(parts).sum(0), [part.sum(0) for part in of_functions]


def _kernels(difference: Tensor) -> Tensor:
    """Covariances of every kernel and length, before the last two dimensions."""
    lengths = torch.tensor(SMOOTHER_LENGTHS, dtype=difference.dtype, device=difference.device)
    scaled = difference[..., None, :, :].abs() / lengths[:, None, None]
    rough = 3**0.5 * scaled
    smooth = torch.exp(-(scaled**2) / 2)
    return torch.cat([smooth, (1 + rough) * torch.exp(-rough)], dim=-3)


def _functions(place: Tensor, concentrations: Tensor, of_levels: Tensor, levels: Tensor) -> Tensor:
    """Functions of the means, those of one mean orthonormal: (fold, chart, target, function)."""
    count, largest = levels.shape[1], levels.amax(1, keepdim=True)
    scaled, among = ((part / largest)[:, None] for part in (concentrations, levels))
    x_mean, c_mean = (part.mean(-1, keepdim=True) for part in (of_levels, among))
    columns = [torch.full_like(place, count**-0.5)]
    for value, on_levels in (
        (place - x_mean, of_levels - x_mean),
        (scaled, among),
        (scaled - c_mean, among - c_mean),
    ):
        unit = value / torch.linalg.vector_norm(on_levels, dim=-1, keepdim=True)
        columns.append(unit.expand_as(place))
    return torch.stack(columns, dim=-1)
