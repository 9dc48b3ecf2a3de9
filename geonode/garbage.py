"""Garbage collection of a process that runs one command."""

import atexit
import gc
import sys

OBJECTS = 10_000
"""New objects between two collections; 700 to 2,000 by Python's own default."""


def collect_seldom() -> None:
    """Collect garbage less often in this process, and not at its end.

    A command imports some 400,000 objects and keeps them. Python looks through them again and again
    in the meantime, and once more before it returns their memory to the system, which takes it all
    the same: a fifth of the time to import torch and end.
    """
    gc.set_threshold(OBJECTS)
    atexit.register(_end)


def _end() -> None:
    if "triton" not in sys.modules:  # it reports what it does not get back, on stderr
        gc.freeze()
