"""Boundary value problem of all ordered pairs of stations in closed form, on a GPU.

The same as `geonode.geometry.stations.Stations.every_path` computes on a CPU. A program takes one
source and a block of wavelengths, and walks the targets above or below it with the sums over the
gaps on the way and their minimum. Its inputs stay in cache, and every result is written once.
"""

from collections.abc import Callable
from threading import Lock
from typing import no_type_check

import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor
from triton.testing import do_bench

_CONFIGS = [
    triton.Config({"block": 128}, num_warps=4),
    triton.Config({"block": 64}, num_warps=2),
    triton.Config({"block": 128}, num_warps=2),
    triton.Config({"block": 256}, num_warps=4),
    triton.Config({"block": 512}, num_warps=4),
]

_LAUNCH = Lock()
"""Locked during a launch: the tuner of triton keeps the arguments of a call in itself."""


def _time(call: Callable[[], None], quantiles: tuple[float, ...]) -> list[float]:
    """Quantiles of the milliseconds of a configuration."""
    # Triton's own defaults take a quarter of a second for each, in every process: more than a
    # kernel of some ten microseconds gains by the choice.
    found: list[float] = do_bench(call, warmup=1, rep=5, quantiles=quantiles)
    return found


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
    key=["stations", "wavelengths", "given"],
    do_bench=_time,
    cache_results=not triton.knobs.runtime.interpret,  # on disk, as other processes need them too
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
    length,
    moment,
    slowest,
    root,
    wavelength,
    stations,
    wavelengths,
    given: tl.constexpr,
    block: tl.constexpr,
):
    upward = tl.program_id(1)  # 1: targets above the source, 0: below it
    source = tl.program_id(2).to(tl.int64)
    column = tl.program_id(0) * block + tl.arange(0, block)
    inside = column < wavelengths
    point = tl.minimum(column, wavelengths - 1)  # repeats the last column
    w = tl.load(wavelength + point)
    start = tl.load(root + source * wavelengths + point)
    way = tl.zeros((block,), start.dtype)
    turned = tl.zeros((block,), start.dtype)
    least = tl.full((block,), float("inf"), start.dtype)
    for step in range(upward * (stations - 1 - source) + (1 - upward) * source):
        target = source + (2 * upward - 1) * (step + 1)
        gap = (target - upward) * wavelengths + point
        way += tl.load(length + gap)
        turned += tl.load(moment + gap)
        least = tl.minimum(least, tl.load(slowest + gap), propagate_nan=tl.PropagateNan.ALL)
        cell = (source * (stations - 1) + target - upward) * wavelengths + column
        if given:
            path = tl.abs(tl.load(v0 + cell, mask=inside, other=1.0) * start)
        else:
            path = way
            speed = _divide(path, start)
            tl.store(v0 + cell, tl.where(upward == 1, speed, -speed), mask=inside)
        tl.store(final + cell, tl.load(position + target), mask=inside)
        tl.store(mean + cell, _divide(turned, path), mask=inside)
        tl.store(size + cell, path, mask=inside)
        tl.store(fastest + cell, _divide(path, least), mask=inside)
        tl.store(place + cell, w, mask=inside)


def all_pairs(
    positions: Float[Tensor, "station"],
    length: Float[Tensor, "gap wavelength"],
    moment: Float[Tensor, "gap wavelength"],
    slowest: Float[Tensor, "gap wavelength"],
    root: Float[Tensor, "station wavelength"],
    wavelengths: Float[Tensor, "wavelength"],
    v0: Float[Tensor, "pair wavelength"] | None = None,
) -> tuple[Float[Tensor, "pair wavelength"], Float[Tensor, "pair wavelength 5"]]:
    """First velocities and path features of every ordered pair of stations, sources outermost.

    Tensors are float32 or float64, and results have their format. In memory the feature is the
    outermost dimension.

    Args:
        positions: ascending stations.
        length: integral of sqrt(g) from one station to the next.
        moment: that of x sqrt(g).
        slowest: least sqrt(g) from one station to the next, both included.
        root: sqrt(g) at the stations.
        wavelengths: charted, the last feature.
        v0: first velocities from which the features are to follow.
    """
    stations, count = len(positions), len(wavelengths)
    pairs = stations * (stations - 1)
    found = positions.new_empty(pairs, count) if v0 is None else v0.contiguous()
    features = positions.new_empty(5, pairs, count)
    inputs = (positions, length, moment, slowest, root, wavelengths)
    with _LAUNCH:
        _join[lambda chosen: (triton.cdiv(count, chosen["block"]), 2, stations)](
            *(found, *features),
            *(part.contiguous() for part in inputs),
            *(stations, count),
            given=v0 is not None,
        )
    return found, features.movedim(0, -1)
