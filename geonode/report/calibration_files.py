"""The folder of a calibration: written whole or not at all."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from geonode.calibration.calibration_file import CalibrationFile
from geonode.calibration.provenance import record, sha256
from geonode.calibration.routine import UNUSED, Routine
from geonode.calibration.saved import save_calibration
from geonode.report.calibration_page import calibration_page
from geonode.report.calibration_tables import tables
from geonode.storage.atomic import replacing
from geonode.storage.own_folder import PAGE, listed_files
from geonode.storage.workbook import workbook

WORKBOOK, SAVED_CALIBRATION = "calibration.xlsx", "calibration.safetensors"


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
        user: for the record; None: unnamed.

    Raises:
        ArtifactError: the operating system refuses.
    """
    with replacing(folder) as temporary:
        temporary.mkdir()
        save_calibration(temporary / SAVED_CALIBRATION, file)
        saved = SAVED_CALIBRATION, sha256(temporary / SAVED_CALIBRATION)
        made = record(file, saved, routine.files, routine.asked, user)
        file = replace(file, record=made)
        made_tables = tables(file)
        page = calibration_page(file, made_tables, folder / SAVED_CALIBRATION).html()
        (temporary / WORKBOOK).write_bytes(workbook(made_tables))
        for table in made_tables:
            (temporary / f"{table.name}.csv").write_text(table.csv(), encoding="utf-8")
        page += listed_files(sorted(temporary.iterdir()))
        (temporary / PAGE).write_text(page, encoding="utf-8", errors="replace")  # any name
