"""Grids from a Chebyshev expansion of ln sqrt(g): thousands of network calls instead of a million.

The network is analytic, so its expansion converges geometrically. The grid is then two small matrix
products, and the Christoffel symbol comes from the derivative of the same polynomials, which is
exact for the expansion. The decay of the coefficients decides when to stop.

Source: L. N. Trefethen, Approximation Theory and Approximation Practice, SIAM 2013, chapters 3, 4
and 8; the stopping rule is that of J. L. Aurentz and L. N. Trefethen, Chopping a Chebyshev
series, ACM TOMS 43 (2017), reduced to "the last eighth of the coefficients is negligible" and
followed by a check at random points.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from geonode.errors import GeometryError
from geonode.geometry.grid import Grid, matched
from geonode.geometry.metric import Metric

SIDES = ("concentration", "wavelength")
FIRST_DEGREES = (24, 48)  # in concentration, and in wavelength, which most metrics need more of
DEGREE_GROWTH = 1.5  # of a degree that was not enough
RANDOM_POINTS = 8  # in each direction
SLACK = 10
TOLERANCE = 3e-10  # of trailing coefficients
LARGEST_DEGREE = 2048  # of a metric that is not refused as too sharp


@dataclass(frozen=True)
class ChebyshevSource:
    """Grids from a Chebyshev expansion: two small matrix products, however many nodes."""

    coefficients: Sequence[Float[Tensor, "..."]]
    """Of ln sqrt(g) for every model, `(degree_x, degree_w)`, float64. Each has the degrees that it
    needs."""
    in_w: Float[Tensor, "degree_w wavelength"]
    """Chebyshev polynomials at the wavelengths of the series, float64."""
    calls: int  # network calls that the expansion of a model cost, on average

    @classmethod
    def of(
        cls,
        metric: Metric,
        wavelengths: Float[Tensor, "wavelength"],
        tolerance: float = TOLERANCE,
        largest_degree: int = LARGEST_DEGREE,
    ) -> "ChebyshevSource":
        """Expand float64 metrics.

        Raises:
            GeometryError: a metric is not finite, or too sharp for the largest degree.
        """
        models = range(metric.network.models)
        expansions = [expand(metric[model], tolerance, largest_degree, model) for model in models]
        coefficients = [found for found, _ in expansions]
        degree = max(part.shape[1] for part in coefficients)
        in_w = polynomials(matched(wavelengths, coefficients[0]), degree).T
        calls = sum(calls for _, calls in expansions) // len(expansions)
        return cls(coefficients, in_w, calls)

    def grid(self, model: int, positions: Float[Tensor, "node"]) -> Grid:
        """Sums of polynomials, and those of the derivatives of the series."""
        # Before any matrix product: cuBLAS warns if it is the first to use a GPU in a thread.
        values = polynomials(positions, len(self.coefficients[model]))
        coefficients = self.coefficients[model]
        lines = coefficients @ self.in_w[: coefficients.shape[1]]
        lines = lines.to(positions.dtype).to(positions.device)  # for devices without float64
        slopes = differentiation(len(lines), lines.device, lines.dtype) @ lines
        return Grid(positions, values @ lines, values @ slopes)


def expand(
    metric: Metric, tolerance: float, largest_degree: int, model: int
) -> tuple[Float[Tensor, "degree_x degree_w"], int]:
    """Expand ln sqrt(g) to the degrees at which its coefficients have decayed.

    Coefficients that have decayed are believed only if the expansion agrees with the network at
    random points: a feature that falls between the interpolation points, or is aliased there,
    leaves no trace in the coefficients.

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
    like = metric.network.parameters[0]
    on = (like.device, like.dtype)
    degrees, calls = [min(degree, largest_degree) for degree in FIRST_DEGREES], 0
    while True:
        (x, to_x), (w, to_w) = (_points(degree, *on) for degree in degrees)
        coefficients = to_x @ metric.log_sqrt(x, w)[0] @ to_w.T
        (some_x, at_x), (some_w, at_w) = (_check(axis, degrees[axis], *on) for axis in (0, 1))
        errors = at_x @ coefficients @ at_w.T - metric.log_sqrt(some_x, some_w)[0]
        error = float(errors.abs().max())  # not finite if any value of the metric is not
        calls += degrees[0] * degrees[1] + RANDOM_POINTS**2
        if not math.isfinite(error):
            raise GeometryError(f"the metric of model {model} is not finite; train it again")
        magnitudes = coefficients.abs()
        along = (magnitudes.amax(1), magnitudes.amax(0))
        # the last eighth of the coefficients of an axis, at least two
        tails = [float(part[-max(2, len(part) // 8) :].max()) for part in along]
        if max(tails) <= tolerance:
            if error <= SLACK * tolerance:
                return coefficients, calls
            tails = [error, error]  # the coefficients do not show which axis is to blame
        for axis, tail in enumerate(tails):
            if tail > tolerance:
                if degrees[axis] == largest_degree:
                    raise GeometryError(
                        f"the metric of model {model} is too sharp in {SIDES[axis]}: at degree "
                        f"{largest_degree} its Chebyshev expansion is still off by about "
                        f"{tail:.1e}, expected at most {tolerance:g}; raise "
                        "metric.smoothness_weight"
                    )
                degrees[axis] = min(math.ceil(DEGREE_GROWTH * degrees[axis]), largest_degree)


def polynomials(points: Float[Tensor, "point"], count: int) -> Float[Tensor, "point degree"]:
    """T_0 to T_{count-1}: T_k(x) = cos(k arccos x)."""
    orders = torch.arange(count, device=points.device, dtype=points.dtype)
    return torch.cos(orders * torch.arccos(points.clamp(-1, 1))[:, None])


def differentiation(
    count: int, device: torch.device, dtype: torch.dtype
) -> Float[Tensor, "degree degree"]:
    """Matrix from the coefficients of a series to those of its derivative.

    T_n' is 2 n times the sum of the T_k with k < n and n - k odd, T_0 by half (J. C. Mason and
    D. C. Handscomb, Chebyshev Polynomials, 2003, section 2.4.5).
    """
    k, n = (torch.arange(count, device=device)[at] for at in ((slice(None), None), (None,)))
    matrix = torch.where((n > k) & ((n - k) % 2 == 1), 2 * n, 0).to(dtype)
    matrix[0] /= 2
    return matrix


def _points(count: int, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Chebyshev points of the first kind and the matrix from values there to coefficients."""
    orders = torch.arange(count, device=device, dtype=dtype)
    angles = (orders + 0.5) * (math.pi / count)
    matrix = torch.cos(orders[:, None] * angles) * (2 / count)
    matrix[0] /= 2
    return torch.cos(angles), matrix


def _check(
    axis: int, count: int, device: torch.device, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Random points of an axis, always the same, and the polynomials there."""
    generator = torch.Generator().manual_seed(axis)
    points = 2 * torch.rand(RANDOM_POINTS, generator=generator, dtype=torch.float64) - 1
    points = points.to(device, dtype)
    return points, polynomials(points, count)
