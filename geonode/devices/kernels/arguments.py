"""Checks of tensors before a kernel reads them."""

import torch
from jaxtyping import Shaped
from torch import Tensor

from geonode.errors import GeometryError


def require_tensor(
    name: str,
    tensor: Shaped[Tensor, "..."],
    shape: tuple[int | None, ...],
    dtype: torch.dtype,
    device: torch.device,
) -> None:
    """Refuse a tensor of another shape, format or device.

    Args:
        name: name of the argument.
        tensor: the argument.
        shape: expected shape; None is any length from 1 on.
        dtype: expected format.
        device: expected device.

    Raises:
        GeometryError: the tensor differs; the message names the argument.
    """
    fits = len(tensor.shape) == len(shape) and all(
        found > 0 if wanted is None else found == wanted
        for found, wanted in zip(tensor.shape, shape, strict=True)
    )
    if not fits or tensor.dtype != dtype or tensor.device != device:
        lengths = ", ".join("1 or more" if wanted is None else str(wanted) for wanted in shape)
        raise GeometryError(
            f"{name}: found {tensor.dtype} of shape {list(tensor.shape)} on {tensor.device}, "
            f"expected {dtype} of shape [{lengths}] on {device}"
        )
