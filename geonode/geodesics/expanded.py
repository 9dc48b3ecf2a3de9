"""Stations straight from the Chebyshev expansion of a metric, without a grid.

Where a grid is integrated at all its nodes, only the gaps between stations are needed here, by
Gauss-Legendre quadrature: for an analytic metric some ten nodes a gap give nearly all digits. That
is the shortest way from a network to first velocities and path features.
"""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from geonode.geodesics.stations import Stations
from geonode.geometry.chebyshev import differentiation, polynomials
from geonode.geometry.grid import moved
from geonode.geometry.sources import ChebyshevSource

NEWTON_STEPS = 3  # from the least node of a gap to the minimum in it


def expanded_stations(
    source: ChebyshevSource,
    model: int,
    positions: Float[Tensor, "station"],
    wavelengths: Float[Tensor, "wavelength"],
    nodes: int,
) -> Stations:
    """A metric at stations.

    Args:
        source: of the expansion.
        model: which metric.
        positions: ascending stations; their format and device are those of the result.
        wavelengths: charted wavelengths of the source.
        nodes: of the quadrature in every gap.
    """
    lines = source.lines(model, positions)
    points, weights = (
        moved(torch.from_numpy(p), positions) for p in np.polynomial.legendre.leggauss(nodes)
    )
    half = positions.diff()[:, None] / 2
    inside = positions[:-1, None] + half * (1 + points)
    every = torch.cat([inside.flatten(), positions])
    log_sqrt = polynomials(every, len(lines)) @ lines
    root = torch.exp(log_sqrt)
    in_gaps = root[: inside.numel()].unflatten(0, inside.shape)
    lengths = torch.einsum("gn,gnw->gw", half * weights, in_gaps)
    moments = torch.einsum("gn,gnw->gw", half * weights * inside, in_gaps)
    ends = log_sqrt[inside.numel() :]
    return Stations(
        positions,
        _summed(lengths),
        _summed(moments),
        root[inside.numel() :],
        torch.exp(_minima(lines, positions, inside, log_sqrt[: inside.numel()], ends)),
        wavelengths,
    )


def _summed(parts: Float[Tensor, "gap wavelength"]) -> Float[Tensor, "station wavelength"]:
    """Integrals up to every station from those over the gaps."""
    return torch.cat([torch.zeros_like(parts[:1]), parts.cumsum(0)])


def _minima(
    lines: Tensor, positions: Tensor, inside: Tensor, log_sqrt: Tensor, ends: Tensor
) -> Float[Tensor, "gap wavelength"]:
    """Least ln sqrt(g) of every gap: from its least node by Newton's method on the slope."""
    at_nodes, least = log_sqrt.unflatten(0, inside.shape).min(1)
    low, high = positions[:-1, None], positions[1:, None]
    x = inside.gather(1, least)
    matrix = differentiation(len(lines), lines.device, lines.dtype)
    slopes = matrix @ lines
    both = torch.stack([slopes, matrix @ slopes], dim=1)
    for _ in range(NEWTON_STEPS):
        slope, bend = _series(both, x)
        step = torch.where(bend > 0, slope / bend, 0.0)  # elsewhere no minimum is near
        x = torch.clamp(x - step, low, high)
    found = torch.minimum(at_nodes, _series(lines, x))
    return torch.minimum(found, torch.minimum(ends[:-1], ends[1:]))


def _series(
    lines: Float[Tensor, "degree *series wavelength"], x: Float[Tensor, "gap wavelength"]
) -> Float[Tensor, "*series gap wavelength"]:
    """Every series at points of its own, by C. W. Clenshaw's recurrence (MTAC 9 (1955) 118)."""
    lines, twice = lines[..., None, :], 2 * x
    one = two = torch.zeros_like(lines[0] * x)
    for coefficients in reversed(lines[1:]):
        one, two = torch.addcmul(coefficients - two, twice, one), one
    return lines[0] + x * one - two
