"""The series that parameters name, of one substance or of samples of several.

A sample without one of its amounts is left out.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
from jaxtyping import Float

from geonode.config import SpectraParameters
from geonode.errors import SpectraError
from geonode.reading.amounts import require_amount
from geonode.reading.files import (
    Choices,
    errors_naming,
    read_known_sheet,
    selected,
    sheet_and_table,
    warn,
)
from geonode.reading.headers import amount_name, concentration_header, same_unit
from geonode.reading.sense import doubts, doubts_of_cells, unstuck
from geonode.reading.sheet import NOT_KNOWN, Labels, Sheet
from geonode.spectra.chart import Chart
from geonode.spectra.preprocessing import Preprocessing
from geonode.spectra.quantities import signal_of
from geonode.spectra.series import Series, labels_of, level_names
from geonode.spectra.table import SpectraTable


def read_measured(parameters: SpectraParameters) -> Series:
    """The series of the file that parameters name: of samples where it gives several amounts.

    Raises:
        SpectraError: as `samples_of`; or as `measured_table`, or a chart does not suit the levels.
    """
    sheet = known_sheet(parameters)
    if has_several_amounts(sheet):
        return samples_of(sheet, parameters)[2]
    return _of_levels(_table_of(sheet, parameters), parameters)


def measured_table(parameters: SpectraParameters) -> SpectraTable:
    """The table that parameters name, preprocessed.

    Raises:
        SpectraError: it is no series, its concentrations are in another unit, or a step of the
            preprocessing does not suit it.
    """
    return _table_of(known_sheet(parameters), parameters)


def read_series_csv(parameters: SpectraParameters) -> Series:
    """The series of a measured table of one substance, without an artifact between.

    Raises:
        SpectraError: as `measured_table`, or the chart does not suit the levels.
    """
    return _of_levels(measured_table(parameters), parameters)


def choices_of(parameters: SpectraParameters) -> Choices:
    """What parameters choose where files leave it open."""
    second = parameters.concentrations
    of_names = Path(second) if second else None
    return Choices(parameters.sheet, of_names, parameters.replicates, parameters.target)


def known_sheet(parameters: SpectraParameters) -> Sheet:
    """Spectra of the file that parameters name, of known amounts.

    Raises:
        SpectraError: it cannot be read.
    """
    source = Path(parameters.source)
    with errors_naming(source):
        return read_known_sheet(source, choices_of(parameters))


def has_several_amounts(sheet: Sheet) -> bool:
    """Whether a sheet gives several amounts, of which none was chosen."""
    return any(one.is_sure for one in sheet.amounts)


def samples_of(
    sheet: Sheet, parameters: SpectraParameters
) -> tuple[Sheet, Float[np.ndarray, "masked"], Series]:
    """Spectra with several amounts that are used, wavelengths left out, and the samples they are.

    Raises:
        SpectraError: an amount is none, or units differ.
    """
    path = Path(parameters.source)
    with errors_naming(path):
        sure = [one for one in sheet.amounts if one.is_sure]
        known = [
            all(one.cells[at].lower() not in NOT_KNOWN for one in sure)
            for at in range(len(sheet.names))
        ]
        left = [name for name, is_known in zip(sheet.names, known, strict=True) if not is_known]
        if not any(known):
            raise SpectraError("found no sample with all amounts, expected some")
        sheet = sheet.at(np.flatnonzero(known).tolist())
        names, units, amounts = _amounts(
            [one for one in sheet.amounts if one.is_sure], parameters.concentration_unit
        )
        chosen = selected(sheet, parameters.window, parameters.missing)
        sheet, kept, masked = unstuck(sheet, *chosen, parameters.missing)
        done = Preprocessing(tuple(parameters.preprocess))
        axis = sheet.axis[kept]
        signal, quantity = done.require(axis, sheet.values[:, kept], sheet.names), sheet.quantity
    if left:
        said = f"samples without all amounts left out: {', '.join(left[:10])}"
        sheet = replace(sheet, understood=sheet.understood.also(notes=(said,)))
    warn(path, sheet, doubts_of_cells(sheet))
    labels = {
        "signal": done.quantity(signal_of(parameters.quantity, parameters.unit, quantity)),
        "signal_unit": done.unit(parameters.unit, sheet.axis_unit),
        "axis": sheet.axis_name,
        "axis_unit": sheet.axis_unit,
        "concentration_unit": units[0] if len({*units}) == 1 else "1",
    }
    about = amounts, axis, signal, labels, names, units, tuple(sheet.names)
    return sheet, masked, Series(*about, preprocessing=done)


def _table_of(sheet: Sheet, parameters: SpectraParameters) -> SpectraTable:
    """The table that a sheet is, preprocessed."""
    source = Path(parameters.source)
    with errors_naming(source):
        asked = parameters.window, parameters.missing, parameters.replicates
        sheet, table = sheet_and_table(sheet, *asked)
    warn(source, sheet, doubts(sheet, table))
    found, expected = table.concentration_unit, parameters.concentration_unit
    if found is not None and expected is not None and not same_unit(found, expected):
        raise SpectraError(
            f"{source}: found concentrations in {found}, and spectra.concentration_unit "
            f"{expected}; set spectra.concentration_unit to {found}"
        )
    done, names = Preprocessing(tuple(parameters.preprocess)), level_names(table.concentrations)
    scans = [
        done.require(table.axis, of_level, [name] * len(of_level))
        for name, of_level in zip(names, table.scans, strict=True)
    ]
    return replace(table, scans=scans)


def _of_levels(table: SpectraTable, parameters: SpectraParameters) -> Series:
    """The series of a preprocessed table."""
    return Series.of_levels(
        table.concentrations,
        table.axis,
        table.spectra,
        Chart.of(parameters.chart, parameters.kappa, table.concentrations),
        labels_of(table, parameters),
        table.replicates,
        Preprocessing(tuple(parameters.preprocess)),
    )


def _amounts(
    columns: list[Labels], expected: str | None
) -> tuple[tuple[str, ...], tuple[str, ...], Float[np.ndarray, "sample substance"]]:
    """Substances, units and amounts, from cells."""
    names = [amount_name(one.header) for one in columns]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise SpectraError(f"found two amounts called {repeated[0][:40]!r}, expected one name each")
    units, found = [], []
    for name, one in zip(names, columns, strict=True):
        unit = concentration_header(one.header)[1] or expected
        for cell, place in zip(one.cells, one.places, strict=True):
            where = f"{place}, {name}"
            amount = require_amount(cell, where)
            unit = unit or amount.unit
            for other in (amount.unit, expected):
                if other and unit and not same_unit(other, unit):
                    raise SpectraError(
                        f"{where}: found amounts in {unit} and {other}, expected one unit"
                    )
            found.append(amount.concentration)
        units.append(unit or "1")
    amounts = np.reshape(found, (len(names), -1)).T
    return tuple(names), tuple(units), amounts
