"""Whether the kernels of this package can run."""

from importlib.util import find_spec

import torch

NARROWEST, WIDEST = 16, 128  # sides of a product on the card
ROWS = 32  # of a program, whose gradient of the parameters is one part of their sum
FORMATS = (torch.float32, torch.bfloat16, torch.float16)


def usable(device: torch.device) -> bool:
    """Whether kernels run on a device: on CUDA, where Triton is installed."""
    return device.type == "cuda" and find_spec("triton") is not None


def trains(sizes: tuple[int, ...], products: torch.dtype) -> bool:
    """Whether `geonode.devices.kernels.perceptron` is of networks like these.

    Args:
        sizes: width of every layer, inputs first.
        products: format of factors.
    """
    powers = all(NARROWEST <= size <= WIDEST and size.bit_count() == 1 for size in sizes[1:-1])
    ends = max(sizes[0], sizes[-1]) <= NARROWEST
    return len(sizes) == 4 and powers and ends and products in FORMATS
