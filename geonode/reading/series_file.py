"""The series that parameters name, of one substance or of samples of several.

A sample without one of its amounts is left out.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
from jaxtyping import Float

from geonode.config import SpectraParameters
from geonode.errors import SpectraError
from geonode.reading.files import Choices, read_known_sheet, warn
from geonode.reading.headers import amount_name, concentration_header, level, same_unit
from geonode.reading.levels import common_unit, places_by_level
from geonode.reading.refusals import errors_naming, unexpected
from geonode.reading.sense import doubts, unstuck
from geonode.reading.sheet import Labels, Sheet
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
    if sheet.sure_amounts:
        return samples_of(sheet, parameters)[2]
    return _of_levels(_preprocessed(sheet, parameters), parameters)


def measured_table(parameters: SpectraParameters) -> SpectraTable:
    """The table that parameters name, preprocessed; it ascends in axis and levels.

    Raises:
        SpectraError: it is no series, its concentrations are in another unit, or a step of the
            preprocessing does not suit it; the message names file, row, column, what was found and
            what was expected.
    """
    return _preprocessed(known_sheet(parameters), parameters)


def read_series_csv(parameters: SpectraParameters) -> Series:
    """The series of a measured table of one substance, without an artifact between.

    Raises:
        SpectraError: as `measured_table`, or the chart does not suit the levels.
    """
    return _of_levels(measured_table(parameters), parameters)


def choices_of(parameters: SpectraParameters) -> Choices:
    """Choices of parameters where files leave it open."""
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


def samples_of(
    sheet: Sheet, parameters: SpectraParameters
) -> tuple[Sheet, Float[np.ndarray, "masked"], Series]:
    """Spectra with several amounts that are used, wavelengths left out, and the samples they are.

    Raises:
        SpectraError: an amount is none, or units differ.
    """
    path = Path(parameters.source)
    with errors_naming(path):
        without = [at for at, known in enumerate(sheet.known_amounts) if not all(known)]
        left = [sheet.names[at] for at in without]
        if len(without) == len(sheet.names):
            raise SpectraError("found no sample with all amounts, expected some")
        sheet = sheet.at(sorted({*range(len(sheet.names))} - {*without}))
        names, units, amounts = _amounts(sheet.sure_amounts, parameters.concentration_unit)
        sheet, kept, masked = unstuck(sheet, parameters.window, parameters.missing)
        done = Preprocessing(tuple(parameters.preprocess))
        axis = sheet.axis[kept]
        signal, quantity = done.transform(axis, sheet.values[:, kept], sheet.names), sheet.quantity
    if left:
        sheet = sheet.noted(f"samples without all amounts left out: {', '.join(left[:10])}")
    warn(path, doubts(sheet))
    labels = {
        "signal": done.quantity(signal_of(parameters.quantity, parameters.unit, quantity)),
        "signal_unit": done.unit(parameters.unit, sheet.axis_unit),
        "axis": sheet.axis_name,
        "axis_unit": sheet.axis_unit,
        "concentration_unit": units[0] if len({*units}) == 1 else "1",
    }
    about = amounts, axis, signal, labels, names, units, tuple(sheet.names)
    return sheet, masked, Series(*about, preprocessing=done)


def table_of(sheet: Sheet, parameters: SpectraParameters) -> tuple[Sheet, SpectraTable]:
    """Spectra named by their concentrations, without stuck values, and the series that they are.

    Raises:
        SpectraError: they are no series.
    """
    with errors_naming(Path(parameters.source)):
        places, unit = places_by_level(sheet, parameters.replicates)
        levels = np.empty(len(sheet.names))
        for at, of_level in places.items():
            levels[of_level] = at
        sheet, kept, masked = unstuck(sheet, parameters.window, parameters.missing, levels)
        return sheet, SpectraTable(
            axis=sheet.axis[kept],
            axis_name=sheet.axis_name,
            axis_unit=sheet.axis_unit,
            concentrations=np.array(list(places)),
            scans=[sheet.values[spectra][:, kept] for spectra in places.values()],
            masked=masked,
            concentration_unit=unit,
            places=tuple(map(tuple, places.values())),
            quantity=sheet.quantity,
        )


def _preprocessed(sheet: Sheet, parameters: SpectraParameters) -> SpectraTable:
    source = Path(parameters.source)
    sheet, table = table_of(sheet, parameters)
    warn(source, doubts(sheet, table))
    unit, expected = table.concentration_unit, parameters.concentration_unit
    if unit is not None and expected is not None and not same_unit(unit, expected):
        raise SpectraError(
            f"{source}: found concentrations in {unit}, and spectra.concentration_unit "
            f"{expected}; set spectra.concentration_unit to {unit}"
        )
    done, names = Preprocessing(tuple(parameters.preprocess)), level_names(table.concentrations)
    scans = [
        done.transform(table.axis, of_level, [name] * len(of_level))
        for name, of_level in zip(names, table.scans, strict=True)
    ]
    return replace(table, scans=scans)


def _of_levels(table: SpectraTable, parameters: SpectraParameters) -> Series:
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
    names = [amount_name(column.header) for column in columns]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise SpectraError(f"found two amounts called {repeated[0][:40]!r}, expected one name each")
    units, amounts = [], []
    for name, column in zip(names, columns, strict=True):
        unit = concentration_header(column.header)[1] or expected
        for cell, place in zip(column.cells, column.places, strict=True):
            where, amount = f"{place}, {name}", level(cell)
            if amount is None:
                expected = "an amount that is finite and not negative, such as 30 or 30 ppb"
                raise unexpected(where, cell, f"{expected}, or nothing")
            unit = unit or amount.unit
            for other in (amount.unit, expected):
                common_unit(where, unit, other)
            amounts.append(amount.concentration)
        units.append(unit or "1")
    return tuple(names), tuple(units), np.reshape(amounts, (len(names), -1)).T
