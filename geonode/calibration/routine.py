"""Use of a calibration: on unknowns with controls, a validation file, standards."""

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import numpy as np
from jaxtyping import Float

from geonode import __version__
from geonode.calibration.calibrated_file import CalibratedFile, read_unknown
from geonode.calibration.checks import Control, Correction, Validation
from geonode.config import SpectraParameters
from geonode.errors import ParameterError, SpectraError
from geonode.estimation.axis import require_axis
from geonode.progress import Progress, silent
from geonode.spectra.headers import same_unit
from geonode.spectra.reading import FORMATS, Spectra, errors_naming, read_known
from geonode.spectra.series import Series
from geonode.wording import quantity

OPTIONS = "options"
WILD = ("*", "?", "[")


@dataclass(frozen=True, eq=False)
class Known:
    """Spectra of known concentration, to judge or to correct a calibration.

    Attributes:
        file: their file.
        spectra: on an axis that covers that of the series.
        concentrations: theirs.
    """

    file: Path
    spectra: Spectra
    concentrations: Float[np.ndarray, "spectrum"]

    @classmethod
    def read(cls, file: Path, series: Series) -> "Known":
        """Read a file whose names are concentrations in the unit of a series.

        Raises:
            SpectraError: it cannot be read, gives no concentrations, or its unit or axis is
                another; or a concentration is out of the range of the series.
        """
        spectra, levels, unit = read_known(file)
        expected = series.labels["concentration_unit"]
        with errors_naming(file):
            if unit is not None and expected != "1" and not same_unit(unit, expected):
                raise SpectraError(
                    f"found concentrations in {unit}, expected {expected} as in the calibration"
                )
            low, high = series.concentrations[[0, -1]].tolist()
            outside = levels[(levels < low) | (levels > high)]
            if outside.size:
                raise SpectraError(
                    f"found a concentration of {quantity(float(outside[0]), expected)}, expected "
                    f"{low:g} to {quantity(high, expected)} as calibrated; leave it out"
                )
            require_axis(series, spectra)
        return cls(file, spectra, levels)


@dataclass(frozen=True, eq=False)
class Routine:
    """Files that a calibration is used on, read before anything is computed.

    Attributes:
        unknowns: spectra by file.
        controls: known concentrations by name of a spectrum among them, or of its file if that
            holds no other.
        validation: samples to judge the calibration by.
        standards: samples to correct it by.
    """

    unknowns: dict[Path, Spectra]
    controls: dict[str, float]
    validation: Known | None
    standards: Known | None

    @classmethod
    def read(
        cls,
        series: Series,
        unknowns: list[Path],
        controls: list[str],
        validation: Path | None,
        standards: Path | None,
        sheet: str | None = None,
    ) -> "Routine":
        """Read all files.

        Args:
            series: of the calibration.
            unknowns: files, patterns of names, and folders of tables.
            controls: each NAME=CONCENTRATION.
            validation: samples to judge by.
            standards: samples to correct by.
            sheet: of workbooks of unknowns.

        Raises:
            SpectraError: a file cannot be read, or its axis, unit or range is another.
            ParameterError: a control is no number, or none of the spectra.
        """
        known = [_control(one) for one in controls]
        spectra = {one: read_unknown(one, series, sheet) for one in tables_of(unknowns)}
        names = {name for path, one in spectra.items() for name in _names(path, one.names)}
        for name, count in Counter(name for name, _ in known).items():
            if count > 1:
                raise ParameterError(OPTIONS, "--control", name, "every name once")
            if name not in names:
                expected = f"the name of a spectrum, such as {', '.join(sorted(names)[:3])}"
                raise ParameterError(OPTIONS, "--control", name, expected)
        judge, correct = (
            None if one is None else Known.read(one, series) for one in (validation, standards)
        )
        return cls(spectra, dict(known), judge, correct)

    @property
    def files(self) -> list[Path]:
        """All files that were read."""
        return [*self.unknowns, *(one.file for one in (self.validation, self.standards) if one)]

    def used(self, file: CalibratedFile, report: Progress = silent) -> CalibratedFile:
        """A calibration, corrected by the standards, with all estimates.

        Args:
            file: without any.
            report: called with the number of spectra of every file of unknowns.

        Raises:
            SpectraError: standards do not determine a line, or an axis is too coarse.
        """
        if self.standards:
            found = file.estimated(self.standards.file, self.standards.spectra)
            by_line = np.array([one.concentration for one in found])
            name, names = str(self.standards.file), self.standards.spectra.names
            line = Correction(name, names, self.standards.concentrations, by_line)
            file = replace(file, correction=line)
        if self.validation:
            found = file.estimated(self.validation.file, self.validation.spectra)
            numbers = np.array([[one.concentration, one.low, one.high] for one in found])
            fits = np.array([one.of_geonode.fits for one in found])
            name, names = str(self.validation.file), self.validation.spectra.names
            known = self.validation.concentrations
            judged = Validation(name, names, known, numbers[:, 0], numbers[:, 1:], fits)
            file = replace(file, validation=judged)
        same = Counter(path.name for path in self.unknowns)
        for path, spectra in self.unknowns.items():
            name = path.name if same[path.name] == 1 else str(path)
            file = file.with_unknown(path, spectra, name)
            report(len(spectra.names))
        controls = [
            Control(path, name, self.controls[name], *one[1:4], one.of_geonode.fits)
            for path, found in file.unknowns
            for one in found
            for name in _names(Path(path), [one.of_geonode.name], alone=len(found) == 1)
            if name in self.controls
        ]
        return replace(file, controls=controls)


def tables_of(given: list[Path]) -> list[Path]:
    """Files that are meant by files, patterns such as day1/*.csv, and folders of tables.

    Raises:
        SpectraError: there is none, or one is meant twice.
    """
    found: list[Path] = []
    for one in given:
        tables = [one]
        if not one.exists() and any(mark in str(one) for mark in WILD):
            base = Path(one.anchor)
            tables = sorted(base.glob(str(one.relative_to(base))))
        elif one.is_dir() and one.suffix.lower() != ".zarr":
            entries = sorted(entry for entry in one.iterdir() if entry.name[0] != ".")
            tables = [entry for entry in entries if entry.suffix.lower() in FORMATS]
        if not tables:
            raise SpectraError(f"{one}: found no file of spectra, expected one or more")
        for table in tables:
            if table.resolve() in {other.resolve() for other in found}:
                raise SpectraError(f"{table}: found this file twice, expected every file once")
            found.append(table)
    return found


def _names(path: Path, names: list[str], *, alone: bool | None = None) -> list[str]:
    """Names of spectra, and that of the file of a single one, which often has none of its own."""
    alone = len(names) == 1 if alone is None else alone
    return list(dict.fromkeys([*names, path.stem])) if alone else names


def _control(text: str) -> tuple[str, float]:
    name, _, number = text.rpartition("=")
    try:
        known = float(number)
    except ValueError:
        known = np.nan
    if not name or not np.isfinite(known) or known < 0:
        expected = "NAME=CONCENTRATION, a number that is not negative, such as QC=20"
        raise ParameterError(OPTIONS, "--control", text, expected)
    return name, known


# the record


def sha256(path: Path) -> str:
    """SHA-256 of a file, or of the names and contents of all files of a folder."""
    if not path.is_dir():
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    digest = hashlib.sha256()
    for file in sorted(one for one in path.rglob("*") if one.is_file()):
        digest.update(f"{file.relative_to(path).as_posix()}\0{sha256(file)}\0".encode())
    return digest.hexdigest()


def about_series(parameters: SpectraParameters, method: str) -> dict[str, str]:
    """Source and options of a calibration, for its file, with the checksums of what was read.

    Args:
        parameters: of the series; those that were given are told.
        method: as it was asked for.
    """
    about = {"calibration made by": f"geonode {__version__}"}
    for key, value in parameters.model_dump(mode="json", exclude_unset=True).items():
        if value is None:
            continue
        name = "calibrated with" if key == "source" else f"option {key.replace('_', '-')}"
        about[name] = value if isinstance(value, str) else json.dumps(value)
        if key in ("source", "concentrations"):
            about[f"{name}, SHA-256"] = sha256(Path(value))
    return about | {"option method": method}


def record(
    file: CalibratedFile, calibration: Path, files: list[Path], user: str | None = None
) -> list[tuple[str, str]]:
    """The record of results: by what, from what, how and when they were made.

    Args:
        file: with its results.
        calibration: the calibration file.
        files: that results are of.
        user: who made them, if that is to be told.
    """
    unit = file.unit
    made = [
        ("made by", f"geonode {__version__}"),
        ("date and time", datetime.now().astimezone().isoformat(timespec="seconds")),
        *([("user", user)] if user else []),
        ("calibration file", calibration.name),
        ("calibration file, SHA-256", sha256(calibration)),
        *file.about.items(),
        ("preprocessing", ", ".join(step.said for step in file.series.preprocessing.steps) or "no"),
        ("method", file.method),
    ]
    for one in files:
        made += [("read", str(one)), ("read, SHA-256", sha256(one))]
    made += [("control", one.sentence(unit)) for one in file.controls]
    if file.correction:
        made.append(("correction", file.correction.sentence(unit)))
    if file.validation:
        made.append(("validation", file.validation.sentence(unit)))
    return made
