"""The folder of a calibration: written whole or not at all."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from openpyxl import Workbook
from openpyxl.cell import WriteOnlyCell
from openpyxl.styles import Font
from openpyxl.utils import get_column_letter

from geonode.calibration.calibrated_file import CalibratedFile
from geonode.errors import ParameterError
from geonode.estimation.tables import Cell
from geonode.report.calibration_page import GENERATOR, calibration_page
from geonode.report.calibration_tables import tables
from geonode.report.page import Table
from geonode.storage.atomic import replacing
from geonode.terminal import printable

PAGE, WORKBOOK = "index.html", "calibration.xlsx"
NAMES = {PAGE, WORKBOOK} | {
    f"{name}.csv"
    for name in (
        "summary",
        "calibration",
        "validation",
        "unknowns",
        "limits",
        "peaks",
        "predicted",
        "next",
    )
}
"""Everything that may be in such a folder."""

LONGEST = 60
"""Characters that a column is made wide for."""

DATED = datetime(2000, 1, 1, tzinfo=UTC).replace(tzinfo=None)
"""Of every workbook: the same tables give the same file, but for the clock of its archive."""


@contextmanager
def writing(
    folder: Path, inputs: list[Path], *, overwrite: bool
) -> Iterator[Callable[[CalibratedFile], None]]:
    """Yield what writes a calibration; the folder takes its place when the body has ended.

    Args:
        folder: to be written.
        inputs: files that are read.
        overwrite: whether an older calibration may be replaced.

    Raises:
        ParameterError: there is something else, or an input is inside.
        ArtifactError: the operating system refuses.
    """
    _require_free(folder, inputs, overwrite=overwrite)
    with replacing(folder) as temporary:
        temporary.mkdir()

        def write(file: CalibratedFile) -> None:
            found = tables(file)
            (temporary / WORKBOOK).write_bytes(workbook(found))
            for table in found:
                (temporary / f"{table.name}.csv").write_text(table.csv(), encoding="utf-8")
            (temporary / PAGE).write_text(calibration_page(file, found), encoding="utf-8")

        yield write


def _require_free(folder: Path, inputs: list[Path], *, overwrite: bool) -> None:
    """Refuse a place with anything in it but a calibration that may be replaced.

    Raises:
        ParameterError: naming what is there.
    """
    where = folder.resolve()
    within = [one for one in inputs if where == one.resolve() or where in one.resolve().parents]
    if within:
        found, expected = str(folder), f"another folder than that of {within[0]}, which is read"
    elif not folder.exists() and not folder.is_symlink():
        return
    elif not folder.is_dir() or folder.is_symlink():
        found, expected = str(folder), "a folder, or nothing"
    elif not (names := sorted(entry.name for entry in folder.iterdir())):
        return
    elif foreign := [name for name in names if name not in NAMES or not _is_ours(folder)]:
        found = f"{folder} with {foreign[0]}"
        expected = "a new folder, an empty one or one of geonode calibrate alone"
    elif not overwrite:
        found, expected = str(folder), "a name that is not taken; --overwrite replaces it"
    else:
        return
    raise ParameterError("options", "--out", found, expected)


def _is_ours(folder: Path) -> bool:
    """Whether the page of a folder says that it was made here."""
    path = folder / PAGE
    return path.is_file() and GENERATOR in path.read_bytes()[:4096].decode("utf-8", "replace")


def workbook(tables: list[Table]) -> bytes:
    """A workbook with one sheet a table: headers that stay, numbers as numbers, texts as texts."""
    book = Workbook(write_only=True)
    book.properties.created = book.properties.modified = DATED
    book.properties.creator = "geonode"
    for table in tables:
        sheet: Any = book.create_sheet(table.name)
        sheet.freeze_panes = "B2"
        for place, column in enumerate(table.columns, 1):
            texts = [column, *(row[place - 1] for row in table.rows[:50])]
            widest = max(len(one) if isinstance(one, str) else 10 for one in texts)
            letter = get_column_letter(place)
            sheet.column_dimensions[letter].width = min(widest, LONGEST) + 2
        sheet.append([_cell(sheet, column, bold=True) for column in table.columns])
        for row in table.rows:
            sheet.append([_cell(sheet, one) for one in row])
    stream = io.BytesIO()
    book.save(stream)
    return stream.getvalue()


def _cell(sheet: Any, value: Cell, *, bold: bool = False) -> Any:
    """A cell that is what it is: a text that begins like a formula stays a text."""
    if not isinstance(value, str):
        return value.item() if isinstance(value, np.generic) else value
    made = WriteOnlyCell(sheet, printable(value))
    made.data_type = "s"
    if bold:
        made.font = Font(bold=True)
    return made
