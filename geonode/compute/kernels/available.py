"""Availability of the kernels of this package."""

from importlib.util import find_spec

import torch

NARROWEST, WIDEST = 16, 128  # sides of a matrix product on the GPU
AMPERE = (8, 0)
FACTOR_FORMATS = (torch.float32, torch.bfloat16)  # of factors


def usable(device: torch.device) -> bool:
    """True if kernels run on a device: a CUDA GPU from Ampere on, with Triton installed.

    Older GPUs are not supported by Triton, have no products in tf32 and bfloat16, and less shared
    memory than the largest program takes, 74 kB.
    """
    installed = device.type == "cuda" and find_spec("triton") is not None
    return installed and torch.cuda.get_device_capability(device) >= AMPERE


def trains(sizes: tuple[int, ...], products: torch.dtype) -> bool:
    """True if `geonode.compute.kernels.perceptron` supports networks of these sizes.

    Sizes are those of every layer, inputs first; products are in the given format.
    """
    powers = all(NARROWEST <= size <= WIDEST and size.bit_count() == 1 for size in sizes[1:-1])
    ends = sizes[0] <= NARROWEST and sizes[-1] == 1
    return len(sizes) == 4 and powers and ends and products in FACTOR_FORMATS
