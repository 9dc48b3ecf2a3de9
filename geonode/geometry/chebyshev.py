"""Chebyshev expansion of ln sqrt(g): a few thousand network calls instead of one per grid node.

The network is analytic, so its expansion converges geometrically; the grid is then two small
matrix products, and the Christoffel symbol comes from the derivative of the same polynomials:
exact for the expansion, no differences. The decay of the coefficients says when to stop.

The degree in either direction is found along a few lines first, where doubling it is cheap; then
the network is called once on the product of Chebyshev points that both degrees need.

Source: L. N. Trefethen, Approximation Theory and Approximation Practice, SIAM 2013, chapters 3, 4
and 8; the stopping rule is that of J. L. Aurentz and L. N. Trefethen, Chopping a Chebyshev
series, ACM TOMS 43 (2017), reduced to "the last eighth of the coefficients is negligible" and
followed by a check at random points.
"""

import math
from dataclasses import dataclass, field
from functools import lru_cache, partial

import torch
from jaxtyping import Float
from torch import Tensor

from geonode.errors import GeometryError
from geonode.geometry.metric import Metric

largest = partial(torch.linalg.vector_norm, ord=math.inf)  # magnitude along some dimensions

AXES = ("concentration", "wavelength")
FIRST_DEGREES = (24, 48)  # in concentration, and in wavelength, which most metrics need more of
LINES = (5, 3)  # along which the degree in concentration, and in wavelength, is found
RANDOM_POINTS = 8  # in each direction
SLACK = 10
KEPT = 16  # points and matrices of a degree, which take a card more launches than their use


def expand(
    metric: Metric, tolerance: float, largest_degree: int, model: int
) -> tuple[Float[Tensor, "degree_x degree_w"], int]:
    """Expand ln sqrt(g) to the degrees at which its coefficients have decayed.

    Coefficients that have decayed are believed only if the expansion agrees with the network at
    random points: a feature that falls between the interpolation points, or one that is aliased
    there, decays too.

    Args:
        metric: one metric in float64.
        tolerance: largest magnitude of trailing coefficients that is accepted; the expansion may
            be off by `SLACK` times this at random points, as coefficients add up.
        largest_degree: give up beyond it.
        model: index of the metric, for the message of an error.

    Returns:
        Coefficients in float64, and the network calls that they cost.

    Raises:
        GeometryError: the metric is not finite, or its expansion does not converge up to the
            largest degree; the message names the model.
    """
    search = _Search(metric, tolerance, largest_degree, model)
    search.along_lines()
    return search.on_products(), search.calls


@dataclass
class _Search:
    """Search for the degrees that a metric needs; arguments are those of `expand`.

    Attributes:
        degrees: coefficients in either direction.
        calls: of the network, until now.
    """

    metric: Metric
    tolerance: float
    largest_degree: int
    model: int
    degrees: list[int] = field(init=False)
    calls: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Start with the first degrees."""
        like = self.metric.network.parameters[0]
        self._on = (like.device, like.dtype)
        self.degrees = [min(degree, self.largest_degree) for degree in FIRST_DEGREES]

    def along_lines(self) -> None:
        """Find the degree of either direction along a few lines.

        Both are looked at in one call of the network, until one of them is known. The lines are at
        Chebyshev points, so that some are near the ends, where a network is often sharpest.
        """
        unknown = [0, 1]
        while unknown:
            degrees = [self.degrees[axis] for axis in unknown]
            points = [_points(degree, *self._on) for degree in degrees]
            lines = [_points(LINES[axis], *self._on)[0] for axis in unknown]
            values = self.metric.log_sqrt_on_products(
                [
                    (along, across) if axis == 0 else (across, along)
                    for axis, (along, _), across in zip(unknown, points, lines, strict=True)
                ]
            )
            magnitudes = [
                largest(transform @ on_lines.movedim(axis + 1, 1), dim=2)[0]
                for axis, (_, transform), on_lines in zip(unknown, points, values, strict=True)
            ]
            found = self._finite(torch.cat(magnitudes)).split(degrees)
            self.calls += sum(LINES[axis] * self.degrees[axis] for axis in unknown)
            unknown = [
                axis
                for axis, of_axis in zip(unknown, found, strict=True)
                if not self._settled(axis, of_axis)
            ]

    def _settled(self, axis: int, magnitudes: Tensor) -> bool:
        """Fit the degree if the magnitudes along lines have decayed, else double it; say which."""
        tail = _tail(magnitudes)
        if tail > self.tolerance:
            self._raise(axis, 2 * self.degrees[axis], tail)
            return False
        large = (magnitudes > self.tolerance).nonzero()
        needed = int(large.max()) + 1 if len(large) else 1
        self.degrees[axis] = min(needed + max(2, math.ceil(needed / 7)), self.degrees[axis])
        return True

    def on_products(self) -> Float[Tensor, "degree_x degree_w"]:
        """Raise the degrees until an interpolant has decayed and agrees at random points."""
        while True:
            coefficients, found = self._interpolated()
            *along, errors = self._finite(found).split([*self.degrees, 1])
            self.calls += self.degrees[0] * self.degrees[1] + RANDOM_POINTS**2
            tails = [_tail(magnitudes) for magnitudes in along]
            if max(tails) <= self.tolerance:
                error = float(errors)
                if error <= SLACK * self.tolerance:
                    return coefficients
                tails = [error, error]
            for axis, tail in enumerate(tails):
                if tail > self.tolerance:
                    self._raise(axis, self.degrees[axis] + self.degrees[axis] // 4 + 1, tail)

    def _interpolated(self) -> tuple[Tensor, Tensor]:
        """The interpolant in the Chebyshev points of the first kind, and how good it is.

        Returns:
            Its coefficients; and, side by side, the largest magnitude at every degree in x, that
            at every degree in w, and the largest error on a random product of points.
        """
        in_x, in_w = self.degrees
        (x, to_x), (w, to_w) = _points(in_x, *self._on), _points(in_w, *self._on)
        (some_x, at_x), (some_w, at_w) = _check(0, in_x, *self._on), _check(1, in_w, *self._on)
        on_nodes, expected = self.metric.log_sqrt_on_products([(x, w), (some_x, some_w)])
        coefficients = to_x @ on_nodes @ to_w.T
        error = at_x @ coefficients @ at_w.T - expected
        found = [largest(coefficients, dim=2)[0], largest(coefficients, dim=1)[0]]
        return coefficients[0], torch.cat([*found, largest(error, dim=(1, 2))])

    def _finite(self, magnitudes: Tensor) -> Tensor:
        """Magnitudes on the host; refused if one is not finite."""
        magnitudes = magnitudes.cpu()
        if not magnitudes.isfinite().all():
            raise GeometryError(f"the metric of model {self.model} is not finite; train it again")
        return magnitudes

    def _raise(self, axis: int, degree: int, tail: float) -> None:
        """Set a higher degree, or refuse a metric that has not decayed at the largest one."""
        if self.degrees[axis] == self.largest_degree:
            raise GeometryError(
                f"the metric of model {self.model} is too sharp in {AXES[axis]}: at degree "
                f"{self.largest_degree} its Chebyshev expansion is still off by about {tail:.1e}, "
                f"expected at most {self.tolerance:g}; set christoffel.method to direct, or raise "
                "christoffel.largest_degree or metric.smoothness_weight"
            )
        self.degrees[axis] = min(degree, self.largest_degree)


def _tail(magnitudes: Tensor) -> float:
    """Largest of the last eighth of the coefficients, at least two."""
    return float(magnitudes[-max(2, len(magnitudes) // 8) :].max())


def polynomials(points: Float[Tensor, "point"], count: int) -> Float[Tensor, "point degree"]:
    """T_0 to T_{count-1}: T_k(x) = cos(k arccos x)."""
    orders = torch.arange(count, device=points.device, dtype=points.dtype)
    return torch.cos(orders * torch.arccos(points.clamp(-1, 1))[:, None])


@lru_cache(maxsize=KEPT)
def differentiation(
    count: int, device: torch.device, dtype: torch.dtype
) -> Float[Tensor, "degree degree"]:
    """Matrix from the coefficients of a series to those of its derivative, not to be written to.

    T_n' is 2 n times the sum of the T_k with k < n and n - k odd, T_0 by half (J. C. Mason and
    D. C. Handscomb, Chebyshev Polynomials, 2003, section 2.4.5).

    Args:
        count: number of coefficients.
        device: where the matrix is.
        dtype: its format.
    """
    k, n = (torch.arange(count, device=device)[at] for at in ((slice(None), None), (None,)))
    matrix = torch.where((n > k) & ((n - k) % 2 == 1), 2 * n, 0).to(dtype)
    matrix[0] /= 2
    return matrix


@lru_cache(maxsize=KEPT)
def _points(count: int, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Chebyshev points of the first kind and the matrix from values there to coefficients."""
    orders = torch.arange(count, device=device, dtype=dtype)
    angles = (orders + 0.5) * (math.pi / count)
    matrix = torch.cos(orders[:, None] * angles) * (2 / count)
    matrix[0] /= 2
    return torch.cos(angles), matrix


@lru_cache(maxsize=KEPT)
def _check(
    axis: int, count: int, device: torch.device, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Random points of an axis, always the same, and the polynomials there."""
    generator = torch.Generator().manual_seed(axis)
    points = 2 * torch.rand(RANDOM_POINTS, generator=generator, dtype=torch.float64) - 1
    points = points.to(device, dtype)
    return points, polynomials(points, count)
