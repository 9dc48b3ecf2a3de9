"""Progress of long-running work."""

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from geonode.terminal import printable

Progress = Callable[[int], None]
"""Callback for the number of units of work done since the last call."""

_LOG = logging.getLogger(__name__)
_QUIET = ContextVar("quiet", default=False)


def silent(_: int) -> None:
    """`Progress` that does nothing."""


@contextmanager
def quietly() -> Iterator[None]:
    """Context that shows no progress."""
    token = _QUIET.set(True)
    try:
        yield
    finally:
        _QUIET.reset(token)


def is_quiet() -> bool:
    """True while this is run inside `quietly`."""
    return _QUIET.get()


@contextmanager
def bar(label: str, total: int) -> Iterator[Progress]:
    """Progress bar on stderr, hidden if stderr is no terminal or inside `quietly`.

    At the log level DEBUG, the time and memory used are logged at the end.

    Args:
        label: name of the work.
        total: units of work.

    Yields:
        A function to call with the number of units done since the last call.
    """
    units, began = [0], time.perf_counter()
    try:
        with _shown(label, total) as report:

            def counted(done: int) -> None:
                units.append(done)  # from any thread
                report(done)

            yield counted
    finally:
        if _LOG.isEnabledFor(logging.DEBUG):
            from geonode.usage import memory_in_use  # noqa: PLC0415 - only where it is used

            done, seconds = sum(units), time.perf_counter() - began
            _LOG.debug(
                "%s: %s units in %.3f s, %s a second; %s",
                *(label, f"{done:,}", seconds, f"{done / seconds:,.1f}", memory_in_use()),
            )


@contextmanager
def _shown(label: str, total: int) -> Iterator[Progress]:
    if is_quiet() or not sys.stderr.isatty():
        yield silent
        return
    from rich.console import Console  # noqa: PLC0415 - only with a terminal
    from rich.markup import escape  # noqa: PLC0415
    from rich.progress import Progress as ProgressBar  # noqa: PLC0415

    with ProgressBar(console=Console(stderr=True), transient=True) as shown:
        # The label may contain names that look like the markup of rich.
        task = shown.add_task(escape(printable(label)), total=total)
        yield lambda done: shown.advance(task, done)
