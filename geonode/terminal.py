"""Output on a terminal and log on stderr, without control characters."""

import errno
import logging
import os
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import typer

from geonode.errors import ArtifactError

Level = Literal["debug", "info", "warning", "error"]


def printable(text: str) -> str:
    """Text with control and reordering characters escaped as by Python."""
    return "".join(one if one == "\n" or _is_shown(one) else repr(one)[1:-1] for one in text)


def tell(text: str) -> None:
    """Print a result on standard output.

    Raises:
        ArtifactError: it cannot be written, as on a full disk.
    """
    try:
        typer.echo(printable(text))
    except OSError as error:
        if error.errno == errno.EPIPE:  # its reader has left, which is no error
            raise
        # Python would try to write the rest again, and fail, when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise ArtifactError(
            f"standard output: {error.strerror}; the result was not printed"
        ) from error


def remark(text: str) -> None:
    """Print a remark on stderr."""
    typer.echo(printable(text), err=True)


def refuse(text: str) -> None:
    """Print an error on stderr, in red where there are colours."""
    typer.secho(f"error: {printable(text)}", err=True, fg=typer.colors.RED)


class _Formatter(logging.Formatter):
    """Formatter without control characters."""

    def format(self, record: logging.LogRecord) -> str:
        """Printable line of a record."""
        return printable(super().format(record))


def log_to_stderr(level: int) -> logging.Handler:
    """Log to stderr from a level of `logging` upwards, until the returned handler is removed."""
    logger, handler = logging.getLogger("geonode"), logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter("%(name)s: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(level)
    return handler


@contextmanager
def logged(level: Level) -> Iterator[None]:
    """Context that logs to stderr from a level upwards."""
    logger = logging.getLogger("geonode")
    before = logger.level
    handler = log_to_stderr(logging.getLevelNamesMapping()[level.upper()])
    try:
        yield
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)


def _is_shown(one: str) -> bool:
    kind = unicodedata.category(one)
    return kind[0] != "C" and kind not in ("Zl", "Zp")
