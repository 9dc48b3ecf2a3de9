"""Text of a file: UTF-8, UTF-16 with a byte order mark, or Windows-1252.

Windows-1252 has Latin-1 in it, with its micro and degree signs. Bytes without a mark that are no
UTF-8 are read so, which is said. Bytes that are partly UTF-8, or cut within a character, are
refused.
"""

import codecs
import re
from pathlib import Path
from typing import NamedTuple

from geonode.errors import SpectraError

LARGEST_TEXT = 2**27
"""Bytes of a file."""

MOST_LINES = 2**21
"""Of a file."""

LONGEST_LINE = 2**20
"""Bytes; a longer line is no line of a table."""

# The mark of UTF-32 begins with that of UTF-16.
_MARKS = {
    b"\xff\xfe\0\0": "UTF-32",
    b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
_UTF8 = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}")


class Text(NamedTuple):
    """Lines of a file.

    Attributes:
        lines: with their ends.
        encoding: of the bytes.
    """

    lines: list[str]
    encoding: str

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for the reader."""
        if self.encoding != "Windows-1252":
            return ()
        return ("the bytes are no UTF-8, and are read as Windows-1252: look at signs such as µ",)


def read_text(path: Path, longest: int = LONGEST_LINE, largest: int = LARGEST_TEXT) -> Text:
    """Lines of a file in any of the encodings.

    Args:
        path: the file.
        longest: bytes of a line.
        largest: bytes of the file.

    Raises:
        SpectraError: it is no text, or larger.
        OSError, UnicodeDecodeError: it cannot be read.
    """
    with path.open("rb") as file:
        content = file.read(largest + 1)
    encoding = next((name for mark, name in _MARKS.items() if content.startswith(mark)), "UTF-8")
    if encoding == "UTF-32":
        raise SpectraError("found UTF-32, expected text saved as UTF-8")
    if encoding == "UTF-16":
        content = content.decode("utf-16").encode()
    ends = content.count(b"\n") + content.count(b"\r") - content.count(b"\r\n")
    if len(content) > largest or ends > MOST_LINES:
        raise SpectraError(
            f"found more than {largest} bytes or {MOST_LINES} lines, expected at most that; read "
            "the spectra from several files"
        )
    lines = content.removeprefix(codecs.BOM_UTF8).splitlines(keepends=True)
    if b"\0" in content or any(len(line) >= longest for line in lines):
        raise SpectraError(
            f"found binary data or a line of {longest} characters, expected text saved as UTF-8"
        )
    try:
        return Text([line.decode() for line in lines], encoding)
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data":  # of the last line
            raise
    decoded = [line.decode("cp1252") for line in lines]
    if _UTF8.search(content):
        raise SpectraError("found bytes partly of UTF-8, expected text saved as UTF-8 throughout")
    return Text(decoded, "Windows-1252")
