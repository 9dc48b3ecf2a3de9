"""Spectra in the files that instruments and people make.

Bytes become text, text becomes cells, cells become a table with its header, the table becomes named
spectra (`Sheet`), and a series reads the names as concentrations, where `30__r2` is a further scan
of level 30; `read_spectra` leaves them names. `.csv`, `.tsv` and `.txt` are delimited text, `.xlsx`
is an Excel workbook, `.jdx`, `.dx` and `.jcamp` are JCAMP-DX, `.spc` is SPC, `.nc` is NetCDF and
`.zarr` a Zarr store; a folder is one of JCAMP-DX files, or of any files with one spectrum each.
Messages count rows from 1, header included, as an editor shows them.
"""

import csv
import io
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float

from geonode.errors import SpectraError
from geonode.spectra.concentrations import with_concentrations
from geonode.spectra.formats.delimited import read_delimited
from geonode.spectra.formats.excel import read_excel
from geonode.spectra.formats.jcamp_dx import SUFFIXES as JCAMP
from geonode.spectra.formats.jcamp_dx import read_jcamp, read_jcamp_files
from geonode.spectra.formats.labelled_arrays import read_labelled_arrays
from geonode.spectra.formats.layout import sheet_of
from geonode.spectra.formats.separate import together
from geonode.spectra.formats.spc import read_spc
from geonode.spectra.levels import Replicates, scans_of
from geonode.spectra.sense import doubts, doubts_of_cells
from geonode.spectra.sheet import Grid, Sheet, shortest, to_number
from geonode.spectra.table import FEWEST_WAVELENGTHS, MOST_LEVELS, SpectraTable
from geonode.terminal import printable

_LOG = logging.getLogger(__name__)

Missing = Literal["refuse", "mask"]
Window = tuple[float, float] | None

TABLES: dict[str, Callable[[Path], Grid]] = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), read_delimited),
    ".xlsx": read_excel,
}
"""Readers of cells, by extension."""

SHEETS: dict[str, Callable[[Path], Sheet]] = {
    **dict.fromkeys(JCAMP, read_jcamp),
    ".spc": read_spc,
    ".nc": read_labelled_arrays,
    ".zarr": read_labelled_arrays,
}
"""Readers of spectra that say which way they run, by extension."""

SUFFIXES = (*TABLES, *SHEETS)


@dataclass(frozen=True)
class Choices:
    """Choices that a file leaves open.

    Attributes:
        sheet: of a workbook; None: the one that is not empty.
        concentrations: second table, of names and concentrations; None: the names say them.
        replicates: what `20.1` beside `20` is.
    """

    sheet: str | None = None
    concentrations: Path | None = None
    replicates: Replicates = "ask"


UNCHOSEN = Choices()


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


def read_table(
    path: Path,
    *,
    window: Window = None,
    missing: Missing = "refuse",
    choices: Choices = UNCHOSEN,
) -> SpectraTable:
    """Read a concentration series.

    Args:
        path: a file of any known format. Its axis ascends or descends and its levels have any
            order; the table is ascending in both.
        window: part of the axis to keep, ends included (axis unit).
        missing: whether a missing value within the window is an error, or its wavelength is left
            out and reported as masked.
        choices: what the file leaves open.

    Raises:
        SpectraError: the file cannot be read, or is no series; the message names file, row,
            column, what was found and what was expected.
    """
    sheet, table = sheet_and_series(path, window, missing, choices)
    for line in (*sheet.understood.notes, *doubts(sheet, table)):
        _LOG.warning("%s: %s", printable(str(path)), line)
    return table


def read_spectra(
    path: Path, *, missing: Missing = "refuse", sheet_name: str | None = None
) -> Spectra:
    """Read spectra of unknown concentration.

    Args:
        path: a file of any known format; the names of its spectra may be any text.
        missing: as `read_table`.
        sheet_name: of a workbook; None: the one that is not empty.

    Raises:
        SpectraError: the file cannot be read, a spectrum has no name or that of another, or there
            are too few wavelengths.
    """
    with errors_naming(path):
        sheet = read_sheet(path, most_levels=None, sheet_name=sheet_name)
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
        for line in (*sheet.understood.notes, *doubts_of_cells(sheet)):
            _LOG.warning("%s: %s", printable(str(path)), line)
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
        raise SpectraError(
            f"{path}: not UTF-8 text, nor UTF-16 or Windows-1252; expected text saved as UTF-8"
        ) from error
    except SpectraError as error:
        raise SpectraError(f"{path}: {' '.join(str(error).split())}") from error


def sheet_and_series(
    path: Path, window: Window, missing: Missing, choices: Choices
) -> tuple[Sheet, SpectraTable]:
    """Spectra of a file, called by their concentrations, and the series that they are.

    Raises:
        SpectraError: as `read_table`.
    """
    second = choices.concentrations
    most = MOST_LEVELS if second is None else None
    with errors_naming(path):
        sheet = read_sheet(path, most_levels=most, sheet_name=choices.sheet, apart=second)
        if second is not None:
            with errors_naming(second):
                sheet = with_concentrations(sheet, _read_grid(second), second.name, SUFFIXES)
        return sheet, _series_of(sheet, window, missing, choices.replicates)


def read_sheet(
    path: Path,
    *,
    most_levels: int | None,
    sheet_name: str | None = None,
    apart: Path | None = None,
) -> Sheet:
    """Named spectra of a file, or of a folder of files.

    Args:
        path: a file of any known format.
        most_levels: of a series, if the spectra are one; None: they need not be.
        sheet_name: of a workbook; None: the one that is not empty.
        apart: a file of the folder that has no spectrum in it.

    Raises:
        SpectraError: the format is unknown, or the file is none of its format.
        OSError, UnicodeDecodeError: the file cannot be read.
    """
    suffix = path.suffix.lower()
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise SpectraError("found a pipe or a device, expected a file or a folder")
    if sheet_name is not None and suffix != ".xlsx":
        raise SpectraError(f"found the sheet {sheet_name!r} asked for, expected a workbook (.xlsx)")
    if suffix in TABLES:
        return sheet_of(_read_grid(path, sheet_name), most_levels)
    if suffix in SHEETS:
        return SHEETS[suffix](path)
    if path.is_dir():
        return _read_folder(path, apart)
    raise SpectraError(_unknown(suffix, SUFFIXES))


def _unknown(suffix: str, known: Iterable[str]) -> str:
    return f"found a file {suffix or 'without extension'}, expected one of {', '.join(known)}"


def _read_grid(path: Path, sheet_name: str | None = None) -> Grid:
    suffix = path.suffix.lower()
    if suffix not in TABLES:
        raise SpectraError(_unknown(suffix, TABLES))
    return read_excel(path, sheet_name) if suffix == ".xlsx" else TABLES[suffix](path)


def _read_folder(path: Path, apart: Path | None) -> Sheet:
    """Spectra of all files of a folder."""
    files = sorted(file for file in path.iterdir() if not file.name.startswith("."))
    if apart is not None:
        files = [file for file in files if file.resolve() != apart.resolve()]
    if not files:
        raise SpectraError("found a folder with nothing in it, expected files of spectra")
    if all(file.suffix.lower() in JCAMP for file in files):
        return read_jcamp_files(files)
    found = {}
    for file in files:
        suffix = file.suffix.lower()
        if not file.is_file() or suffix not in SUFFIXES:
            raise SpectraError(
                f"found a folder with {file.name} in it, expected files of one spectrum each alone "
                f"({', '.join(SUFFIXES)})"
            )
        try:
            if suffix in TABLES:
                found[file.name] = sheet_of(_named(_read_grid(file)), None)
            else:
                found[file.name] = SHEETS[suffix](file)
        except SpectraError as error:
            raise SpectraError(f"{file.name}: {error}") from error
    return together(found)


def _named(grid: Grid) -> Grid:
    """Two columns with a header, where a file of one spectrum has none."""
    if len(grid.header) != 2 or any(to_number(name) is None for name in grid.header):
        return grid
    return replace(
        grid,
        headings=[(grid.header_row, ["axis", "signal"])],
        rows=[grid.headings[-1], *grid.rows],
        understood=replace(grid.understood, header_rows=()),
    )


def _series_of(
    sheet: Sheet, window: Window, missing: Missing, replicates: Replicates
) -> SpectraTable:
    """The series that named spectra are.

    Raises:
        SpectraError: names are no concentrations or disagree in their unit, a scan is there twice,
            or wavelengths are missing.
    """
    scans, unit = scans_of(sheet, replicates)
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
    """Wavelengths inside the window."""
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
