"""Images whose pixels are spectra of the series of `trained`, as Zarr stores."""

import json

import numpy as np
import xarray

from tests.estimation.trained import AXIS, spectra_at

ROWS, COLUMNS = 5, 7
CONCENTRATIONS = np.linspace(3, 27, ROWS * COLUMNS)


def image_values():
    """A gradient of concentrations, with a pixel that was lost and one that is no such spectrum."""
    values = spectra_at(CONCENTRATIONS).reshape(ROWS, COLUMNS, -1)
    values[1, 2, 3] = np.nan
    values[4, 0] = 50.0
    return values


def store(path, values, axis=AXIS, dims=("y", "x", "wavelength"), chunks=None, **others):
    at_axis = {"wavelength": ("wavelength", axis, {"units": "nm"})} if "wavelength" in dims else {}
    data = xarray.Dataset({"signal": (dims, values)}, at_axis | others)
    encoding = {"signal": {"chunks": chunks}} if chunks else {}
    data.to_zarr(path, consolidated=False, encoding=encoding)
    return path


def edited(path, **changes):
    """Metadata of an array with other values."""
    about = json.loads((path / "zarr.json").read_text()) | changes
    (path / "zarr.json").write_text(json.dumps(about))
