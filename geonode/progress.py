"""How long-running work says how far it is."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Report = Callable[[int], None]
"""Called with the number of units of work done since the last call."""


def silent(_: int) -> None:
    """A `Report` that says nothing."""


@contextmanager
def bar(label: str, total: int) -> Iterator[Report]:
    """A progress bar on stderr, silent when stderr is no terminal.

    Yields:
        A function to call with the number of units done since the last call.
    """
    if not sys.stderr.isatty():
        yield silent
        return
    from rich.console import Console  # noqa: PLC0415 - only where there is someone to look
    from rich.progress import Progress  # noqa: PLC0415

    with Progress(console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(label, total=total)
        yield lambda done: shown.advance(task, done)
