"""The folder of a calibration: written whole or not at all."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from geonode.calibration.calibration_file import CalibrationFile
from geonode.calibration.routine import UNUSED, Routine, record, sha256
from geonode.calibration.saved import save_calibration
from geonode.errors import ParameterError
from geonode.report.calibration_page import calibration_page
from geonode.report.calibration_tables import tables
from geonode.report.workbook import workbook
from geonode.storage.atomic import replacing
from geonode.storage.seal import file_checksum

PAGE, WORKBOOK, CALIBRATION = "index.html", "calibration.xlsx", "calibration.safetensors"

WRITTEN = re.compile(r"<!-- geonode wrote (\S+) (\w{8}) -->")
"""Name and checksum of a file beside a page, at the end of the page."""


def require_folder(folder: Path, inputs: list[Path], *, overwrite: bool) -> None:
    """Refuse a folder with anything in it but an older calibration that may be replaced.

    Args:
        folder: folder to be written.
        inputs: files that are read.
        overwrite: whether an older calibration may be replaced.

    Raises:
        ParameterError: something else is there, or an input is inside.
    """
    entries = sorted(folder.iterdir()) if folder.is_dir() else []
    written = _written(folder)
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


def write_calibration(
    file: CalibrationFile[Any],
    folder: Path,
    routine: Routine = UNUSED,
    user: str | None = None,
) -> None:
    """Write page, workbook, tables and calibration file, all or none.

    Args:
        file: the calibration with its results.
        folder: where to.
        routine: what it was used on, for the record.
        user: for the record; None: not told.

    Raises:
        ArtifactError: the operating system refuses.
    """
    with replacing(folder) as temporary:
        temporary.mkdir()
        save_calibration(temporary / CALIBRATION, file)
        saved = CALIBRATION, sha256(temporary / CALIBRATION)
        made = record(file, saved, routine.files, routine.asked, user)
        file = replace(file, record=made)
        found = tables(file)
        page = calibration_page(file, found, folder / CALIBRATION).html()
        (temporary / WORKBOOK).write_bytes(workbook(found))
        for table in found:
            (temporary / f"{table.name}.csv").write_text(table.csv(), encoding="utf-8")
        for one in sorted(temporary.iterdir()):
            page += f"<!-- geonode wrote {one.name} {file_checksum(one)} -->\n"
        (temporary / PAGE).write_text(page, encoding="utf-8", errors="replace")  # any name


def _written(folder: Path) -> dict[str, str]:
    """Checksums of the files of a calibration, as its page lists them; of the page itself none."""
    page = folder / PAGE
    end = page.read_bytes()[-4000:].decode("utf-8", "replace") if page.is_file() else ""
    found = dict(WRITTEN.findall(end))
    return found | {PAGE: ""} if found else {}


def _is_unchanged(entry: Path, written: dict[str, str]) -> bool:
    """Whether an entry of a folder is a file that was written there, and is still the same."""
    if entry.is_symlink() or not entry.is_file():
        return False
    return written.get(entry.name) in (file_checksum(entry), "")
