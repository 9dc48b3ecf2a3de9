"""Refusals that all readers share."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from geonode.errors import ArtifactError, SpectraError
from geonode.spectra.arrays import MOST_VALUES

LARGEST_BINARY = 2**27
"""Bytes of a file of numbers that are no text."""


@contextmanager
def errors_naming(place: Path | str) -> Iterator[None]:
    """Make errors of reading name this file, or this part of one.

    Raises:
        SpectraError: in place of what was raised inside.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise SpectraError(f"{place}: {reason}; expected a file of spectra") from error
    except UnicodeDecodeError as error:
        raise SpectraError(
            f"{place}: not UTF-8 text, nor UTF-16 or Windows-1252; expected text saved as UTF-8"
        ) from error
    except SpectraError as error:
        raise SpectraError(f"{place}: {' '.join(str(error).split())}") from error


@contextmanager
def errors_explained(what: str, way_out: str = "") -> Iterator[None]:
    """Turn whatever a library raises where a part is damaged into a refusal.

    Args:
        what: the kind of the file.
        way_out: what to do.

    Raises:
        SpectraError: in place of what was raised inside.
    """
    try:
        yield
    except SpectraError:
        raise
    except ArtifactError as error:
        raise SpectraError(str(error)) from error
    except MemoryError as error:
        raise SpectraError(
            f"found more than fits into memory ({what}), expected at most {MOST_VALUES} values; "
            "write those of spectra alone"
        ) from error
    except Exception as error:
        reason = " ".join(repr(error).split())
        raise SpectraError(f"found no {what} that can be read ({reason:.80}){way_out}") from error


def require_at_most(most: int, count: int, what: str = "bytes") -> None:
    """Refuse more of something than spectra take.

    Raises:
        SpectraError: there is more.
    """
    if count > most:
        raise SpectraError(
            f"found {count} {what}, expected at most {most}; copy what is of spectra alone to "
            "another file, or to several"
        )


def unexpected(place: str, found: str, expected: str) -> SpectraError:
    """Refusal of a text, with its place and what was expected there."""
    return SpectraError(f"{place}: found {found[:40]!r}, expected {expected}")
