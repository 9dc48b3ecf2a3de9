"""Whether the kernels of this package can run."""

from importlib.util import find_spec

import torch


def usable(device: torch.device) -> bool:
    """Whether kernels run on a device: on CUDA, where Triton is installed."""
    return device.type == "cuda" and find_spec("triton") is not None
