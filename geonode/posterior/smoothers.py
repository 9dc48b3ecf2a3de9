"""Geodesic smoothers: Gaussian processes over the arc length of a chart, in closed form.

A smoother has a chart, a kernel of geodesic distance, a noise and a mean function with basis H. The
mean function is on concentration itself ({c}, {1, c}: Beer and Lambert's law) or on the chart
({1}, {1, x}), independent of the chart of the deviations. With K = kernel + noise I and

    P = K^-1 - K^-1 H (H^T K^-1 H)^-1 H^T K^-1

the prediction at a target is linear in the training spectra, and the leave-one-out residual of
level i is (P Y)_i / P_ii, without a refit.

Source: C. E. Rasmussen and C. K. I. Williams, Gaussian Processes for Machine Learning, MIT Press
2006, sections 2.7 and 5.4.2; D. A. Harville, Maximum likelihood approaches to variance component
estimation, J. Am. Stat. Assoc. 72 (1977) 320.
"""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geonode.posterior.charts import FAMILIES, Positions, positions

KERNELS = ("squared exponential", "Matern 3/2")
LENGTHS = (0.2, 0.5, 1.0, 2.0, 4.0, 10.0)  # chart units; the training levels are 2 long
NOISES = (1e-6, 1e-3, 1e-2, 1e-1)  # variance, relative to that of the process
MEANS = ("1", "1 x", "c", "1 c")
COEFFICIENTS = (1, 2, 1, 2)
ON_A_CHART = len(KERNELS) * len(LENGTHS) * len(NOISES)
"""Smoothers of one chart and one mean function."""


def _charts_of(mean: int) -> range:
    """Charts combined with a mean function; {1, c} is {1, x} on the linear chart."""
    return range(1 if MEANS[mean] == "1 c" else 0, len(FAMILIES))


class Description(NamedTuple):
    """Components of every smoother of the dictionary.

    Attributes:
        chart, mean, kernel: indices in `FAMILIES`, `MEANS` and `KERNELS`.
        length, noise: length scale and noise of the kernel.
    """

    chart: Int[Tensor, "smoother"]
    mean: Int[Tensor, "smoother"]
    kernel: Int[Tensor, "smoother"]
    length: Float[Tensor, "smoother"]
    noise: Float[Tensor, "smoother"]

    @property
    def coefficients(self) -> Int[Tensor, "smoother"]:
        """Number of coefficients of every mean function."""
        return torch.tensor(COEFFICIENTS, device=self.mean.device)[self.mean]

    @property
    def has_constant(self) -> Bool[Tensor, "smoother"]:
        """Whether the mean function has a constant term, so that weights add up to one."""
        return torch.tensor(["1" in terms for terms in MEANS], device=self.mean.device)[self.mean]

    def numbers(self) -> Float[Tensor, "smoother number"]:
        """Description of every smoother as inputs of a network."""
        chart = torch.nn.functional.one_hot(self.chart, len(FAMILIES))
        mean = torch.nn.functional.one_hot(self.mean, len(MEANS))
        others = [self.kernel, self.length.log(), self.noise.log10() / 3 + 1]
        return torch.cat([chart, mean, torch.stack(others, dim=1)], dim=1).float()


@cache
def dictionary() -> Description:
    """All smoothers: mean functions outermost, then charts, kernels, lengths, noises."""
    rows = [
        (chart, mean, kernel, length, noise)
        for mean in range(len(MEANS))
        for chart in _charts_of(mean)
        for kernel in range(len(KERNELS))
        for length in LENGTHS
        for noise in NOISES
    ]
    chart, mean, kernel, length, noise = zip(*rows, strict=True)
    places = (torch.tensor(chart), torch.tensor(mean), torch.tensor(kernel))
    return Description(*places, torch.tensor(length), torch.tensor(noise))


SMOOTHERS = len(dictionary().chart)


class AtTargets(NamedTuple):
    """Predictions of all smoothers at some targets.

    Attributes:
        weights: weights of the training spectra in the prediction.
        variance: variance of the predicted mean, relative to that of the process.
        valid: whether the target is in the domain of the chart of a smoother.
        positions: positions of levels and targets on every chart.
    """

    weights: Float[Tensor, "fold target smoother level"]
    variance: Float[Tensor, "fold target smoother"]
    valid: Bool[Tensor, "fold target smoother"]
    positions: Positions


class _Mean(NamedTuple):
    """One mean function on all of its charts.

    Attributes:
        transform: (fold, chart, 1, 1, term, term), from the terms to an orthonormal basis.
        white: R H, (fold, chart, kernel, noise, level, term), with K^-1 = R^T R.
        solved: H^T K^-1, (fold, chart, kernel, noise, term, level).
        inverse: (H^T K^-1 H)^-1.
    """

    transform: Tensor
    white: Tensor
    solved: Tensor
    inverse: Tensor


@dataclass(frozen=True)
class Smoothers:
    """Smoothers of the dictionary on the training levels of some folds.

    Attributes:
        levels: concentrations, ascending, none negative, not all zero.
        projection: P of every smoother.
        log_determinant: ln |K| + ln |H^T K^-1 H|, with an orthonormal basis H.
    """

    levels: Float[Tensor, "fold level"]
    projection: Float[Tensor, "fold smoother level level"]
    log_determinant: Float[Tensor, "fold smoother"]
    _root: Tensor
    _means: tuple[_Mean, ...]

    @classmethod
    def of(cls, levels: Float[Tensor, "fold level"]) -> "Smoothers":
        """Compute the closed forms, which need neither spectra nor targets."""
        count = levels.shape[1]
        place = positions(levels, levels).levels
        noise = torch.tensor(NOISES, dtype=levels.dtype, device=levels.device)
        identity = torch.eye(count, dtype=levels.dtype, device=levels.device)
        kernels = _kernels(place[..., :, None] - place[..., None, :])
        covariance = kernels[:, :, :, None] + noise[:, None, None] * identity
        lower, _ = torch.linalg.cholesky_ex(covariance)  # no eigenvalue is smaller than the noise
        root = torch.linalg.solve_triangular(lower.mT, identity, upper=True).mT  # row after row
        inverse = root.mT @ root
        log_determinant = 2 * torch.diagonal(lower, dim1=-2, dim2=-1).log().sum(-1)
        # Many levels fill much memory, which is written once.
        projection = covariance.new_empty(len(levels), SMOOTHERS, count, count)
        rest, determinants, means = projection, [], []
        for mean in range(len(MEANS)):
            charts = slice(_charts_of(mean).start, None)
            terms = _terms(mean, place[:, charts], levels, levels)[:, :, None, None]
            basis, upper = torch.linalg.qr(terms)
            transform = torch.linalg.inv(upper)
            white = root[:, charts] @ basis
            solved = white.mT @ root[:, charts]
            among = white.mT @ white
            of_mean, of_terms = _small_inverse(among)
            explained = (solved.mT @ of_mean @ solved).flatten(1, 3)
            part, rest = rest.tensor_split([explained.shape[1]], dim=1)
            torch.sub(inverse[:, charts].flatten(1, 3), explained, out=part)
            determinants.append(log_determinant[:, charts] + of_terms)
            means.append(_Mean(transform, white, solved, of_mean))
        return cls(
            levels,
            projection,
            torch.cat([part.flatten(1, 3) for part in determinants], dim=1),
            root,
            tuple(means),
        )

    def at(self, targets: Float[Tensor, "fold target"]) -> AtTargets:
        """Predictions at some concentrations, none negative."""
        place = positions(self.levels, targets)
        kernels = _kernels(place.targets[..., :, None] - place.levels[..., None, :])[:, :, :, None]
        white = kernels @ self._root.mT
        known, explained = white @ self._root, white.square().sum(-1)
        count = targets.shape[1]
        weights = known.new_empty(len(targets), count, SMOOTHERS, self.levels.shape[1])
        rest, variances, valid = weights, [], []
        for number, mean in enumerate(self._means):
            charts = slice(_charts_of(number).start, None)
            terms = _terms(number, place.targets[:, charts], targets, self.levels)
            solved = terms[:, :, None, None] @ mean.transform - white[:, charts] @ mean.white
            gain = solved @ mean.inverse
            by_mean = (gain @ mean.solved).flatten(1, 3)
            part, rest = rest.tensor_split([by_mean.shape[1]], dim=2)
            torch.add(known[:, charts].flatten(1, 3), by_mean, out=part.transpose(1, 2))
            variances.append(1 - explained[:, charts] + (gain * solved).sum(-1))
            valid.append(place.valid[:, charts].repeat_interleave(ON_A_CHART, dim=1))
        variance = torch.cat([part.flatten(1, 3) for part in variances], dim=1).clamp(min=0)
        return AtTargets(
            weights,
            variance.transpose(1, 2),
            torch.cat(valid, dim=1).transpose(1, 2),
            place,
        )


def _kernels(difference: Tensor) -> Tensor:
    """Covariances of every kernel and length, before the last two dimensions."""
    lengths = torch.tensor(LENGTHS, dtype=difference.dtype, device=difference.device)
    scaled = difference[..., None, :, :].abs() / lengths[:, None, None]
    rough = 3**0.5 * scaled
    smooth = torch.exp(-(scaled**2) / 2)
    return torch.cat([smooth, (1 + rough) * torch.exp(-rough)], dim=-3)


def _terms(mean: int, place: Tensor, concentrations: Tensor, levels: Tensor) -> Tensor:
    """Terms of a mean function: (fold, chart, concentration, term)."""
    scaled = (concentrations / levels.abs().amax(dim=1, keepdim=True))[:, None].expand_as(place)
    one = torch.ones_like(place)
    return torch.stack(
        {"1": [one], "1 x": [one, place], "c": [scaled], "1 c": [one, scaled]}[MEANS[mean]], dim=-1
    )


def _small_inverse(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Inverse and logarithm of the determinant of matrices of one or two rows."""
    if matrix.shape[-1] == 1:
        return 1 / matrix, torch.log(matrix[..., 0, 0])
    a, b, d = matrix[..., 0, 0], matrix[..., 0, 1], matrix[..., 1, 1]
    determinant = a * d - b * b
    rows = [torch.stack([d, -b], dim=-1), torch.stack([-b, a], dim=-1)]
    return torch.stack(rows, dim=-2) / determinant[..., None, None], torch.log(determinant)
