"""Folders that geonode writes and may replace: a page in each lists the files beside it."""

import re
from collections.abc import Iterable
from pathlib import Path

from geonode.errors import ParameterError
from geonode.storage.seal import file_checksum

PAGE = "index.html"

WRITTEN = re.compile(r"<!-- geonode wrote (\S+) (\w{8}) -->")
"""Name and checksum of a file beside a page, at the end of the page."""


def listed_files(paths: Iterable[Path]) -> str:
    """End of a page that lists the files beside it with their checksums."""
    return "".join(f"<!-- geonode wrote {one.name} {file_checksum(one)} -->\n" for one in paths)


def require_folder(folder: Path, inputs: list[Path], *, overwrite: bool) -> None:
    """Refuse a folder with anything in it but what was written there.

    Args:
        folder: folder to be written.
        inputs: files that are read.
        overwrite: whether what was written there may be replaced.

    Raises:
        ParameterError: something else is there, or an input is inside.
    """
    entries = sorted(folder.iterdir()) if folder.is_dir() else []
    page = folder / PAGE
    end = page.read_bytes()[-4000:].decode("utf-8", "replace") if page.is_file() else ""
    written = dict(WRITTEN.findall(end))
    foreign = [entry.name for entry in entries if not _is_unchanged(entry, written)]
    found = f"{folder} with {foreign[0]}" if foreign else str(folder)
    if any(folder.resolve() in (one.resolve(), *one.resolve().parents) for one in inputs):
        expected = "another folder than that of a file that is read"
    elif folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        expected = "a folder, or a name that is not taken"
    elif foreign:
        expected = "a new folder, an empty one, or one with nothing but a calibration as it was "
        expected += "written; move your own or changed files away"
    elif entries and not overwrite:
        expected = "a name that is not taken; --overwrite replaces it"
    else:
        return
    raise ParameterError("options", "--out", found, expected)


def _is_unchanged(entry: Path, written: dict[str, str]) -> bool:
    """True if an entry of a folder is a file that was written there, as its page lists it."""
    if entry.is_symlink() or not entry.is_file() or not written:
        return False
    return entry.name == PAGE or written.get(entry.name) == file_checksum(entry)
