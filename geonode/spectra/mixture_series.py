"""Spectra of samples with known amounts of several substances.

Amounts stand in columns beside the spectra of a table with one row a sample, or in those of a
second table. A sample without one of them is left out.
"""

import logging
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float

from geonode.config import SpectraParameters
from geonode.errors import SpectraError
from geonode.spectra.headers import concentration_header, level, role, same_unit
from geonode.spectra.layouts.choice import sheet_of, with_amounts
from geonode.spectra.layouts.layout import Asked, amount_name
from geonode.spectra.layouts.rows import EMPTY, amounts_of, texts_of
from geonode.spectra.preprocessing import Preprocessing
from geonode.spectra.reading import (
    SUFFIXES,
    errors_naming,
    read_format,
    read_sheet,
    selected,
    warn,
)
from geonode.spectra.sense import doubts_of_cells
from geonode.spectra.series import labelled
from geonode.spectra.sheet import Grid, Sheet
from geonode.terminal import printable

_LOG = logging.getLogger(__name__)

Columns = dict[str, list[str]]
"""Cells by header, of columns of amounts."""


@dataclass(frozen=True, eq=False)
class MixtureSeries:
    """Samples of several substances on one spectral axis.

    Attributes:
        samples: names of the samples, which may repeat.
        substances: names of the substances.
        units: of their amounts; "1" if unknown.
        amounts: of every substance in every sample.
        axis: spectral axis, ascending.
        signal: spectrum of every sample, preprocessed.
        labels: `signal`, `signal_unit`, `axis` and `axis_unit`.
        preprocessing: what was done to every spectrum.
    """

    samples: list[str]
    substances: tuple[str, ...]
    units: tuple[str, ...]
    amounts: Float[np.ndarray, "sample substance"]
    axis: Float[np.ndarray, "wavelength"]
    signal: Float[np.ndarray, "sample wavelength"]
    labels: dict[str, str]
    preprocessing: Preprocessing

    @property
    def axis_label(self) -> str:
        """Name and unit of the spectral axis."""
        return labelled(self.labels["axis"].replace("_", " "), self.labels["axis_unit"])

    @property
    def named(self) -> list[str]:
        """Substances with their units."""
        return [labelled(*one) for one in zip(self.substances, self.units, strict=True)]


def read_mixtures(parameters: SpectraParameters) -> MixtureSeries | None:
    """Samples of the table that parameters name; None: it has one amount, or one is chosen.

    Raises:
        SpectraError: the table cannot be read, an amount is none, or units differ.
    """
    path, second = Path(parameters.source), parameters.concentrations
    if parameters.target is not None:
        return None
    with errors_naming(path):
        found = (
            _of_second_table(path, Path(second), parameters.sheet)
            if second
            else _of_table(path, parameters.sheet)
        )
        if found is None:
            return None
        sheet, columns = found
        kept, _ = selected(sheet, parameters.window, parameters.missing)
        amounts, units = _amounts(columns, sheet.name_places, parameters.concentration_unit)
        done = Preprocessing(tuple(parameters.preprocess))
        axis = sheet.axis[kept]
        signal = done.require(axis, sheet.values[:, kept], sheet.names)
    warn(path, sheet, doubts_of_cells(sheet))
    labels = {
        "signal": done.quantity(parameters.quantity),
        "signal_unit": done.unit(parameters.unit, sheet.axis_unit),
        "axis": sheet.axis_name,
        "axis_unit": sheet.axis_unit,
    }
    names = tuple(map(amount_name, columns))
    return MixtureSeries(sheet.names, names, units, amounts, axis, signal, labels, done)


def _of_table(path: Path, sheet_name: str | None) -> tuple[Sheet, Columns] | None:
    """Spectra of a table and the amounts beside them; None: there are not several."""
    if not path.is_file() or (sheet_name is not None and path.suffix.lower() != ".xlsx"):
        return None  # read as one amount, it is refused
    grid = read_format(path, sheet_name)
    if not isinstance(grid, Grid):
        return None
    grid, amounts = with_amounts(grid)
    if len(amounts) < 2:
        return None
    rows = [row for row in grid.rows if all(row[1][at].lower() not in EMPTY for at in amounts)]
    kept = {number for number, _ in rows}
    left = [f"row {number}" for number in grid.row_numbers if number not in kept]
    _require_samples(path, len(rows), left)
    grid = replace(grid, rows=rows)
    sheet = sheet_of(grid, Asked(called=path.stem))
    places = [place.split(",")[0] for place in sheet.name_places]
    columns = {header: texts_of(grid, at) for at, header in amounts.items()}
    unnamed = sheet.names in columns.values()
    return replace(sheet, names=places if unnamed else sheet.names, name_places=places), columns


def _of_second_table(
    path: Path, second: Path, sheet_name: str | None
) -> tuple[Sheet, Columns] | None:
    """Spectra, and the amounts of a second table; None: it has not several."""
    with errors_naming(second):
        grid = read_format(second)
    if not isinstance(grid, Grid) or not grid.rows:
        return None
    columns = range(len(grid.header))
    amounts = amounts_of(grid, columns, Asked(series=True))
    others = [at for at in columns if at not in amounts]
    named = [at for at in others if role(grid.header[at]) == "other"] or others
    if len(amounts) < 2 or len(named) != 1:
        return None
    rows: dict[str, int] = {}
    for place, (row, cells) in enumerate(grid.rows):
        name = cells[named[0]]
        name = Path(name).stem if Path(name).suffix.lower() in SUFFIXES else name
        if name in rows:
            raise SpectraError(
                f"{second.name}, row {row}: found {name[:40]!r} again, expected it once"
            )
        rows[name] = place
    sheet = read_sheet(path, Asked(), sheet_name=sheet_name, apart=second)
    for name, where in zip(sheet.names, sheet.name_places, strict=True):
        if name not in rows:
            raise SpectraError(
                f"{where}: found {name[:40]!r}, which {second.name} has not, expected the name of "
                "every spectrum there; leave its amounts empty to leave it out"
            )
    texts = {header: texts_of(grid, at) for at, header in amounts.items()}
    kept = [
        place
        for place, name in enumerate(sheet.names)
        if all(cells[rows[name]].lower() not in EMPTY for cells in texts.values())
    ]
    left = [name for place, name in enumerate(sheet.names) if place not in kept]
    _require_samples(path, len(kept), left)
    names = [sheet.names[place] for place in kept]
    sheet = replace(
        sheet,
        names=names,
        values=sheet.values[kept],
        name_places=[f"{second.name}, row {grid.row_numbers[rows[name]]}" for name in names],
        columns=False,
    )
    return sheet, {key: [cells[rows[name]] for name in names] for key, cells in texts.items()}


def _require_samples(path: Path, count: int, left: list[str]) -> None:
    """Say which samples are left out, and refuse to leave out all.

    Raises:
        SpectraError: none is left.
    """
    if not count:
        raise SpectraError("found no sample with all amounts, expected some")
    if left:
        said = ", ".join(left[:10])
        _LOG.warning("%s: samples without all amounts left out: %s", printable(str(path)), said)


def _amounts(
    columns: Columns, places: list[str], expected: str | None
) -> tuple[Float[np.ndarray, "sample substance"], tuple[str, ...]]:
    """Amounts and their units, from cells.

    Args:
        columns: cells of the samples.
        places: where each sample stands, for messages.
        expected: unit that is said to be that of all.

    Raises:
        SpectraError: a cell is no amount, units differ, or a name is there twice.
    """
    names = [amount_name(header) for header in columns]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise SpectraError(f"found two amounts called {repeated[0][:40]!r}, expected one name each")
    found, units = np.empty((len(places), len(columns))), []
    for at, (header, cells) in enumerate(columns.items()):
        unit = concentration_header(header)[1] or expected
        for sample, (text, place) in enumerate(zip(cells, places, strict=True)):
            one = level(text)
            if one is None or one.scan != 1:
                raise SpectraError(
                    f"{place}, {names[at]}: found {text[:40]!r}, expected an amount that is finite "
                    "and not negative, such as 30 or 30 ppb, or nothing"
                )
            unit = unit or one.unit
            for other in (one.unit, expected):
                if other and unit and not same_unit(other, unit):
                    raise SpectraError(
                        f"{place}, {names[at]}: found amounts in {unit} and {other}, expected one "
                        "unit"
                    )
            found[sample, at] = one.concentration
        units.append(unit or "1")
    return found, tuple(units)
