"""The folder of a calibration: written whole or not at all."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from geonode.calibration.fit import Calibration
from geonode.calibration.page import GENERATOR, page
from geonode.calibration.tables import tables
from geonode.calibration.workbook import workbook
from geonode.errors import ParameterError
from geonode.storage.atomic import replacing

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


@contextmanager
def writing(
    folder: Path, inputs: list[Path], *, overwrite: bool
) -> Iterator[Callable[[Calibration], None]]:
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

        def write(calibration: Calibration) -> None:
            found = tables(calibration)
            book = workbook(found)
            (temporary / WORKBOOK).write_bytes(book)
            for table in found:
                (temporary / f"{table.name}.csv").write_text(table.csv(), encoding="utf-8")
            (temporary / PAGE).write_text(page(calibration, found, book), encoding="utf-8")

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
