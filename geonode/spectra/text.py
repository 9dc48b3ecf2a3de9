"""Text of a file: UTF-8, UTF-16 with a byte order mark, or Windows-1252.

Windows-1252 has Latin-1 in it, with its micro and degree signs. Bytes without a mark that are no
UTF-8 are read so, which is said. Bytes that are partly UTF-8, or cut within a character, are
refused.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TextIO

from geonode.errors import SpectraError

LARGEST_TEXT = 2**27
"""Characters of a file."""

MOST_LINES = 2**21
"""Of a file."""

LONGEST_LINE = 2**20
"""Characters; a longer line is no line of a table, and is not read into memory."""

# The mark of UTF-32 begins with that of UTF-16.
_MARKS = {
    b"\xff\xfe\0\0": "UTF-32",
    b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
_PYTHON = {"UTF-8": "utf-8-sig", "UTF-16": "utf-16", "Windows-1252": "cp1252"}
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
        longest: characters of a line.
        largest: characters of the file.

    Raises:
        SpectraError: it is no text, or larger.
        OSError, UnicodeDecodeError: it cannot be read.
    """
    with path.open("rb") as file:
        start = file.read(4)
    encoding = next((name for mark, name in _MARKS.items() if start.startswith(mark)), "UTF-8")
    if encoding == "UTF-32":
        raise SpectraError("found UTF-32, expected text saved as UTF-8")
    try:
        return Text(_lines(path, encoding, longest, largest), encoding)
    except UnicodeDecodeError as error:
        if encoding != "UTF-8" or error.reason == "unexpected end of data":
            raise
    lines = _lines(path, "Windows-1252", longest, largest)
    if any(_UTF8.search(line.encode("cp1252")) for line in lines if not line.isascii()):
        raise SpectraError("found bytes partly of UTF-8, expected text saved as UTF-8 throughout")
    return Text(lines, "Windows-1252")


def _lines(path: Path, encoding: str, longest: int, largest: int) -> list[str]:
    with path.open(encoding=_PYTHON[encoding], newline="") as file:
        return list(text_lines(file, longest, largest))


def text_lines(
    file: TextIO, longest: int = LONGEST_LINE, largest: int = LARGEST_TEXT
) -> Iterator[str]:
    """Lines of a file, refusing what no text file has.

    Raises:
        SpectraError: there is a null character or a line that is too long, or the file is.
    """
    characters = count = 0
    while line := file.readline(longest):
        characters, count = characters + len(line), count + 1
        if characters > largest or count > MOST_LINES:
            raise SpectraError(
                f"found more than {largest} characters or {MOST_LINES} lines, expected at "
                "most that; read the spectra from several files"
            )
        if "\0" in line or len(line) == longest:
            raise SpectraError(
                f"found binary data or a line of {longest} characters, expected text saved as UTF-8"
            )
        yield line
