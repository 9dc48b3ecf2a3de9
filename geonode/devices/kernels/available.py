"""Whether the kernels of this package can run."""

import importlib

import torch


def usable(device: torch.device) -> bool:
    """Whether kernels run on a device: on CUDA, or anywhere by Triton's interpreter.

    The interpreter is there for tests: it is chosen by the environment (TRITON_INTERPRET=1) and
    far slower than torch.
    """
    try:
        triton = importlib.import_module("triton")
    except ImportError:
        return False
    return device.type == "cuda" or bool(triton.knobs.runtime.interpret)
