"""What torch is asked to compute: in which formats, and by how many threads."""

from contextlib import contextmanager

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

CREATION = torch.ops.aten.lift_fresh.default


@contextmanager
def threads(count):
    """Context with some threads of torch, and afterwards with as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class NoFloat64(TorchDispatchMode):
    """Raises on every operation that takes or gives a float64 tensor.

    Numbers of NumPy that become a tensor of another format are float64 for a moment, on the CPU
    whatever the device; that much is allowed.
    """

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func is CREATION:
            return result
        if func is torch.ops.aten._to_copy.default and result.dtype != torch.float64:
            return result
        for leaf in tree_leaves((args, kwargs, result)):
            if isinstance(leaf, torch.Tensor) and leaf.dtype == torch.float64:
                raise TypeError(f"{func} on float64")
        return result


class NoWideningMove(TorchDispatchMode):
    """Raises on a copy to float64 that also names a device, which fails when it leaves MPS."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if (
            func is torch.ops.aten._to_copy.default
            and kwargs.get("dtype") == torch.float64 != args[0].dtype
            and kwargs.get("device") is not None
        ):
            raise TypeError("moved and widened at once")
        return func(*args, **kwargs)
