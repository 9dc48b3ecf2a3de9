"""Text files: UTF-8, UTF-16 with a byte order mark, or Windows-1252, which contains Latin-1.

Bytes that are not UTF-8 and have no byte order mark are taken for Windows-1252, with a note. Files
that mix UTF-8 with other bytes, or end within a character, are refused.
"""

import codecs
import re
from pathlib import Path
from typing import NamedTuple

from geonode.errors import SpectraError

LARGEST_TEXT = 2**27
"""Bytes of a file."""

MOST_LINES = 2**21
"""Lines of a file."""

LONGEST_LINE = 2**20
"""Bytes of a line; no table has longer ones."""

_UTF8 = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}")


class Text(NamedTuple):
    """Text of a file.

    Attributes:
        lines: lines, without their ends.
        encoding: how the bytes were decoded.
        notes: what a reader should check.
    """

    lines: list[str]
    encoding: str
    notes: tuple[str, ...] = ()


def read_text(path: Path, longest: int = LONGEST_LINE, largest: int = LARGEST_TEXT) -> Text:
    """Lines of a file in any of the encodings.

    Args:
        path: the file.
        longest: limit of a line (bytes).
        largest: limit of the file (bytes).

    Raises:
        SpectraError: the file is not text, or is larger.
        OSError, UnicodeDecodeError: the file cannot be read.
    """
    with path.open("rb") as file:
        content = file.read(largest + 1)
    encoding = "UTF-8"
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding, content = "UTF-16", content.decode("utf-16").encode()
    ends = content.count(b"\n") + content.count(b"\r") - content.count(b"\r\n")
    if len(content) > largest or ends > MOST_LINES:
        raise SpectraError(
            f"found more than {largest} bytes or {MOST_LINES} lines, expected at most that; read "
            "the spectra from several files"
        )
    lines = content.removeprefix(codecs.BOM_UTF8).splitlines()
    if b"\0" in content or any(len(line) >= longest for line in lines):
        raise SpectraError(
            f"found binary data or a line of {longest} characters, expected text saved as UTF-8"
        )
    try:
        return Text([line.decode() for line in lines], encoding)
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data":  # the file was cut
            raise
    decoded = [line.decode("cp1252") for line in lines]
    if _UTF8.search(content):
        raise SpectraError("found bytes partly of UTF-8, expected text saved as UTF-8 throughout")
    note = "the bytes are no UTF-8, and are read as Windows-1252: look at signs such as µ"
    return Text(decoded, "Windows-1252", (note,))
