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

import torch
from jaxtyping import Float
from torch import Tensor

from geonode.arguments import require_above
from geonode.errors import GeometryError
from geonode.geometry.metric import Metric

AXES = ("concentration", "wavelength")
FIRST_DEGREE = 24
LINES = 5  # along which a degree is found
RANDOM_POINTS = 8  # in each direction
SLACK = 10
LARGEST_DEGREE = 4096  # of an exponential


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
    (in_x, calls_x), (in_w, calls_w) = (
        _degree_along(metric, axis, tolerance, largest_degree, first) for axis in (0, 1)
    )
    degrees, calls = [in_x, in_w], calls_x + calls_w
    while True:
        coefficients = _finite(_interpolate(metric, *degrees), first)
        calls += degrees[0] * degrees[1]
        tails = [_tail(coefficients.transpose(1, 2)), _tail(coefficients)]
        if all(float(tail.max()) <= tolerance for tail in tails):
            errors = _errors_at_random_points(metric, coefficients, first)
            calls += RANDOM_POINTS**2
            if float(errors.max()) <= SLACK * tolerance:
                return Expansion(coefficients, max(float(tail.max()) for tail in tails), calls)
            tails = [errors, errors]
        for axis, tail in enumerate(tails):
            if float(tail.max()) > tolerance:
                _require_room(degrees[axis], largest_degree, axis, tail, tolerance, first)
                degrees[axis] = min(degrees[axis] + degrees[axis] // 4 + 1, largest_degree)


def _degree_along(
    metric: Metric, axis: int, tolerance: float, largest_degree: int, first: int
) -> tuple[int, int]:
    """Coefficients that one direction needs along a few random lines, and calls to find out."""
    like = metric.network.parameters[0]
    generator = torch.Generator().manual_seed(axis)
    across = (2 * torch.rand(LINES, generator=generator, dtype=torch.float64) - 1).to(like)
    degree, calls = min(FIRST_DEGREE, largest_degree), 0
    while True:
        points, transform = _transform(degree, like)
        if axis == 0:
            values = metric.log_sqrt(points[None], across).transpose(1, 2)
        else:
            values = metric.log_sqrt(across[None], points)
        coefficients = _finite(values @ transform.T, first)
        calls += LINES * degree
        tail = _tail(coefficients)
        if float(tail.max()) <= tolerance:
            large = (coefficients.abs().amax((0, 1)) > tolerance).nonzero()
            needed = int(large.max()) + 1 if len(large) else 1
            return min(needed + max(2, math.ceil(needed / 7)), degree), calls
        _require_room(degree, largest_degree, axis, tail, tolerance, first)
        degree = min(2 * degree, largest_degree)


def _tail(coefficients: Tensor) -> Tensor:
    """Largest magnitude of the last eighth of the coefficients, at least two, of every model."""
    return coefficients[..., -max(2, coefficients.shape[-1] // 8) :].abs().amax((1, 2))


def _finite(coefficients: Tensor, first: int) -> Tensor:
    """Coefficients, or errors, refused if they are not finite."""
    finite = torch.isfinite(coefficients).all(-1).all(-1)
    if not finite.all():
        bad = first + int((~finite).nonzero()[0])
        raise GeometryError(f"the metric of model {bad} is not finite; train it again")
    return coefficients


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


def _errors_at_random_points(
    metric: Metric, coefficients: Float[Tensor, "model degree_x degree_w"], first: int
) -> Float[Tensor, "model"]:
    """Largest error of every expansion on a random product of points."""
    generator = torch.Generator().manual_seed(0)
    x, w = (2 * torch.rand(2, RANDOM_POINTS, generator=generator) - 1).to(coefficients)
    in_w = coefficients @ polynomials(w, coefficients.shape[2]).T
    found = polynomials(x, coefficients.shape[1]) @ in_w
    return _finite(found - metric.log_sqrt(x[None], w), first).abs().amax((1, 2))


def polynomials(points: Float[Tensor, "point"], count: int) -> Float[Tensor, "point degree"]:
    """T_0 to T_{count-1}: T_k(x) = cos(k arccos x)."""
    orders = torch.arange(count, device=points.device, dtype=points.dtype)
    return torch.cos(orders * torch.arccos(points.clamp(-1, 1))[:, None])


def derivatives(points: Float[Tensor, "point"], count: int) -> Float[Tensor, "point degree"]:
    """T_0' to T_{count-1}': T_k' = k U_{k-1}, U by its three-term recurrence."""
    second_kind = [torch.zeros_like(points), torch.ones_like(points)]  # U_{-1}, U_0
    for _ in range(count - 2):
        second_kind.append(2 * points * second_kind[-1] - second_kind[-2])
    orders = torch.arange(count, device=points.device, dtype=points.dtype)
    return orders * torch.stack(second_kind[:count], dim=-1)


def differentiation(count: int, like: Float[Tensor, "..."]) -> Float[Tensor, "degree degree"]:
    """Matrix from the coefficients of a series to those of its derivative.

    T_n' is 2 n times the sum of the T_k with k < n and n - k odd, T_0 by half (J. C. Mason and
    D. C. Handscomb, Chebyshev Polynomials, 2003, section 2.4.5).

    Args:
        count: number of coefficients.
        like: of the format and on the device that is asked for.
    """
    k, n = (torch.arange(count, device=like.device)[at] for at in ((slice(None), None), (None,)))
    matrix = torch.where((n > k) & ((n - k) % 2 == 1), 2 * n, 0).to(like.dtype)
    matrix[0] /= 2
    return matrix


def integrals(points: Float[Tensor, "point"], count: int) -> Float[Tensor, "point degree"]:
    """Integrals of T_0 to T_{count-1} from -1 to every point, for at least two of them.

    That of T_k is (T_{k+1} / (k + 1) - T_{k-1} / (k - 1)) / 2 for k > 1 (Trefethen, chapter 19).
    """
    values = polynomials(points, count + 1)
    orders = torch.arange(2, count, device=points.device, dtype=points.dtype)
    higher = (values[:, 3:] / (orders + 1) - values[:, 1:-2] / (orders - 1)) / 2
    low = torch.stack([points, points.square() / 2], dim=-1)
    start = torch.where(orders % 2 == 0, 1, -1) / (orders.square() - 1)  # minus those at -1
    return torch.cat([low - low.new_tensor([-1.0, 0.5]), higher - start], dim=-1)


def integral_of_exponential(
    lines: Float[Tensor, "degree function"], points: Float[Tensor, "point"], tolerance: float
) -> Float[Tensor, "point function"]:
    """Integrals, from -1 to every point, of the exponential of Chebyshev series.

    The exponential is expanded in turn, from values of the series and so without a network call,
    to twice the degree again and again until its coefficients have decayed.

    Args:
        lines: coefficients of every series.
        points: where to, from -1 to 1.
        tolerance: of trailing coefficients, relative to the largest.

    Raises:
        GeometryError: the coefficients do not decay.
    """
    degree = 2 * max(len(lines), FIRST_DEGREE // 2)
    while True:
        at, transform = _transform(degree, lines)
        coefficients = transform @ torch.exp(polynomials(at, len(lines)) @ lines)
        if float(_tail(coefficients.T[None])) <= tolerance * float(coefficients.abs().max()):
            return integrals(points, degree) @ coefficients
        if degree > LARGEST_DEGREE:
            raise GeometryError(
                f"tolerance: found {tolerance:g}, but at degree {degree} the expansion of the "
                "exponential has not decayed so far, expected a larger tolerance"
            )
        degree *= 2


def _interpolate(metric: Metric, in_x: int, in_w: int) -> Tensor:
    """Coefficients of the interpolant in the Chebyshev points of the first kind."""
    like = metric.network.parameters[0]
    x, to_x = _transform(in_x, like)
    w, to_w = _transform(in_w, like)
    return to_x @ metric.log_sqrt(x[None], w) @ to_w.T


def _transform(count: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Chebyshev points of the first kind and the matrix from values there to coefficients."""
    angles = (torch.arange(count, device=like.device, dtype=like.dtype) + 0.5) * (math.pi / count)
    orders = torch.arange(count, device=like.device, dtype=like.dtype)
    matrix = torch.cos(orders[:, None] * angles) * (2 / count)
    matrix[0] /= 2
    return torch.cos(angles), matrix
