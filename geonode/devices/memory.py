"""Fallback on GPU out-of-memory."""

import gc
import logging
from collections.abc import Callable
from typing import TypeVar

import torch

T = TypeVar("T")

_LOG = logging.getLogger(__name__)


def unless_out_of_memory(work: Callable[[], T], instead: str) -> T | None:
    """Result of a function; None if the GPU ran out of memory, which is freed then.

    Work is divided by the memory free at that time; other processes may take some of it later.

    Args:
        work: function that returns anything but None.
        instead: description of the fallback, for the log.
    """
    try:
        return work()
    except torch.OutOfMemoryError as error:
        _LOG.warning("%s; %s", str(error).splitlines()[0], instead)
    if torch.cuda.is_initialized():
        # outside of the except block, where the error no longer holds the arrays
        gc.collect()
        torch.cuda.empty_cache()
    return None
