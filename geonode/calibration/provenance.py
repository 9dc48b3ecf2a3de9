"""Provenance of results: files and their checksums, versions, options, and the record of all."""

import hashlib
import importlib.metadata
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from geonode import __version__
from geonode.calibration.calibration_file import CalibrationFile
from geonode.config import CalibrateParameters, SpectraParameters
from geonode.errors import SpectraError
from geonode.reading.files import file_and_sheet
from geonode.reading.refusals import errors_naming
from geonode.storage.lineage import code_digest
from geonode.wording import percent


def sha256(path: Path) -> str:
    """SHA-256 of a file, or of the names and contents of all files of a folder."""
    if not path.is_dir():
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    digest = hashlib.sha256()
    for file in sorted(one for one in path.rglob("*") if one.is_file()):
        digest.update(f"{file.relative_to(path).as_posix()}\0{sha256(file)}\0".encode())
    return digest.hexdigest()


@contextmanager
def unchanged(*paths: Path) -> Iterator[dict[Path, str]]:
    """SHA-256 of files that are read inside; what is not there is left to its reader.

    Raises:
        SpectraError: one is not the same afterwards, so that another one may have been read.
    """

    def checksum(path: Path) -> str:
        with errors_naming(path):
            return sha256(path)

    found = {path: checksum(path) for path in paths if path.is_file() or path.is_dir()}
    yield found
    for path, before in found.items():
        if checksum(path) != before:
            raise SpectraError(
                f"{path}: found that it changed while it was read, expected a file that nothing "
                "writes; wait until it is whole, and run this again"
            )


@cache
def version() -> str:
    """Version of geonode, and the checksum of its code, which a commit or wheel has alone."""
    return f"geonode {__version__}, code {code_digest()[:12]}"


def about_series(
    parameters: SpectraParameters, how: CalibrateParameters, files: dict[Path, str]
) -> dict[str, str]:
    """Source and options of a calibration, for its file, with the checksums of what was read.

    Args:
        parameters: of the series; those that were given are told.
        how: it is calibrated; other values than the defaults are told, and the method.
        files: SHA-256 of what was read.
    """
    about = {"calibration made by": version()}
    for key, value in parameters.model_dump(mode="json", exclude_unset=True).items():
        if value is None:
            continue
        name = "calibrated with" if key == "source" else f"option {key.replace('_', '-')}"
        about[name] = value if isinstance(value, str) else json.dumps(value)
        if key in ("source", "concentrations"):
            about[name] = Path(value).name  # wherever it lies, the calibration file is the same
            about[f"{name}, SHA-256"] = files[file_and_sheet(Path(value))[0]]
    others = how.model_dump(exclude_defaults=True, exclude={"method"})
    given = {f"option {key.replace('_', '-')}": json.dumps(value) for key, value in others.items()}
    return about | {"option method": how.method} | given


def record(
    file: CalibrationFile[Any],
    calibration: tuple[str, str],
    files: dict[Path, str],
    asked: dict[str, Any],
    user: str | None = None,
) -> list[tuple[str, str]]:
    """The record of results: by what, from what, how and when they were made.

    Args:
        file: with its results.
        calibration: name and SHA-256 of the calibration file.
        files: SHA-256 of those that results are of.
        asked: options that these were read with.
        user: who made them, if that is to be told.
    """
    unit = file.unit
    made = [
        ("made by", version()),
        *((name, importlib.metadata.version(name)) for name in ("numpy", "scipy", "torch")),
        ("date and time", datetime.now().astimezone().isoformat(timespec="seconds")),
        *([("user", user)] if user else []),
        ("calibration file", calibration[0]),
        ("calibration file, SHA-256", calibration[1]),
        *file.about.items(),
        ("preprocessing", ", ".join(step.said for step in file.series.preprocessing.steps) or "no"),
        ("intervals", f"{percent(file.model.level)}%"),
        *file.model.facts,
        ("verdict", file.model.sentence),
    ]
    if (by := file.about.get("calibration made by", version())) != version():
        made.append(("warning", f"calibrated by {by}, and estimated by other code"))
    made += [(f"read with {key}", str(value)) for key, value in asked.items()]
    for path, checksum in files.items():
        made += [("read", str(path)), ("read, SHA-256", checksum)]
    made += [("aligned", said) for said in file.aligned]
    made += [("doubt", said) for said in file.doubts]
    made += [("control", one.sentence(unit)) for one in file.controls]
    made += [("control chart", one.sentence) for one in file.violations]
    if file.correction:
        made.append(("correction", file.correction.sentence(unit)))
    return made + [("validation", one.sentence(unit)) for one in file.validations]
