"""One series of spectra, and the tables that people and instruments make of it."""

import re
from dataclasses import asdict

import numpy as np
import pytest

from geonode.commands.spectra_file import spectra_parameters
from geonode.config import SpectraParameters
from geonode.errors import SpectraError
from geonode.reading.files import UNCHOSEN
from geonode.reading.inspection import Inspection
from geonode.reading.series_file import known_sheet, measured_table

LEVELS = np.array([0.0, 10.0, 20.0, 60.0])
AXIS = np.array([400.0, 410.0, 420.0, 430.0])
SPECTRA = np.round(np.arange(1, 17).reshape(4, 4).T / 10, 1)  # one row a level
NAMES = [f"{level:g}" for level in LEVELS]
PPB = [f"{name} ppb" for name in NAMES]
PLAIN = """\
wavelength_nm,0,10,20,60
400,0.1,0.2,0.3,0.4
410,0.5,0.6,0.7,0.8
420,0.9,1.0,1.1,1.2
430,1.3,1.4,1.5,1.6
"""


def parameters(**changes):
    """The block `spectra` of the parameters of a series, as they are but for some."""
    values = {
        **{"source": "series.csv", "quantity": "intensity", "unit": "counts"},
        **{"concentration_unit": "ppb", "chart": "linear", "kappa": None},
        **{"window": None, "missing": "mask"},
    }
    return SpectraParameters.model_validate(values | changes)


def asked(path, choices=UNCHOSEN, **options):
    """Parameters that read a file, with what it leaves open."""
    return spectra_parameters(path, **(asdict(choices) | options))


def read_table(path, **options):
    """The series that a file is."""
    return measured_table(asked(path, **options))


def inspect_file(path, missing="mask", **options):
    """How a file is understood."""
    parameters = asked(path, missing=missing, **options)
    return Inspection.of(known_sheet(parameters), parameters)


def wide(names=NAMES, corner="wavelength_nm", axis=AXIS, spectra=SPECTRA):
    """One column a spectrum."""
    rows = zip(axis, spectra.T, strict=True)
    return [[corner, *names], *([f"{at:g}", *(f"{v:g}" for v in row)] for at, row in rows)]


def tall(corner="concentration_ppb", names=NAMES, axis=AXIS):
    """One row a spectrum."""
    rows = zip(names, SPECTRA, strict=True)
    return [[corner, *map(str, axis)], *([name, *(f"{v:g}" for v in row)] for name, row in rows)]


def long(header=("concentration", "wavelength_nm", "absorbance"), names=NAMES, order=(0, 1, 2)):
    """One row a value."""
    spectra = zip(names, SPECTRA, strict=True)
    rows = [[name, f"{at:g}", f"{v:g}"] for name, row in spectra for at, v in zip(AXIS, row)]  # noqa: B905
    return [[row[place] for place in order] for row in [header, *rows[::-1]]]


def above(*rows, spectra=SPECTRA):
    """One column a spectrum, below other rows than its header."""
    return [*rows, *wide(spectra=spectra)[1:]]


def numbers(rows):
    """Cells of which texts of numbers are numbers."""
    return [[float(c) if re.fullmatch(r"[0-9.]+", str(c)) else c for c in row] for row in rows]


def text(rows, mark=",", point="."):
    """Rows of cells as text."""
    return "\n".join(mark.join(cell.replace(".", point) for cell in row) for row in rows) + "\n"


def cary(names, axes=(AXIS,) * 4, spectra=SPECTRA, end=","):
    """Two columns a spectrum, as Cary instruments write them; shorter ones end in empty cells."""
    lines = [",,".join(names) + "," + end, ",".join(["Wavelength (nm),Abs"] * len(names)) + end]
    for place in range(max(map(len, axes))):
        pairs = [
            f"{axis[place]:g},{values[place]:.10g}" if place < len(axis) else ","
            for axis, values in zip(axes, spectra, strict=True)
        ]
        lines.append(",".join(pairs) + end)
    return "\n".join(lines) + "\n"


def assert_series(table, unit=None, axis_unit="nm", rtol=0):
    """The series is read, with these units."""
    np.testing.assert_array_equal(table.concentrations, LEVELS)
    np.testing.assert_allclose(table.axis, AXIS, rtol=rtol)
    np.testing.assert_allclose(table.spectra, SPECTRA, rtol=rtol)
    assert (table.concentration_unit, table.axis_unit) == (unit, axis_unit)
    assert table.masked.size == 0


def assert_refused(message, read, *arguments, **options):
    """What is read is refused with a message, a regular expression."""
    with pytest.raises(SpectraError, match=message):
        read(*arguments, **options)
