"""Boundary value problem of all ordered pairs of stations in closed form, on a GPU.

From the arc length S, the moment M (integral of x sqrt(g)) and sqrt(g) at the stations, and the
least sqrt(g) between neighbours: l = S(b) - S(a), v0 = l / sqrt(g(a)), mean position
(M(b) - M(a)) / l, largest speed |l| / min sqrt(g). A program takes one source and a block of
wavelengths, and loops over the targets above or below it with a running minimum. Its inputs stay in
cache, and every result is written once.
"""

from typing import no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from geonode.devices.kernels.arguments import require_tensor
from geonode.errors import GeometryError

_CONFIGS = [
    triton.Config({"block": 128}, num_warps=4),
    triton.Config({"block": 64}, num_warps=2),
    triton.Config({"block": 128}, num_warps=2),
    triton.Config({"block": 256}, num_warps=4),
    triton.Config({"block": 512}, num_warps=4),
]


@triton.jit
@no_type_check
def _divide(a, b):
    """Correctly rounded quotient; in float32 the plain one is not."""
    if a.dtype == tl.float32:
        return tl.div_rn(a, b)
    else:
        return a / b


@triton.autotune(
    configs=_CONFIGS[:1] if triton.knobs.runtime.interpret else _CONFIGS,
    key=["stations", "wavelengths"],
)
@triton.jit
@no_type_check
def _join(
    v0,
    final,
    mean,
    size,
    fastest,
    place,
    position,
    arc_length,
    moment,
    root,
    slowest,
    wavelength,
    stations,
    wavelengths,
    block: tl.constexpr,
):
    upward = tl.program_id(1)  # 1: targets above the source, 0: below it
    source = tl.program_id(2).to(tl.int64)
    column = tl.program_id(0) * block + tl.arange(0, block)
    inside = column < wavelengths
    point = tl.minimum(column, wavelengths - 1)  # repeats the last column
    w = tl.load(wavelength + point)
    start = tl.load(arc_length + source * wavelengths + point)
    start_moment = tl.load(moment + source * wavelengths + point)
    start_root = tl.load(root + source * wavelengths + point)
    least = tl.full((block,), float("inf"), start.dtype)
    for step in range(upward * (stations - 1 - source) + (1 - upward) * source):
        target = source + (2 * upward - 1) * (step + 1)
        gap = tl.load(slowest + (target - upward) * wavelengths + point)
        least = tl.minimum(least, gap, propagate_nan=tl.PropagateNan.ALL)
        speed = tl.load(arc_length + target * wavelengths + point) - start
        turned = tl.load(moment + target * wavelengths + point) - start_moment
        cell = (source * (stations - 1) + target - upward) * wavelengths + column
        tl.store(v0 + cell, _divide(speed, start_root), mask=inside)
        tl.store(final + cell, tl.load(position + target), mask=inside)
        tl.store(mean + cell, _divide(turned, speed), mask=inside)
        tl.store(size + cell, tl.abs(speed), mask=inside)
        tl.store(fastest + cell, _divide(tl.abs(speed), least), mask=inside)
        tl.store(place + cell, w, mask=inside)


def all_pairs(
    positions: Float[Tensor, "station"],
    arc_length: Float[Tensor, "station wavelength"],
    moment: Float[Tensor, "station wavelength"],
    root: Float[Tensor, "station wavelength"],
    slowest: Float[Tensor, "gap wavelength"],
    wavelengths: Float[Tensor, "wavelength"],
) -> tuple[Float[Tensor, "pair wavelength"], Float[Tensor, "pair wavelength 5"]]:
    """First velocities and path features of every ordered pair of stations, sources outermost.

    Tensors are float32 or float64, and results have their format. In memory the feature is the
    outermost dimension.

    Args:
        positions: ascending stations.
        arc_length: S, the integral of sqrt(g), at the stations.
        moment: M, the integral of x sqrt(g), at the stations.
        root: sqrt(g) at the stations.
        slowest: least sqrt(g) between one station and the next, both included.
        wavelengths: charted wavelengths, the last feature.

    Raises:
        GeometryError: there are fewer than two stations or no wavelength, or a tensor has another
            shape or format, or is on another device than the positions.
    """
    stations, count, dtype = len(positions), len(wavelengths), positions.dtype
    if stations < 2:
        raise GeometryError(f"positions: found {stations} stations, expected at least 2")
    if dtype not in (torch.float32, torch.float64):
        raise GeometryError(f"positions: found {dtype}, expected torch.float32 or torch.float64")
    named: list[tuple[str, Tensor, tuple[int | None, ...]]] = [
        ("wavelengths", wavelengths, (None,)),
        ("arc_length", arc_length, (stations, count)),
        ("moment", moment, (stations, count)),
        ("root", root, (stations, count)),
        ("slowest", slowest, (stations - 1, count)),
    ]
    for name, tensor, shape in named:
        require_tensor(name, tensor, shape, dtype, positions.device)
    pairs = stations * (stations - 1)
    v0 = positions.new_empty(pairs, count)
    features = positions.new_empty(5, pairs, count)
    inputs = (positions, arc_length, moment, root, slowest, wavelengths)
    _join[lambda chosen: (triton.cdiv(count, chosen["block"]), 2, stations)](
        v0, *features, *(part.contiguous() for part in inputs), stations, count
    )
    return v0, features.movedim(0, -1)
