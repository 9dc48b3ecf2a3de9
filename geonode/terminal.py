"""Output on a terminal, errors as one line, and the log on stderr, without control characters."""

import ast
import atexit
import errno
import gc
import inspect
import logging
import os
import sys
import traceback
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any, Literal

import typer
from typer.core import TyperCommand

from geonode.errors import ArtifactError, GeonodeError, remedy
from geonode.machine import ONE_THREAD

Level = Literal["debug", "info", "warning", "error"]

OBJECTS = 10_000
"""New objects between two collections of garbage; 700 to 2,000 by Python's own default."""

EXHAUSTED = {
    "allocate": "lower memory_mb in the parameter file, close other programs, or raise `ulimit -v`",
    "Too many open files": "raise `ulimit -n`",
    "start new thread": "raise `ulimit -u`",
    "CUDA error": "look for the GPU with `nvidia-smi`, or compute on the CPU",
}
"""Advice by messages of torch and Python where the system gives no more, or lost a GPU."""


def printable(text: str) -> str:
    """Text with control and reordering characters escaped as by Python."""
    return "".join(
        letter if letter == "\n" or _is_shown(letter) else repr(letter)[1:-1] for letter in text
    )


def documentation(function: Callable[..., Any]) -> str:
    """Docstring of a function, for help; from its source where `python -OO` has dropped it."""
    if function.__doc__ is not None:
        return str(inspect.getdoc(function))
    (definition,) = ast.parse(dedent(inspect.getsource(function))).body
    return str(ast.get_docstring(definition))  # type: ignore[arg-type]


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
    """Print an error on stderr, in red where there are colours (https://no-color.org)."""
    colour = None if os.environ.get("NO_COLOR") else typer.colors.RED
    typer.secho(f"error: {printable(text)}", err=True, fg=colour)


class OneLine:
    """Mixin of Typer commands: an expected error is one line on stderr, with exit status 2."""

    def main(self, *given: Any, **named: Any) -> Any:
        """Run the command line; what the terminal cannot encode is replaced by a question mark."""
        if sys.stderr is None:  # as after 2>&-
            sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - as long as the process
        if sys.stdout is None:
            refuse("standard output: found it closed, expected a place for results; redirect it")
            sys.exit(1)
        _collect_seldom()
        os.environ.update(ONE_THREAD)
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")
        return super().main(*given, **named)  # type: ignore[misc]

    def invoke(self, ctx: Any) -> Any:  # a Context of click
        """Run the command."""
        try:
            return super().invoke(ctx)  # type: ignore[misc]
        except KeyboardInterrupt as error:
            refuse("interrupted")
            raise typer.Exit(130) from error
        except Exception as error:
            line = line_of(error)
            if line is None:
                raise
            if ctx.params.get("verbose") or ctx.params.get("log_level") == "debug":
                remark("".join(traceback.format_exception(error)).rstrip())
            refuse(self.said(line))
            raise typer.Exit(2) from error

    def said(self, line: str) -> str:
        """A message as this command line words it."""
        return line


class OneLineCommand(OneLine, TyperCommand):
    """Single command of a stage."""


def line_of(error: Exception) -> str | None:
    """Message of an error of the user or of the system; None for a fault of the program."""
    if isinstance(error, GeonodeError):
        return str(error)
    if isinstance(error, OSError) and error.errno != errno.EPIPE:
        return f"{error}{remedy(error)}"
    message = str(error).split("\n", 1)[0].strip()  # torch goes on with hints for its developers
    if isinstance(error, MemoryError):
        message = message or "found no memory to allocate"
    advice = [advice for part, advice in EXHAUSTED.items() if part in message]
    return f"{message}; {advice[0]}, and run it again" if advice else None


def _collect_seldom() -> None:
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


def _is_shown(letter: str) -> bool:
    kind = unicodedata.category(letter)
    return kind[0] != "C" and kind not in ("Zl", "Zp")


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table with aligned columns.

    Args:
        rows: rows of equal length.
    """
    rows = [[" ".join(cell.split()) if "\n" in cell else cell for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
