"""Progress of long-running work."""

import logging
import sys
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
    """Whether this is run inside `quietly`."""
    return _QUIET.get()


@contextmanager
def bar(label: str, total: int, steady: bool = False) -> Iterator[Progress]:
    """Progress bar on stderr, hidden if stderr is no terminal or inside `quietly`.

    At the log level DEBUG, the resources used are logged at the end.

    Args:
        label: name of the work.
        total: units of work.
        steady: whether all of the work is alike, so that growing memory gives a warning.

    Yields:
        A function to call with the number of units done since the last call.
    """
    debug = _LOG.isEnabledFor(logging.DEBUG)
    if not (debug or steady):
        with _shown(label, total) as report:
            yield report
        return
    from geonode.usage import Usage  # noqa: PLC0415 - only where it is used

    usage = Usage(total, label if steady else None)
    try:
        with _shown(label, total) as report:

            def counted(done: int) -> None:
                usage.count(done)
                report(done)

            yield counted
    finally:
        if debug:
            usage.log(label)


@contextmanager
def _shown(label: str, total: int) -> Iterator[Progress]:
    if is_quiet() or not sys.stderr.isatty():
        yield silent
        return
    from rich.console import Console  # noqa: PLC0415 - only with a terminal
    from rich.markup import escape  # noqa: PLC0415
    from rich.progress import Progress as ProgressBar  # noqa: PLC0415

    with ProgressBar(console=Console(stderr=True), transient=True) as shown:
        # The label may hold names that look like the markup of rich.
        task = shown.add_task(escape(printable(label)), total=total)
        yield lambda done: shown.advance(task, done)
