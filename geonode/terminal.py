"""What people are told on a terminal: characters that are shown, and none that command it."""

import errno
import os
import sys
import unicodedata

import typer

from geonode.errors import ArtifactError


def printable(text: str) -> str:
    """A text without what a terminal would obey, or reorder by: that as Python writes it."""
    return "".join(one if one == "\n" or _is_shown(one) else repr(one)[1:-1] for one in text)


def tell(text: str) -> None:
    """Show a result on standard output.

    Raises:
        ArtifactError: it takes nothing, as that of a full disk.
    """
    try:
        typer.echo(printable(text))
    except OSError as error:
        if error.errno == errno.EPIPE:  # its reader has left, which is no error
            raise
        # What could not be written would be tried again, and fail, when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise ArtifactError(
            f"standard output: {error.strerror}; what was to be shown is not"
        ) from error


def remark(text: str) -> None:
    """Say on stderr how the work gets on."""
    typer.echo(printable(text), err=True)


def refuse(text: str) -> None:
    """Say on stderr what is wrong, in red where there are colours."""
    typer.secho(f"error: {printable(text)}", err=True, fg=typer.colors.RED)


def _is_shown(one: str) -> bool:
    kind = unicodedata.category(one)
    return kind[0] != "C" and kind not in ("Zl", "Zp")
