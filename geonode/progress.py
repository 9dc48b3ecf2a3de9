"""How long-running work says how far it is."""

from collections.abc import Callable

Report = Callable[[int], None]
"""Called with the number of units of work done since the last call."""


def silent(_: int) -> None:
    """A `Report` that says nothing."""
