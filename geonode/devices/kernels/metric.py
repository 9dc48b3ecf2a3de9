"""Ln sqrt(g) and the Christoffel symbol of a learned metric, as one program on the card.

g = softplus(f) + 0.1 with f a perceptron 2 -> 64 -> 128 -> 1 and G = 1/2 d/dx ln g. A program takes
a block of rows (x, w) from the first layer to the last, values and derivatives with respect to x
side by side; hidden layers never leave the registers and only the two results are written.
"""

from typing import no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from geonode.devices.kernels.arguments import require_tensor

SIZES = (2, 64, 128, 1)
PRECISION = "ieee"  # of products: float32 throughout, no matrix units

_CONFIGS = [
    triton.Config({"block": 64, "chunk": 16}, num_warps=8),
    triton.Config({"block": 128, "chunk": 16}, num_warps=8),
    triton.Config({"block": 32, "chunk": 16}, num_warps=8),
    triton.Config({"block": 32, "chunk": 16}, num_warps=4),
    triton.Config({"block": 64, "chunk": 16}, num_warps=16),
]


@triton.jit
@no_type_check
def _tanh(a):
    """Tanh and its derivative, each to a few roundings wherever a lies.

    Near zero the polynomial of S. L. Moshier's Cephes library (tanhf.c), elsewhere exp(-2 |a|),
    which does not overflow and gives the derivative without a cancelling 1 - tanh^2; the card's
    quotient is refined by a step of Newton's.
    """
    size = tl.abs(a)
    z = a * a
    tail = -5.70498872745e-3
    tail = tail * z + 2.06390887954e-2
    tail = tail * z - 5.37397155531e-2
    tail = tail * z + 1.33314422036e-1
    tail = tail * z - 3.33332819422e-1
    near = a + a * z * tail
    decay = tl.exp(-2.0 * size)
    above = 1.0 + decay
    share = 1.0 / above
    share = share + share * (1.0 - above * share)
    far = 1.0 - 2.0 * decay * share
    far = tl.where(a < 0.0, -far, far)
    small = size < 0.625
    value = tl.where(small, near, far)
    return value, tl.where(small, 1.0 - near * near, 4.0 * decay * share * share)


@triton.jit
@no_type_check
def _log(value):
    """Natural logarithm of positive float32 numbers; NaN and infinity are kept.

    The card's own instruction errs by 2^-22, absolutely or relatively. Here 2^k m with m between
    sqrt(1/2) and sqrt(2) and ln m = 2 artanh((m - 1) / (m + 1)); ln 2 as in Cephes (logf.c).
    """
    bits = value.to(tl.int32, bitcast=True)
    exponent = (bits - 0x3F3504F3) >> 23
    mantissa = (bits - (exponent << 23)).to(tl.float32, bitcast=True)
    s = tl.div_rn(mantissa - 1.0, mantissa + 1.0)
    z = s * s
    series = 2.0 * s + s * z * (2 / 3 + z * (2 / 5 + z * (2 / 7 + z * (2 / 9))))
    k = exponent.to(tl.float32)
    found = k * 0.693359375 + (series - k * 2.12194440e-4)
    return tl.where(value < float("inf"), found, value)


@triton.autotune(
    configs=_CONFIGS[:1] if triton.knobs.runtime.interpret else _CONFIGS, key=["wavelengths"]
)
@triton.jit
@no_type_check
def _log_sqrt_and_symbol(
    log_sqrt,
    symbol,
    position,
    wavelength,
    weight0,
    bias0,
    weight1,
    bias1,
    weight2,
    bias2,
    rows,
    wavelengths,
    first: tl.constexpr,
    second: tl.constexpr,
    precision: tl.constexpr,
    block: tl.constexpr,
    chunk: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    point = tl.minimum(row, rows - 1)  # beyond the last row the last one is computed again
    x = tl.load(position + point // wavelengths)[:, None]
    w = tl.load(wavelength + point % wavelengths)[:, None]
    column = tl.arange(0, second)
    argument = tl.zeros((block, second), tl.float32) + tl.load(bias1 + column)[None, :]
    change = tl.zeros((block, second), tl.float32)
    # the first layer is made a few units at a time, when the second needs them
    for start in range(0, first, chunk):
        unit = start + tl.arange(0, chunk)
        along = tl.load(weight0 + unit)[None, :]
        across = tl.load(weight0 + first + unit)[None, :]
        hidden, slope = _tanh(tl.load(bias0 + unit)[None, :] + x * along + w * across)
        matrix = tl.load(weight1 + unit[:, None] * second + column[None, :])
        argument = tl.dot(hidden, matrix, argument, input_precision=precision)
        change = tl.dot(slope * along, matrix, change, input_precision=precision)
    hidden, slope = _tanh(argument)
    last = tl.load(weight2 + column)[None, :]
    value = tl.sum(hidden * last, axis=1) + tl.load(bias2)
    change = tl.sum(slope * change * last, axis=1)
    # every thread that works on a row holds its sums; through memory, one of them finishes it
    tl.store(log_sqrt + row, value, mask=row < rows)
    tl.store(symbol + row, change, mask=row < rows)
    tl.debug_barrier()
    value = tl.load(log_sqrt + point)
    change = tl.load(symbol + point)
    tl.debug_barrier()

    decay = tl.exp(-tl.abs(value))
    decay = decay - decay * (tl.abs(value) + _log(decay))  # less the error of the card's exp
    above = 1.0 + decay
    # ln(1 + decay): what rounding took from 1 + decay is given back to first order
    softplus = tl.maximum(value, 0.0) + (_log(above) + tl.div_rn(decay - (above - 1.0), above))
    metric = softplus + 0.1
    logistic = tl.div_rn(tl.where(value < 0.0, decay, 1.0), above)
    tl.store(log_sqrt + row, 0.5 * _log(metric), mask=row < rows)
    tl.store(symbol + row, tl.div_rn(logistic * change, 2.0 * metric), mask=row < rows)


def log_sqrt_and_symbol(
    weights: tuple[Float[Tensor, "2 64"], Float[Tensor, "64 128"], Float[Tensor, "128 1"]],
    biases: tuple[Float[Tensor, "1 64"], Float[Tensor, "1 128"], Float[Tensor, "1 1"]],
    positions: Float[Tensor, "node"],
    wavelengths: Float[Tensor, "wavelength"],
) -> tuple[Float[Tensor, "node wavelength"], Float[Tensor, "node wavelength"]]:
    """Ln sqrt(g) and the Christoffel symbol of one metric on a product, in float32.

    No gradient flows back.

    Args:
        weights: of the three layers of the perceptron.
        biases: the same.
        positions: in chart units.
        wavelengths: in chart units.

    Raises:
        GeometryError: the layers have other sizes, a tensor is not float32 or not on the device
            of the positions, or there is no position or no wavelength.
    """
    named: list[tuple[str, Tensor, tuple[int | None, ...]]] = [
        *((f"weights[{i}]", weights[i], SIZES[i : i + 2]) for i in range(3)),
        *((f"biases[{i}]", biases[i], (1, SIZES[i + 1])) for i in range(3)),
        ("positions", positions, (None,)),
        ("wavelengths", wavelengths, (None,)),
    ]
    for name, tensor, shape in named:
        require_tensor(name, tensor, shape, torch.float32, positions.device)
    nodes, count = len(positions), len(wavelengths)
    log_sqrt, symbol = (positions.new_empty(nodes, count) for _ in range(2))
    layers = [part.contiguous() for layer in zip(weights, biases, strict=True) for part in layer]
    _log_sqrt_and_symbol[lambda chosen: (triton.cdiv(nodes * count, chosen["block"]),)](
        log_sqrt,
        symbol,
        positions.contiguous(),
        wavelengths.contiguous(),
        *layers,
        nodes * count,
        count,
        first=SIZES[1],
        second=SIZES[2],
        precision=PRECISION,
    )
    return log_sqrt, symbol
