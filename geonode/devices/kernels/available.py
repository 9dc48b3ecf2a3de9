"""Whether the kernels of this package can run."""

from importlib.util import find_spec

import torch

NARROWEST, WIDEST = 16, 128  # sides of a product on the card
ROWS = 32  # of a program, whose gradient of the parameters is one part of their sum
AMPERE = (8, 0)
FORMATS = (torch.float32, torch.bfloat16, torch.float16)


def usable(device: torch.device) -> bool:
    """Whether kernels run on a device: on cards of CUDA from Ampere on, where Triton is installed.

    Older ones are not supported by Triton, have no products in tf32 and bfloat16, and less memory
    for a program than the largest one takes, 74 kB.
    """
    installed = device.type == "cuda" and find_spec("triton") is not None
    return installed and torch.cuda.get_device_capability(device) >= AMPERE


def trains(sizes: tuple[int, ...], products: torch.dtype) -> bool:
    """Whether `geonode.devices.kernels.perceptron` is of networks like these.

    Args:
        sizes: width of every layer, inputs first.
        products: format of factors.
    """
    powers = all(NARROWEST <= size <= WIDEST and size.bit_count() == 1 for size in sizes[1:-1])
    ends = max(sizes[0], sizes[-1]) <= NARROWEST
    return len(sizes) == 4 and powers and ends and products in FORMATS
