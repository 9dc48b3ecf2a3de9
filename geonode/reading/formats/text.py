"""Text files: UTF-8, UTF-16 with a byte order mark, or Windows-1252, which contains Latin-1.

Bytes that are not UTF-8 and have no byte order mark are taken for Windows-1252. Files that mix
UTF-8 with other bytes, or end within a character, are refused.
"""

import codecs
import re
from pathlib import Path

from geonode.errors import SpectraError

LARGEST_TEXT = 2**27
"""Bytes of a file."""

MOST_TEXT_LINES = 2**21
"""Lines of a file."""

LONGEST_LINE = 2**20
"""Bytes of a line; no table has longer ones."""

_UTF8 = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}")


def read_text(
    path: Path, longest: int = LONGEST_LINE, largest: int = LARGEST_TEXT
) -> tuple[list[str], str]:
    """Lines of a file with their ends, and its encoding.

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
    if len(content) > largest or ends > MOST_TEXT_LINES:
        raise SpectraError(
            f"found more than {largest} bytes or {MOST_TEXT_LINES} lines, expected at most that; "
            "read the spectra from several files"
        )
    lines = content.removeprefix(codecs.BOM_UTF8).splitlines(keepends=True)
    if b"\0" in content or any(len(line) >= longest for line in lines):
        raise SpectraError(
            f"found binary data or a line of {longest} characters, expected text saved as UTF-8"
        )
    try:
        return [line.decode() for line in lines], encoding
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data":  # the file was cut
            raise
    decoded = [line.decode("cp1252") for line in lines]
    if _UTF8.search(content):
        raise SpectraError("found bytes partly of UTF-8, expected text saved as UTF-8 throughout")
    return decoded, "Windows-1252"
