"""Chebyshev expansion of ln sqrt(g): a few thousand network calls instead of one per grid node.

The network is analytic, so its expansion converges geometrically; the grid is then two small
matrix products, and the Christoffel symbol comes from the derivative of the same polynomials:
exact for the expansion, no differences. The decay of the coefficients says when to stop.

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

from geonode.errors import GeometryError
from geonode.geometry.metric import Metric

FIRST_DEGREE = 24
RANDOM_POINTS = 8  # in each direction
SLACK = 10


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


def expand(metric: Metric, tolerance: float, largest_degree: int) -> Expansion:
    """Expand ln sqrt(g), raising the degree in either direction until its coefficients decay.

    All models share the degrees that the hardest of them needs. Coefficients that have decayed are
    believed only if the expansion agrees with the network at random points: a feature that falls
    between the interpolation points, or one that is aliased there, decays too.

    Args:
        metric: float64 metrics.
        tolerance: largest magnitude of trailing coefficients that is accepted; the expansion may
            be off by `SLACK` times this at random points, as coefficients add up.
        largest_degree: give up beyond it.

    Raises:
        GeometryError: the expansion of some model does not converge up to the largest degree (the
            message names the model's index), or the metric is not finite.
    """
    degrees = [min(FIRST_DEGREE, largest_degree)] * 2
    calls = 0
    while True:
        coefficients = _interpolate(metric, *degrees)
        calls += degrees[0] * degrees[1]
        if not torch.isfinite(coefficients).all():
            bad = int((~torch.isfinite(coefficients).all(-1).all(-1)).nonzero()[0])
            raise GeometryError(f"the metric of model {bad} is not finite; train it again")
        tails = [
            coefficients[:, -max(2, degrees[0] // 8) :].abs().amax((1, 2)),
            coefficients[:, :, -max(2, degrees[1] // 8) :].abs().amax((1, 2)),
        ]
        if all(float(tail.max()) <= tolerance for tail in tails):
            errors = _errors_at_random_points(metric, coefficients)
            calls += RANDOM_POINTS**2
            if float(errors.max()) <= SLACK * tolerance:
                return Expansion(coefficients, max(float(tail.max()) for tail in tails), calls)
            tails = [errors, errors]
        for axis, name in enumerate(("concentration", "wavelength")):
            worst = float(tails[axis].max())
            if worst > tolerance and degrees[axis] == largest_degree:
                raise GeometryError(
                    f"the metric of model {int(tails[axis].argmax())} is too sharp in {name}: at "
                    f"degree {largest_degree} its Chebyshev expansion is still off by about "
                    f"{worst:.1e}, expected at most {tolerance:g}; set christoffel.method to "
                    "direct, or raise metric.smoothness_weight"
                )
            if worst > tolerance:
                degrees[axis] = min(2 * degrees[axis], largest_degree)


def _errors_at_random_points(
    metric: Metric, coefficients: Float[Tensor, "model degree_x degree_w"]
) -> Float[Tensor, "model"]:
    """Largest error of every expansion on a random product of points."""
    generator = torch.Generator().manual_seed(0)
    x, w = (2 * torch.rand(2, RANDOM_POINTS, generator=generator) - 1).to(coefficients)
    in_w = coefficients @ polynomials(w, coefficients.shape[2]).T
    found = polynomials(x, coefficients.shape[1]) @ in_w
    return (found - metric.log_sqrt(x[None], w)).abs().amax((1, 2))


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
