"""How matrices of single-precision numbers are multiplied while networks are trained."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

# (rows, inputs, outputs) of the products of a training step, and what is tried of each.
_SHAPES = ((64, 64, 128), (2500, 64, 128))
_MKLDNN: Any = torch.backends.mkldnn  # oneDNN, by its former name
_SINGLE = 1e-4  # a thousand times the rounding of single precision, a fiftieth of that of bfloat16


@contextmanager
def fast_products(device: torch.device, *, tf32: bool = False) -> Iterator[None]:
    """Multiply in the fastest way that the format allows, inside the body.

    On a CPU torch has two libraries for matrices of float32, MKL and oneDNN, and asks oneDNN only
    if that may round factors to bfloat16. On processors without instructions that do so it computes
    in full single precision, and on some of them twice as fast. Which is the case is found by
    multiplying, so nothing is ever rounded further than float32.

    Args:
        device: where.
        tf32: whether a CUDA device may round factors to 10 bits of mantissa.
    """
    if device.type == "cuda":
        library: Any = torch.backends.cuda.matmul
        wanted = "tf32" if tf32 else "ieee"
    elif device.type == "cpu" and _onednn_is_exact():
        library, wanted = _MKLDNN.matmul, "bf16"
    else:
        yield
        return
    before = library.fp32_precision
    library.fp32_precision = wanted
    try:
        yield
    finally:
        library.fp32_precision = before


@cache
def _onednn_is_exact() -> bool:
    """Whether oneDNN keeps single precision although it is allowed to round."""
    if not _MKLDNN.is_available():
        return False
    before = _MKLDNN.matmul.fp32_precision
    _MKLDNN.matmul.fp32_precision = "bf16"
    try:
        return max(map(_error, _SHAPES)) < _SINGLE
    finally:
        _MKLDNN.matmul.fp32_precision = before


def _error(shape: tuple[int, int, int]) -> float:
    """Largest error of the products that a layer of this shape takes, relative to the values."""
    rows, inputs, outputs = shape
    generator = torch.Generator().manual_seed(0)
    values, errors, weights = (
        torch.rand(1, *size, generator=generator) - 0.5
        for size in ((rows, inputs), (rows, outputs), (inputs, outputs))
    )
    pairs = ((values, weights), (errors, weights.mT), (values.mT, errors))
    return max(_relative(torch.bmm(*pair), *pair) for pair in pairs)


def _relative(
    product: Float[Tensor, "1 row column"],
    left: Float[Tensor, "1 row inner"],
    right: Float[Tensor, "1 inner column"],
) -> float:
    exact = left.double() @ right.double()
    return float((product.double() - exact).abs().max() / exact.abs().max())
