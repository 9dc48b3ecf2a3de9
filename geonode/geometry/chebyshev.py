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
from dataclasses import dataclass
from functools import lru_cache, partial

import torch
from jaxtyping import Float
from torch import Tensor

from geonode.arguments import require_above
from geonode.errors import GeometryError
from geonode.geometry.metric import Metric

largest = partial(torch.linalg.vector_norm, ord=math.inf)  # magnitude along some dimensions

AXES = ("concentration", "wavelength")
FIRST_DEGREES = (24, 48)  # in concentration, and in wavelength, which most metrics need more of
LINES = (5, 3)  # along which the degree in concentration, and in wavelength, is found
RANDOM_POINTS = 8  # in each direction
SLACK = 10
KEPT = 16  # points and matrices of a degree, which take a card more launches than their use


@dataclass(frozen=True)
class Expansion:
    """ln sqrt(g) of every model as a product series of Chebyshev polynomials.

    Attributes:
        coefficients: `(model, degree_x, degree_w)`, float64.
        tail: largest magnitude of the trailing coefficients that the stopping rule looked at.
        calls: network calls, per model, that the expansion cost.
    """

    coefficients: Float[Tensor, "model degree_x degree_w"]
    tail: float
    calls: int


def expand(metric: Metric, tolerance: float, largest_degree: int, first: int = 0) -> Expansion:
    """Expand ln sqrt(g) to the degrees at which its coefficients have decayed.

    All models share the degrees that the hardest of them needs. Coefficients that have decayed are
    believed only if the expansion agrees with the network at random points: a feature that falls
    between the interpolation points, or one that is aliased there, decays too.

    Args:
        metric: float64 metrics.
        tolerance: largest magnitude of trailing coefficients that is accepted; the expansion may
            be off by `SLACK` times this at random points, as coefficients add up.
        largest_degree: give up beyond it.
        first: number of the first model, for the message of an error.

    Raises:
        GeometryError: the tolerance is not positive, the expansion of some model does not converge
            up to the largest degree (the message names the model's index), or the metric is not
            finite.
    """
    require_above("tolerance", tolerance, 0)
    degrees, calls = _degrees_along_lines(metric, tolerance, largest_degree, first)
    while True:
        coefficients, found = _interpolated(metric, *degrees)
        magnitudes = _finite(found, first)
        calls += degrees[0] * degrees[1] + RANDOM_POINTS**2
        *along, errors = magnitudes.split([*degrees, 1], dim=1)
        tails = [_tail(magnitude) for magnitude in along]
        if all(float(tail.max()) <= tolerance for tail in tails):
            if float(errors.max()) <= SLACK * tolerance:
                return Expansion(coefficients, max(float(tail.max()) for tail in tails), calls)
            tails = [errors[:, 0]] * 2
        for axis, tail in enumerate(tails):
            if float(tail.max()) > tolerance:
                _require_room(degrees[axis], largest_degree, axis, tail, tolerance, first)
                degrees[axis] = min(degrees[axis] + degrees[axis] // 4 + 1, largest_degree)


def _degrees_along_lines(
    metric: Metric, tolerance: float, largest_degree: int, first: int
) -> tuple[list[int], int]:
    """Coefficients that either direction needs along a few lines, and calls to find out.

    Both are looked at in one call of the network, until one of them is known. The lines are at
    Chebyshev points, so that some are near the ends, where a network is often sharpest.
    """
    like = metric.network.parameters[0]
    on = (like.device, like.dtype)
    degrees = [min(first_degree, largest_degree) for first_degree in FIRST_DEGREES]
    known, calls = [False] * 2, 0
    while not all(known):
        axes = [axis for axis in (0, 1) if not known[axis]]
        points = [_points(degrees[axis], *on) for axis in axes]
        lines = [_points(LINES[axis], *on)[0] for axis in axes]
        blocks = [
            (along, across) if axis == 0 else (across, along)
            for axis, (along, _), across in zip(axes, points, lines, strict=True)
        ]
        magnitudes = [
            largest(transform @ values.movedim(axis + 1, 1), dim=2)
            for axis, (_, transform), values in zip(
                axes, points, metric.log_sqrt_on_products(blocks), strict=True
            )
        ]
        found = _finite(torch.cat(magnitudes, dim=1), first)
        for axis, of_axis in zip(
            axes, found.split([degrees[axis] for axis in axes], dim=1), strict=True
        ):
            calls += LINES[axis] * degrees[axis]
            tail = _tail(of_axis)
            known[axis] = float(tail.max()) <= tolerance
            if known[axis]:
                large = (of_axis.amax(0) > tolerance).nonzero()
                needed = int(large.max()) + 1 if len(large) else 1
                degrees[axis] = min(needed + max(2, math.ceil(needed / 7)), degrees[axis])
            else:
                _require_room(degrees[axis], largest_degree, axis, tail, tolerance, first)
                degrees[axis] = min(2 * degrees[axis], largest_degree)
    return degrees, calls


def _interpolated(metric: Metric, in_x: int, in_w: int) -> tuple[Tensor, Tensor]:
    """The interpolant in the Chebyshev points of the first kind, and how good it is.

    Returns:
        Its coefficients; and, side by side for every model, the largest magnitude at every degree
        in x, that at every degree in w, and the largest error on a random product of points.
    """
    like = metric.network.parameters[0]
    on = (like.device, like.dtype)
    (x, to_x), (w, to_w) = _points(in_x, *on), _points(in_w, *on)
    (some_x, at_x), (some_w, at_w) = _check(0, in_x, *on), _check(1, in_w, *on)
    on_nodes, expected = metric.log_sqrt_on_products([(x, w), (some_x, some_w)])
    coefficients = to_x @ on_nodes @ to_w.T
    error = at_x @ coefficients @ at_w.T - expected
    found = [largest(coefficients, dim=2), largest(coefficients, dim=1)]
    return coefficients, torch.cat([*found, largest(error, dim=(1, 2))[:, None]], dim=1)


def _tail(magnitudes: Tensor) -> Tensor:
    """Largest of the last eighth of the coefficients, at least two, along the last dimension."""
    return magnitudes[..., -max(2, magnitudes.shape[-1] // 8) :].amax(-1)


def _finite(magnitudes: Tensor, first: int) -> Tensor:
    """Magnitudes of every model, on the host; refused if one is not finite."""
    magnitudes = magnitudes.cpu()
    finite = magnitudes.isfinite().all(1)
    if not finite.all():
        bad = first + int((~finite).nonzero()[0])
        raise GeometryError(f"the metric of model {bad} is not finite; train it again")
    return magnitudes


def _require_room(
    degree: int, largest_degree: int, axis: int, tail: Tensor, tolerance: float, first: int
) -> None:
    """Refuse a model whose coefficients have not decayed at the largest degree."""
    if degree == largest_degree:
        model = first + int(tail.argmax())
        raise GeometryError(
            f"the metric of model {model} is too sharp in {AXES[axis]}: at degree "
            f"{degree} its Chebyshev expansion is still off by about {float(tail.max()):.1e}, "
            f"expected at most {tolerance:g}; set christoffel.method to direct, or raise "
            "christoffel.largest_degree or metric.smoothness_weight"
        )


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


def _points_and_transform(
    count: int, device: torch.device, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Chebyshev points of the first kind and the matrix from values there to coefficients."""
    orders = torch.arange(count, device=device, dtype=dtype)
    angles = (orders + 0.5) * (math.pi / count)
    matrix = torch.cos(orders[:, None] * angles) * (2 / count)
    matrix[0] /= 2
    return torch.cos(angles), matrix


_points = lru_cache(maxsize=KEPT)(_points_and_transform)


@lru_cache(maxsize=KEPT)
def _check(
    axis: int, count: int, device: torch.device, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Random points of an axis, always the same, and the polynomials there."""
    generator = torch.Generator().manual_seed(axis)
    points = 2 * torch.rand(RANDOM_POINTS, generator=generator, dtype=torch.float64) - 1
    points = points.to(device, dtype)
    return points, polynomials(points, count)
