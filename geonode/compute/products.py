"""Fast matrix products in single precision while networks are trained."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch

# (rows, inputs, outputs) of typical products of a training step, tried for their accuracy.
_SHAPES = ((64, 64, 128), (2500, 64, 128), (64, 2500, 128))
_MKLDNN: Any = torch.backends.mkldnn  # oneDNN, by its former name
_SINGLE = 1e-4  # a thousand times the rounding of single precision, a fiftieth of that of bfloat16


@contextmanager
def fast_products(device: torch.device, *, tf32: bool = False) -> Iterator[None]:
    """Context with the fastest matrix products of the format.

    On a CPU torch has two libraries for float32 matrices, MKL and oneDNN, and uses oneDNN only if
    it may round factors to bfloat16. On processors without bfloat16 instructions oneDNN computes in
    full single precision, on some of them twice as fast. A trial product decides, so that nothing
    is rounded further than float32. By `tf32` a CUDA device may round factors to 10 bits of
    mantissa.
    """
    if device.type == "cuda":
        with _rounding(torch.backends.cuda.matmul, "tf32" if tf32 else "ieee"):
            yield
    elif device.type == "cpu" and onednn_is_exact():
        with _rounding(_MKLDNN.matmul, "bf16"):
            yield
    else:
        yield


@contextmanager
def _rounding(library: Any, allowed: str) -> Iterator[None]:
    """Context in which a library may round factors to a format."""
    before = library.fp32_precision
    library.fp32_precision = allowed
    try:
        yield
    finally:
        library.fp32_precision = before


@cache
def onednn_is_exact() -> bool:
    """True if oneDNN keeps single precision when allowed to round."""
    if not _MKLDNN.is_available():
        return False
    generator = torch.Generator().manual_seed(0)
    with _rounding(_MKLDNN.matmul, "bf16"):
        for rows, inner, columns in _SHAPES:
            left, right = (
                torch.rand(1, *size, generator=generator) - 0.5
                for size in ((rows, inner), (inner, columns))
            )
            exact = left.double() @ right.double()
            if (torch.bmm(left, right) - exact).abs().max() > _SINGLE * exact.abs().max():
                return False
    return True
