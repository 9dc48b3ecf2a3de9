"""Spectra in the files that instruments and people make.

`.csv`, `.tsv` and `.txt` are delimited text, `.xlsx` is an Excel workbook, `.jdx`, `.dx` and
`.jcamp` are JCAMP-DX, `.nc` is NetCDF and `.zarr` a Zarr store; a folder is one of JCAMP-DX files.
Every format becomes the same `Sheet` of named spectra first. A series reads the names as
concentrations, where `30__r2` is a further scan of level 30; `read_spectra` leaves them names.
Messages count rows from 1, header included, as an editor shows them.
"""

import csv
import io
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float

from geonode.errors import SpectraError
from geonode.spectra.delimited import read_delimited
from geonode.spectra.excel import read_excel
from geonode.spectra.headers import Level, level, same_unit
from geonode.spectra.jcamp_dx import SUFFIXES as JCAMP
from geonode.spectra.jcamp_dx import read_jcamp
from geonode.spectra.labelled_arrays import read_labelled_arrays
from geonode.spectra.layout import sheet_of
from geonode.spectra.sense import doubts
from geonode.spectra.sheet import Grid, Sheet, shortest
from geonode.spectra.table import FEWEST_WAVELENGTHS, MOST_LEVELS, SpectraTable
from geonode.terminal import printable

_LOG = logging.getLogger(__name__)

Missing = Literal["refuse", "mask"]
Window = tuple[float, float] | None

TABLES: dict[str, Callable[[Path], Grid]] = {
    ".csv": read_delimited,
    ".tsv": read_delimited,
    ".txt": read_delimited,
    ".xlsx": read_excel,
}
"""Readers of cells, by extension."""

SHEETS: dict[str, Callable[[Path], Sheet]] = {
    **dict.fromkeys(JCAMP, read_jcamp),
    ".nc": read_labelled_arrays,
    ".zarr": read_labelled_arrays,
}
"""Readers of spectra that say which way they run, by extension."""

SUFFIXES = (*TABLES, *SHEETS)


@dataclass(frozen=True, eq=False)
class Spectra:
    """Spectra of unknown concentration on one spectral axis.

    Attributes:
        names: what the file calls every spectrum, each once.
        axis: spectral axis, ascending.
        axis_name: what the axis is, such as "wavelength" or "raman_shift".
        axis_unit: its unit; "1" if unknown.
        values: the spectra.
        masked: wavelengths that were left out because a value was missing.
    """

    names: list[str]
    axis: Float[np.ndarray, "wavelength"]
    axis_name: str
    axis_unit: str
    values: Float[np.ndarray, "spectrum wavelength"]
    masked: Float[np.ndarray, "masked"]


def read_table(path: Path, *, window: Window = None, missing: Missing = "refuse") -> SpectraTable:
    """Read a concentration series.

    Args:
        path: a file of any known format. Its axis ascends or descends and its levels have any
            order; the table is ascending in both.
        window: part of the axis to keep, ends included (axis unit).
        missing: whether a missing value within the window is an error, or its wavelength is left
            out and reported as masked.

    Raises:
        SpectraError: the file cannot be read, or is no series; the message names file, row,
            column, what was found and what was expected.
    """
    with errors_naming(path):
        sheet = read_sheet(path, most_levels=MOST_LEVELS)
        table = series_of(sheet, window, missing)
        for line in doubts(sheet, table):
            _LOG.warning("%s: %s", printable(str(path)), line)
        return table


def read_spectra(path: Path, *, missing: Missing = "refuse") -> Spectra:
    """Read spectra of unknown concentration.

    Args:
        path: a file of any known format; the names of its spectra may be any text.
        missing: as `read_table`.

    Raises:
        SpectraError: the file cannot be read, a spectrum has no name or that of another, or there
            are too few wavelengths.
    """
    with errors_naming(path):
        sheet = read_sheet(path, most_levels=None)
        places: dict[str, str] = {}
        for name, place in zip(sheet.names, sheet.name_places, strict=True):
            if not name:
                raise SpectraError(f"{place}: found no name, expected one for every spectrum")
            if name in places:
                raise SpectraError(
                    f"{place}: found {name[:40]!r} again, first in {places[name]}; expected every "
                    "name once"
                )
            places[name] = place
        kept, masked = _selected(sheet, None, missing)
        if len(kept) < FEWEST_WAVELENGTHS or not sheet.names:
            raise SpectraError(
                f"found {len(sheet.names)} spectra at {len(kept)} wavelengths, expected at least "
                f"one at {FEWEST_WAVELENGTHS}"
            )
        return Spectra(
            names=sheet.names,
            axis=sheet.axis[kept],
            axis_name=sheet.axis_name,
            axis_unit=sheet.axis_unit,
            values=sheet.values[:, kept],
            masked=masked,
        )


def to_csv(table: SpectraTable) -> str:
    """Text of a table that `read_table` reads, every number in its shortest exact form."""
    unit = {"1": "", "cm-1": "_cm1"}.get(table.axis_unit, f"_{table.axis_unit}")
    of_level = "" if table.concentration_unit is None else f" {table.concentration_unit}"
    header = [table.axis_name + unit]
    for concentration, scans in zip(table.concentrations, table.scans, strict=True):
        name = shortest(concentration) + of_level
        header += [name, *(f"{name}__r{scan}" for scan in range(2, len(scans) + 1))]
    rows = np.column_stack([table.axis, *(scans.T for scans in table.scans)])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([shortest(number) for number in row] for row in rows)
    return text.getvalue()


def files_of(path: Path) -> list[Path]:
    """All files that a source is made of, sorted: itself, or what is in it."""
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]


@contextmanager
def errors_naming(path: Path) -> Iterator[None]:
    """Errors of reading are those of this file.

    Raises:
        SpectraError: in place of what was raised inside.
    """
    try:
        path.lstat()
    except ValueError as error:  # of a null character, or of half a character
        raise SpectraError(f"{str(path)!r}: is no name of a file ({error})") from error
    except OSError:
        pass  # said below, of what is there
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise SpectraError(f"{path}: {reason}; expected a file of spectra") from error
    except UnicodeDecodeError as error:
        raise SpectraError(f"{path}: not UTF-8 text; expected text saved as UTF-8") from error
    except SpectraError as error:
        raise SpectraError(f"{path}: {' '.join(str(error).split())}") from error


def read_sheet(path: Path, *, most_levels: int | None) -> Sheet:
    """Named spectra of a file.

    Args:
        path: a file of any known format.
        most_levels: of a series, if the spectra are one; None: they need not be.

    Raises:
        SpectraError: the format is unknown, or the file is none of its format.
        OSError, UnicodeDecodeError: the file cannot be read.
    """
    suffix = path.suffix.lower()
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise SpectraError("found a pipe or a device, expected a file or a folder")
    if suffix in TABLES:
        return sheet_of(TABLES[suffix](path), most_levels)
    if suffix in SHEETS:
        return SHEETS[suffix](path)
    if path.is_dir():
        return read_jcamp(path)
    raise SpectraError(f"found a file {suffix or 'without extension'}, expected {_known()}")


def series_of(sheet: Sheet, window: Window, missing: Missing) -> SpectraTable:
    """The series that named spectra are.

    Raises:
        SpectraError: names are no concentrations or disagree in their unit, a scan is there twice,
            or wavelengths are missing.
    """
    scans, unit = _levels(sheet)
    kept, masked = _selected(sheet, window, missing)
    by_level = groupby(sorted(scans), key=itemgetter(0))
    spectra_of = {found: [scans[key] for key in keys] for found, keys in by_level}
    return SpectraTable(
        axis=sheet.axis[kept],
        axis_name=sheet.axis_name,
        axis_unit=sheet.axis_unit,
        concentrations=np.array(list(spectra_of)),
        scans=[sheet.values[spectra][:, kept] for spectra in spectra_of.values()],
        masked=masked,
        concentration_unit=unit,
    )


def _known() -> str:
    return f"one of {', '.join(SUFFIXES)}"


# names as concentrations


def _levels(sheet: Sheet) -> tuple[dict[tuple[float, int], int], str | None]:
    """Place of every spectrum by level and scan (1: the unmarked scan), and the unit of all."""
    scans: dict[tuple[float, int], int] = {}
    unit = sheet.concentration_unit
    for spectrum, (name, place) in enumerate(zip(sheet.names, sheet.name_places, strict=True)):
        found = _level(sheet, name, place)
        if found.unit is not None:
            if unit is not None and not same_unit(found.unit, unit):
                raise SpectraError(
                    f"{place}: found concentrations in {found.unit} and in {unit}, expected one "
                    "unit"
                )
            unit = unit or found.unit
        key = found.concentration, found.scan
        if key in scans:
            other = scans[key]
            raise SpectraError(
                f"{sheet.name_places[other]} ({sheet.names[other]!r}) and {place} ({name!r}) are "
                f"the same scan of one level; mark further scans as {shortest(key[0])}__r2, __r3"
            )
        scans[key] = spectrum
    for (concentration, _), spectrum in scans.items():
        if (concentration, 1) not in scans:
            raise SpectraError(
                f"{sheet.name_places[spectrum]}: found {sheet.names[spectrum]!r} but no "
                f"'{shortest(concentration)}'; the first scan of a level has no mark"
            )
    return scans, unit


def _level(sheet: Sheet, name: str, place: str) -> Level:
    found = level(name)
    if found is None:
        raise SpectraError(
            f"{place}: found {name[:40]!r}, expected a concentration that is finite and not "
            "negative, such as 30 or 30 ppb, or 30__r2 for its second scan"
        )
    if found.unit is None and sheet.names_are == "other":
        raise SpectraError(
            f"{place}: found {name[:40]!r} as name of a sample, expected a concentration; call "
            "them concentration, or write the unit, such as 30 ppb"
        )
    return found


# the wavelengths that are kept


def _selected(
    sheet: Sheet, window: Window, missing: Missing
) -> tuple[np.ndarray, Float[np.ndarray, "masked"]]:
    """Places of the wavelengths that are kept, ascending, and the wavelengths left out."""
    inside = _inside(sheet.axis, window)
    gaps = np.isnan(sheet.values).any(axis=0) & inside
    if missing == "refuse" and gaps.any():
        place = int(np.flatnonzero(gaps)[0])
        spectrum = int(np.flatnonzero(np.isnan(sheet.values[:, place]))[0])
        raise SpectraError(
            f"{sheet.cell_place(spectrum, place)}: found an empty or NaN cell, expected a number; "
            "fill it in, or take the wavelength out (as spectra.missing: mask does for a series)"
        )
    kept = inside & ~gaps
    if gaps.any() and kept.sum() < FEWEST_WAVELENGTHS:
        raise SpectraError(
            f"missing cells leave {kept.sum()} of {inside.sum()} wavelengths, "
            f"expected at least {FEWEST_WAVELENGTHS}"
        )
    ascending = np.argsort(sheet.axis)
    return ascending[kept[ascending]], np.sort(sheet.axis[gaps])


def _inside(
    axis: Float[np.ndarray, "wavelength"], window: Window
) -> Bool[np.ndarray, "wavelength"]:
    """Which wavelengths the window keeps."""
    if window is None or len(axis) < FEWEST_WAVELENGTHS:
        return np.full(axis.shape, True)
    low, high = window
    inside = (low <= axis) & (axis <= high)
    if inside.sum() < FEWEST_WAVELENGTHS:
        raise SpectraError(
            f"window [{low:g}, {high:g}] keeps {inside.sum()} wavelengths, expected at least "
            f"{FEWEST_WAVELENGTHS}; the axis runs from {axis.min():.10g} to {axis.max():.10g}"
        )
    return inside
