"""Spectra in the files that instruments and people make.

Bytes become cells (`Cells`) or named spectra (`Sheet`), cells become named spectra by their layout,
and a series takes the names for concentrations, where `30__r2` is a further scan of level 30;
`read_spectra` leaves them names. Readers are registered by extension in `FORMATS`; a
folder contains one spectrum in each file. Messages count rows from 1, header included, as an editor
shows them.
"""

import logging
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float

from geonode.errors import SpectraError
from geonode.reading.amounts import Asked, named_by_amount, with_second_table
from geonode.reading.formats.delimited import read_delimited
from geonode.reading.formats.excel import filled_sheets, read_excel
from geonode.reading.formats.jcamp_dx import JCAMP_SUFFIXES, read_jcamp
from geonode.reading.formats.labelled_arrays import read_matlab, read_netcdf, read_zarr
from geonode.reading.formats.spc import read_spc
from geonode.reading.headers import labelled_level, level, role
from geonode.reading.layouts.choice import sheet_of
from geonode.reading.levels import RenamedColumns, places_by_level, unknown_apart
from geonode.reading.refusals import errors_naming
from geonode.reading.sense import doubts
from geonode.reading.sheet import Cells, Sheet, joined, places_called, some_of
from geonode.spectra.table import FEWEST_WAVELENGTHS, Spectra
from geonode.terminal import printable

_LOG = logging.getLogger(__name__)

Missing = Literal["refuse", "mask"]

FORMATS: dict[str, Callable[[Path], Cells | Sheet]] = {
    **dict.fromkeys((".csv", ".tsv", ".txt", ".dat", ".asc", ".prn", ".dpt"), read_delimited),
    ".xlsx": read_excel,
    **dict.fromkeys(JCAMP_SUFFIXES, read_jcamp),
    ".spc": read_spc,
    ".mat": read_matlab,
    ".zarr": read_zarr,
    ".nc": read_netcdf,
}
"""Readers by extension, of cells or of formats that state which way their spectra run."""

SUFFIXES = tuple(FORMATS)

TEXTS = (".txt", ".dat", ".asc")
"""Endings of spectra and of notes alike."""

HIDDEN = (".", "~$")
"""Beginnings of the names of files that are no one's spectra: hidden ones, and locks of Excel."""

NO_READER = {
    **dict.fromkeys((".xls", ".ods", ".xlsm"), "save the sheet as .xlsx or .csv"),
    **dict.fromkeys(
        (".spa", ".sp", ".wdf", ".dsw", ".bsw", ".jws", ".abs", ".opus"),
        "export it in the program of the instrument, as JCAMP-DX, or as text in two columns",
    ),
}
"""Advice on files of formats that are not read, by ending."""


@dataclass(frozen=True)
class Choices:
    """Choices that a file leaves open."""

    sheet: str | None = None
    """Sheet of a workbook; None: the only one that is not empty."""
    concentrations: Path | None = None
    """Second table, of names and concentrations; None, or a table without rows: the names
    say them."""
    replicates: RenamedColumns = "ask"
    """Reading of `20.1` beside `20`: a scan, a level, or a question."""
    target: str | None = None
    """Amount to take, where the table or the second one gives several."""


UNCHOSEN = Choices()


def read_spectra(
    path: Path, *, missing: Missing = "refuse", sheet_name: str | None = None
) -> Spectra:
    """Read spectra of unknown concentration.

    Args:
        path: a file of any known format; the names of its spectra may be any text.
        missing: whether a missing value is an error, or its wavelength is left out as masked.
        sheet_name: sheet of a workbook; None: the only one that is not empty.

    Raises:
        SpectraError: the file cannot be read, a spectrum has no name or that of another, or there
            are too few wavelengths.
    """
    with errors_naming(path):
        sheet = read_sheet(path, Asked(), sheet_name=sheet_name)
        spectra = _named(sheet, missing)
    warn(path, doubts(sheet))
    return spectra


def read_unknown_beside(
    path: Path, *, missing: Missing = "refuse", choices: Choices = UNCHOSEN
) -> Spectra | None:
    """Read the spectra of unknown concentration that a file has beside its standards.

    Args:
        path: a series, or samples of several substances.
        missing: as in `read_spectra`.
        choices: what the file leaves open.

    Returns:
        The spectra by their names; None: every spectrum has a concentration.

    Raises:
        SpectraError: as `read_spectra`, or the second table does not fit.
    """
    with errors_naming(path):
        unknown = read_known_sheet(path, choices).unknown
        return None if unknown is None else _named(unknown, missing)


def _named(sheet: Sheet, missing: Missing) -> Spectra:
    """Spectra by their names, each of which is there once."""
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
    kept, masked = sheet.selected(None, missing)
    if len(kept) < FEWEST_WAVELENGTHS or not sheet.names:
        raise SpectraError(
            f"found {len(sheet.names)} spectra at {len(kept)} wavelengths, expected at least "
            f"one at {FEWEST_WAVELENGTHS}"
        )
    about = sheet.names, sheet.axis[kept], sheet.axis_name, sheet.axis_unit
    return Spectra(*about, sheet.values[:, kept], masked, sheet.quantity)


def read_known(
    path: Path, choices: Choices = UNCHOSEN
) -> tuple[Spectra, Float[np.ndarray, "spectrum"], str | None]:
    """Read spectra of known concentration, of a series or any number of them.

    Returns:
        The spectra, by ascending concentration; the concentrations; their unit if the file has it.

    Raises:
        SpectraError: the file cannot be read, or gives no concentrations.
    """
    with errors_naming(path):
        sheet = read_known_sheet(path, choices)
        places, unit = places_by_level(sheet, choices.replicates)
        kept, masked = sheet.selected(None, "refuse")
        order = [place for of_level in places.values() for place in of_level]
        names = [sheet.names[place] for place in order]
        about = sheet.axis[kept], sheet.axis_name, sheet.axis_unit
        values = sheet.values[order][:, kept]
        spectra = Spectra(names, *about, values, masked, sheet.quantity)
    warn(path, doubts(sheet))
    return spectra, np.repeat([*places], [*map(len, places.values())]), unit


def warn(path: Path, doubtful: list[str]) -> None:
    """Log doubts about a file."""
    for line in doubtful:
        _LOG.warning("%s: %s", printable(str(path)), line)


def read_known_sheet(path: Path, choices: Choices) -> Sheet:
    """Spectra named by their concentrations, or with several amounts of which none was chosen.

    Raises:
        SpectraError: as `read_sheet`, or the second table does not fit.
        OSError, UnicodeDecodeError: a file cannot be read.
    """
    second, called = _second_table(path, choices)
    table = None
    if second is not None:
        with nullcontext() if second == path else errors_naming(second):
            grid = read_format(second, called, of_names=True)
            if not isinstance(grid, Cells):
                raise SpectraError("found spectra, expected a table of names")
            table = grid if grid.rows else None
    asked = Asked(series=table is None, target=choices.target if table is None else None)
    beside = called if second == path else None
    sheet = read_sheet(path, asked, sheet_name=choices.sheet, apart=second, beside=beside)
    if table is not None and second is not None:
        place = f"{second.name}, sheet {called!r}" if called else second.name
        sheet = named_by_amount(with_second_table(sheet, table, place, SUFFIXES), choices.target)
    if not sheet.sure_amounts:
        return unknown_apart(sheet)
    unknown = [at for at, known in enumerate(sheet.known_amounts) if not any(known)]
    return sheet.apart(unknown, "known amount") if len(unknown) < len(sheet.names) else sheet


def _second_table(path: Path, choices: Choices) -> tuple[Path | None, str | None]:
    """The second table and its sheet; without one, the sheet that is called concentrations."""
    if choices.concentrations is not None:
        return file_and_sheet(choices.concentrations)
    is_book = choices.sheet is None and path.suffix.lower() == ".xlsx" and path.is_file()
    titles = filled_sheets(path) if is_book else []
    called = [title for title in titles if role(title) == "concentration"]
    return (path, called[0]) if len(called) == 1 < len(titles) else (None, None)


def file_and_sheet(second: Path) -> tuple[Path, str | None]:
    """The file of a second table, and the sheet that `book.xlsx:Sheet` names."""
    book, mark, called = str(second).rpartition(":")
    if mark and not second.exists() and book.lower().endswith(".xlsx"):
        return Path(book), called
    return second, None


def read_sheet(
    path: Path,
    asked: Asked,
    *,
    sheet_name: str | None = None,
    apart: Path | None = None,
    beside: str | None = None,
) -> Sheet:
    """Named spectra of a file, or of a folder of files.

    Args:
        path: a file of any known format.
        asked: what the spectra are read for.
        sheet_name: sheet of a workbook; None: the only one that is not empty.
        apart: a file of the folder that contains no spectrum.
        beside: a sheet of the workbook that contains no spectrum.

    Raises:
        SpectraError: the format is unknown, or the file does not keep to it.
        OSError, UnicodeDecodeError: the file cannot be read.
    """
    suffix = path.suffix.lower()
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise SpectraError("found a pipe or a device, expected a file or a folder")
    if sheet_name is not None and suffix != ".xlsx":
        raise SpectraError(f"found the sheet {sheet_name!r} asked for, expected a workbook (.xlsx)")
    if path.is_dir() and suffix not in SUFFIXES:
        return _read_folder(path, apart, asked)
    found = read_format(path, sheet_name, beside=beside)
    if isinstance(found, Cells):
        found = sheet_of(found, replace(asked, called=_name_and_ending(path)[0]))
    return named_by_amount(found, asked.target) if asked.series else found


def read_format(
    path: Path, sheet: str | None = None, *, of_names: bool = False, beside: str | None = None
) -> Cells | Sheet:
    """Cells, or spectra, of a file by its ending, text if it is unknown; raises as `read_sheet`."""
    suffix = _name_and_ending(path)[1]
    if way := _way_out(suffix):
        raise SpectraError(
            f"found a file {suffix}, expected one of {', '.join(SUFFIXES)}, or text; {way}"
        )
    reader = FORMATS.get(suffix, read_delimited)
    if reader is read_excel:
        return read_excel(path, sheet, of_names=of_names, beside=beside)
    return read_delimited(path, of_names=of_names) if reader is read_delimited else reader(path)


def _name_and_ending(path: Path) -> tuple[str, str]:
    """Name of a file without its ending, and that in small letters; 0.5 ppb has none."""
    called, _, ending = path.name.rpartition(".")
    has_one = called and (ending[:1].isalpha() or ending.isdigit())
    return (called, f".{ending.lower()}") if has_one else (path.name, "")


def _way_out(suffix: str) -> str | None:
    """Advice on a file of an ending that is not read; Bruker's are numbered."""
    return NO_READER[".opus"] if suffix[1:].isdigit() else NO_READER.get(suffix)


def _read_folder(path: Path, apart: Path | None, asked: Asked) -> Sheet:
    """Spectra of the files of a folder on one axis; of several endings, the most frequent one."""
    files = sorted(file for file in path.iterdir() if not file.name.startswith(HIDDEN))
    if apart is not None:
        files = [file for file in files if file.resolve() != apart.resolve()]
    if not files:
        raise SpectraError("found a folder with nothing in it, expected files of spectra")
    endings = [_name_and_ending(file)[1] for file in files if file.is_file()]
    known = Counter(ending for ending in endings if ending in FORMATS)
    known = known or Counter(ending for ending in endings if not _way_out(ending))
    (ending, most), (other, next_most) = [*known.most_common(2), *[("", 0)] * 2][:2]
    if most == next_most:
        found = f"as many files {ending} as {other}" if most else f"{files[0].name} in a folder"
        raise SpectraError(
            f"found {found}, expected files of one spectrum each, of one ending "
            f"({', '.join(SUFFIXES)}); move the others elsewhere"
        )
    kept = [file for file in files if file.is_file() and _name_and_ending(file)[1] == ending]
    left = [file.name for file in files if file not in kept]
    sheets = {}
    for file in kept:
        with errors_naming(file.name):
            sheets[file.name] = _one_of_folder(file, asked.target)
    spectra = joined(sheets, by_title=ending in JCAMP_SUFFIXES)
    if ending in JCAMP_SUFFIXES and asked.series:
        spectra = named_by_amount(spectra, asked.target)
    if not left:
        return spectra
    note = (
        f"of the folder, the {len(kept)} files {ending} are read; left out are {some_of(left)}: if "
        "they are spectra too, save all in one format"
    )
    return spectra.noted(note)


def _one_of_folder(file: Path, column: str | None) -> Sheet:
    """The spectrum of a file, called like the file; of JCAMP-DX all, called as in the file."""
    if _name_and_ending(file)[1] in JCAMP_SUFFIXES:
        sheet = read_sheet(file, Asked())
        places = [f"{file.name}, {place}" for place in sheet.name_places]
        return replace(sheet, name_places=places)
    sheet = read_sheet(file, Asked(target=column))
    chosen = [*range(len(sheet.names))] if column is None else places_called(sheet.names, column)
    if len(chosen) != 1:
        called = "," if column is None else f" called {column[:40]!r} among"
        names = some_of([repr(name[:40]) for name in sheet.names])
        raise SpectraError(
            f"found {len(chosen)} spectra{called} {names}, expected one in every file of a folder; "
            "choose it by spectra.target, or read this file alone"
        )
    sheet = sheet.at(chosen)
    signal, name = sheet.signal or sheet.quantity, _name_and_ending(file)[0]
    inside, outside = (level(one) or labelled_level(one) for one in (sheet.names[0], name))
    if inside and inside.unit and outside and inside.concentration != outside.concentration:
        raise SpectraError(
            f"found {sheet.names[0][:40]!r} in a file called {name[:40]!r}, expected one "
            "concentration; correct the name of either"
        )
    return replace(sheet, signal=signal, names=[name], name_places=[file.name], of_samples=True)
