"""Forward and backward pass of perceptrons of two hidden layers and one output, on a GPU.

A program takes some rows of one model and keeps their hidden values on chip. The backward pass
computes them again, so that GPU memory contains only inputs, outputs and their errors. Gradients of
weights are summed program by program in a fixed order, so that the same training gives the same
bits. Formulas: `geonode.geometry.trainable`.
"""

from typing import Any, no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from geonode.compute.kernels.available import NARROWEST

# Per program, which adds one term to the gradient of the parameters. Measured on an H100 and not
# tuned on every GPU, as that would change the order of sums. With eight blocks of rows a program
# the backward pass takes 0.8 of the time, and 123 kB of shared memory in place of 49.
ROWS, WARPS, STAGES = 32, 4, 1
SHORT = tl.constexpr(32)  # products that are summed by the hardware
_FORMATS = {torch.float32: tl.float32, torch.bfloat16: tl.bfloat16}


@triton.jit
@no_type_check
def _tanh(sums):
    """Hyperbolic tangent, near zero by a polynomial, where the difference would cancel.

    Source of the polynomial: S. L. Moshier, Methods and Programs for Mathematical Functions, Ellis
    Horwood 1989, as in the function tanhf of his library Cephes.
    """
    square = sums * sums
    odd = -5.70498872745e-3 * square + 2.06390887954e-2
    odd = (odd * square - 5.37397155531e-2) * square + 1.33314422036e-1
    odd = (odd * square - 3.33332819422e-1) * square
    return tl.where(square < 0.390625, sums + sums * odd, 1 - 2 / (tl.exp(2 * sums) + 1))


@triton.jit
@no_type_check
def _nearest(factor):
    """Nearest number of 10 bits after the point; the product itself would truncate."""
    bits = factor.to(tl.int32, bitcast=True)
    rounded = ((bits + 0x1000) & -0x2000).to(tl.float32, bitcast=True)
    return tl.where(factor == factor, rounded, factor)  # noqa: PLR0124 - NaN stays


@triton.jit
@no_type_check
def _dot(left, right, rounded: tl.constexpr):
    """Product of two matrices.

    In single precision every factor is a sum of two parts. The hardware truncates its sums, so long
    sums are made of short ones, which are added with correct rounding.
    """
    rows: tl.constexpr = left.shape[0]
    half: tl.constexpr = left.shape[1] // 2
    columns: tl.constexpr = right.shape[1]
    # code after a return would be compiled too, unless in another branch
    if left.dtype != tl.float32:
        product = tl.dot(left, right)
    elif rounded:
        product = tl.dot(_nearest(left), _nearest(right), input_precision="tf32")
    elif 2 * half <= SHORT:
        product = tl.dot(left, right, input_precision="tf32x3")
    else:
        a, b = tl.split(tl.permute(tl.reshape(left, (rows, 2, half)), (0, 2, 1)))
        c, d = tl.split(tl.permute(tl.reshape(right, (2, half, columns)), (1, 2, 0)))
        product = _dot(a, c, rounded) + _dot(b, d, rounded)
    return product


@triton.jit
@no_type_check
def _hidden(rows, weight, bias, rounded: tl.constexpr):
    """Values of the units of a layer, in the format of the products."""
    sums = _dot(rows, weight, rounded) + bias[None, :]
    return _tanh(sums).to(rows.dtype)


@triton.jit
@no_type_check
def _through(error, values):
    """Error of the sums of a layer from the error of its values."""
    values = values.to(tl.float32)
    return error * (1 - values * values)


@triton.jit
@no_type_check
def _matrix(start, high, wide, rows: tl.constexpr, columns: tl.constexpr, products: tl.constexpr):
    """Matrix of high x wide numbers, padded with zeros."""
    row = tl.arange(0, rows)[:, None]
    column = tl.arange(0, columns)[None, :]
    inside = (row < high) & (column < wide)
    return tl.load(start + row * wide + column, mask=inside, other=0.0).to(products)


@triton.jit
@no_type_check
def _store_matrix(start, values, high, wide, rows: tl.constexpr, columns: tl.constexpr):
    row = tl.arange(0, rows)[:, None]
    column = tl.arange(0, columns)[None, :]
    tl.store(start + row * wide + column, values, mask=(row < high) & (column < wide))


@triton.jit
@no_type_check
def _vector(start, length: tl.constexpr):
    return tl.load(start + tl.arange(0, length))


@triton.jit
@no_type_check
def _forward(
    outputs,
    joined,
    inputs,
    rows,
    parameters,
    given,
    first: tl.constexpr,
    second: tl.constexpr,
    pad: tl.constexpr,
    block: tl.constexpr,
    products: tl.constexpr,
    rounded: tl.constexpr,
):
    model = tl.program_id(1).to(tl.int64)
    start = tl.program_id(0) * block
    weight1 = joined + model * parameters
    weight2 = weight1 + given * first
    weight3 = weight2 + first * second
    bias1 = weight3 + second
    bias2 = bias1 + first
    x = _matrix(inputs + (model * rows + start) * given, rows - start, given, block, pad, products)
    w1 = _matrix(weight1, given, first, pad, first, products)
    h1 = _hidden(x, w1, _vector(bias1, first), rounded)
    w2 = _matrix(weight2, first, second, first, second, products)
    h2 = _hidden(h1, w2, _vector(bias2, second), rounded)
    y = tl.sum(h2.to(tl.float32) * _vector(weight3, second)[None, :], 1) + tl.load(bias2 + second)
    row = start + tl.arange(0, block)
    tl.store(outputs + model * rows + row, y, mask=row < rows)


@triton.jit
@no_type_check
def _backward(
    gradient,
    of_inputs,
    joined,
    inputs,
    errors,
    rows,
    parameters,
    given,
    first: tl.constexpr,
    second: tl.constexpr,
    pad: tl.constexpr,
    block: tl.constexpr,
    products: tl.constexpr,
    rounded: tl.constexpr,
    to_inputs: tl.constexpr,
):
    model = tl.program_id(1).to(tl.int64)
    weight1 = joined + model * parameters
    weight2 = weight1 + given * first
    weight3 = weight2 + first * second
    bias1 = weight3 + second
    bias2 = bias1 + first
    w1 = _matrix(weight1, given, first, pad, first, products)
    w2 = _matrix(weight2, first, second, first, second, products)
    start = tl.program_id(0) * block
    left, at = rows - start, model * rows + start
    x = _matrix(inputs + at * given, left, given, block, pad, products)
    h1 = _hidden(x, w1, _vector(bias1, first), rounded)
    h2 = _hidden(h1, w2, _vector(bias2, second), rounded)
    # beyond the last row errors are zero, and so are their contributions
    row = tl.arange(0, block)
    e3 = tl.load(errors + at + row, mask=row < left, other=0.0)
    e2 = _through(e3[:, None] * _vector(weight3, second)[None, :], h2)
    e1 = _through(_dot(e2.to(products), tl.trans(w2), rounded), h1)
    of1 = gradient + (model * tl.num_programs(0) + tl.program_id(0)) * parameters
    of2 = of1 + given * first
    of3 = of2 + first * second
    bias = of3 + second
    _store_matrix(of1, _dot(tl.trans(x), e1.to(products), rounded), given, first, pad, first)
    of_w2 = _dot(tl.trans(h1), e2.to(products), rounded)
    _store_matrix(of2, of_w2, first, second, first, second)
    tl.store(of3 + tl.arange(0, second), tl.sum(h2.to(tl.float32) * e3[:, None], 0))
    tl.store(bias + tl.arange(0, first), tl.sum(e1, 0))
    tl.store(bias + first + tl.arange(0, second), tl.sum(e2, 0))
    tl.store(bias + first + second, tl.sum(e3, 0))
    if to_inputs:
        # not e1 w1^T, whose registers spill: the whole pass took 6.5 times as long on an H100
        back = tl.trans(_dot(w1, tl.trans(e1.to(products)), rounded))
        _store_matrix(of_inputs + at * given, back, left, given, block, pad)


def outputs(
    joined: Float[Tensor, "model parameter"],
    inputs: Float[Tensor, "model row input"],
    sizes: tuple[int, ...],
    products: torch.dtype,
) -> Float[Tensor, "model row output"]:
    """Outputs of networks, each at its own rows.

    Args:
        joined: weights of all layers, then their biases, each in C order and in float32.
        inputs: inputs of every model, in float32.
        sizes: sizes of all layers, such as `geonode.compute.kernels.available.trains` permits.
        products: format to which factors of products are rounded; sums are in float32.
    """
    models, rows, given = inputs.shape
    values = joined.new_empty(models, rows, 1)
    _forward[(triton.cdiv(rows, ROWS), models)](
        values, joined.contiguous(), inputs.contiguous(), rows, joined.shape[1], given,
        **_constants(sizes, products),
    )  # fmt: skip
    return values


def gradients(
    joined: Float[Tensor, "model parameter"],
    inputs: Float[Tensor, "model row input"],
    errors: Float[Tensor, "model row output"],
    sizes: tuple[int, ...],
    products: torch.dtype,
    *,
    of_inputs: bool,
) -> tuple[Float[Tensor, "model parameter"], Float[Tensor, "model row input"] | None]:
    """Gradients of parameters, and of inputs if requested, from those of the outputs.

    Further arguments are those of `outputs`.
    """
    models, rows, given = inputs.shape
    programs = triton.cdiv(rows, ROWS)
    parts = joined.new_empty(models, programs, joined.shape[1])
    back = torch.empty_like(inputs, memory_format=torch.contiguous_format) if of_inputs else None
    _backward[(programs, models)](
        parts, parts if back is None else back, joined.contiguous(), inputs.contiguous(),
        errors.contiguous(), rows, joined.shape[1], given, to_inputs=of_inputs,
        **_constants(sizes, products),
    )  # fmt: skip
    return parts.sum(1), back


def _constants(sizes: tuple[int, ...], products: torch.dtype) -> dict[str, Any]:
    rounded = torch.backends.cuda.matmul.fp32_precision == "tf32"
    return {
        "first": sizes[1],
        "second": sizes[2],
        "pad": NARROWEST,
        "block": ROWS,
        "products": _FORMATS[products],
        "rounded": rounded,
        "num_warps": WARPS,
        "num_stages": STAGES,
    }
