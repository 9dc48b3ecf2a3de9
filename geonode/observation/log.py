"""Log of geonode on stderr."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from geonode.terminal import printable

Level = Literal["debug", "info", "warning", "error"]


class _Formatter(logging.Formatter):
    """Formatter without control characters."""

    def format(self, record: logging.LogRecord) -> str:
        """Printable line of a record."""
        return printable(super().format(record))


@contextmanager
def logged(level: Level) -> Iterator[None]:
    """Context that logs to stderr from a level upwards."""
    logger, handler = logging.getLogger("geonode"), logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter("%(name)s: %(message)s"))
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    try:
        yield
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)
