"""Work that a card has no memory for, although it should have."""

import gc
import logging
from collections.abc import Callable
from typing import TypeVar

import torch

T = TypeVar("T")

_LOG = logging.getLogger(__name__)


def unless_out_of_memory(work: Callable[[], T], instead: str) -> T | None:
    """What work returns; None if the card had no memory for it, which is then free again.

    How much a card has is asked before work is divided; what other processes take later is not
    known then.

    Args:
        work: returns anything but None.
        instead: what is done if there is no memory, for the log.
    """
    try:
        return work()
    except torch.OutOfMemoryError as error:
        _LOG.warning("%s; %s", str(error).splitlines()[0], instead)
    if torch.cuda.is_initialized():
        # only here do the arrays of the work no longer belong to the error
        gc.collect()
        torch.cuda.empty_cache()
    return None
