"""Concentration maps of images whose pixels are spectra, block by block.

An image is a dask array (y, x, wavelength) that is read when a block of the map is computed. A
block holds all wavelengths of some pixels, so the memory of a map is that of the blocks under way,
however large the image.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from geonode.errors import ArtifactError, SpectraError
from geonode.estimation.axis import on_axis, require_axis
from geonode.estimation.curve import Curve
from geonode.estimation.posterior import estimate
from geonode.progress import Report, silent
from geonode.spectra.headers import role
from geonode.spectra.optional import require
from geonode.spectra.reading import Spectra
from geonode.spectra.series import Series
from geonode.spectra.sheet import MOST_VALUES
from geonode.storage.atomic import replacing
from geonode.storage.zarr_metadata import require_plain

EXTRA = "netcdf,cluster"
BLOCK = "geonode-map"  # how dask calls one
MOST_BYTES, MOST_CHUNKS = 2**42, 10**7  # of an image, which is never read as a whole
BLOCK_BYTES = 2**24  # of the spectra of a block in double precision
AMBIGUOUS, MISFIT, MISSING = 1, 2, 4
FLAGS = {"ambiguous": AMBIGUOUS, "fits_nowhere": MISFIT, "missing": MISSING}
"""Bits of the flag map, by their meanings."""

LAYERS = {
    "concentration": "most likely concentration",
    "mean": "mean of the posterior",
    "std": "standard deviation of the posterior",
    "low90": "lowest concentration of the 90% set",
    "high90": "highest concentration of the 90% set",
    "p_value": "p-value of a misfit as large",
}
"""Float maps of an image and what they hold; the flags are one more."""


@dataclass(frozen=True)
class Image:
    """Spectra of pixels.

    Attributes:
        spectra: an xarray.DataArray (y, x, wavelength) over a dask array.
        axis: its wavelengths, in the order of the array.
        axis_unit: of them.
    """

    spectra: Any
    axis: Float[np.ndarray, "wavelength"]
    axis_unit: str

    @classmethod
    def open(cls, path: Path) -> "Image":
        """The image of a Zarr store; nothing but coordinates is read.

        Raises:
            SpectraError: there is no variable of numbers over two dimensions and a wavelength-like
                one, or several; the wavelengths are no ascending or descending numbers; a package
                is absent.
        """
        require("dask.array", EXTRA)
        data = _opened(path, chunks={})
        found = _images(data)
        if len(found) != 1:
            names = ", ".join(map(repr, sorted(found))) if found else "no variable"
            raise SpectraError(
                f"{path}: found {names} over two dimensions and a wavelength, expected one"
            )
        ((name, at_axis),) = found.items()
        if at_axis not in data.coords:
            raise SpectraError(f"{path}: found no coordinate {at_axis!r}, expected wavelengths")
        axis = np.asarray(data[at_axis].values, np.float64)
        steps = np.diff(axis)
        if not (np.isfinite(axis).all() and ((steps > 0).all() or (steps < 0).all())):
            raise SpectraError(f"{path}: found wavelengths out of order, expected ascending ones")
        rows, columns = (dim for dim in data[name].dims if dim != at_axis)
        spectra = data[name].transpose(rows, columns, at_axis)
        return cls(spectra, axis, str(data[at_axis].attrs.get("units", "1")))


def is_image(path: Path) -> bool:
    """Whether a Zarr store holds spectra over two dimensions of pixels, by its metadata alone."""
    if path.suffix.lower() != ".zarr" or not path.is_dir():
        return False
    try:
        return len(_images(_opened(path, chunks=None))) > 0
    except SpectraError:  # whoever reads it as a table says what is wrong
        return False


def _opened(path: Path, chunks: dict[str, int] | None) -> Any:
    """A store of arrays, of which the coordinates alone are read; chunks: as dask arrays."""
    xarray = require("xarray", EXTRA)
    try:
        require_plain(path, MOST_BYTES, MOST_CHUNKS, most_of_lines=8 * MOST_VALUES)
        return xarray.open_dataset(
            path, engine="zarr", chunks=chunks, decode_times=False, consolidated=False
        )
    except ArtifactError as error:
        raise SpectraError(f"{path}: {error}") from error
    except Exception as error:  # of a damaged part, whatever it is
        said = " ".join(repr(error).split())
        raise SpectraError(f"{path}: found no image that can be read ({said:.80})") from error


def _images(data: Any) -> dict[str, str]:
    """Names of the variables that are images, with that of their wavelengths."""
    return {
        str(name): str(dims[roles.index("axis")])
        for name, variable in data.data_vars.items()
        if len(dims := variable.dims) == 3 and variable.dtype.kind in "fiu"
        if (roles := [role(str(dim)) for dim in dims]).count("axis") == 1
        if not {"concentration", "replicate"} & set(roles)
    }


def concentration_maps(curve: Curve, series: Series, image: Image) -> Any:
    """Maps of an image, as an xarray.Dataset (y, x) of dask arrays that are not yet computed.

    `LAYERS` are NaN, and flagged as missing, where a spectrum has a NaN. Where one fits nowhere the
    numbers mean nothing, and the flag says so.

    Args:
        curve: of predicted spectra.
        series: whose axis the curve has.
        image: the spectra.

    Raises:
        SpectraError: the image says nothing at some wavelengths of the series.
    """
    xarray = require("xarray", EXTRA)
    ascending = image.axis[0] < image.axis[-1]
    axis = image.axis if ascending else image.axis[::-1]
    name = str(image.spectra.dims[2])
    none = Spectra([], axis, name, image.axis_unit, np.empty((0, len(axis))), np.empty(0))
    require_axis(series, none)
    spectra = image.spectra.data if ascending else image.spectra.data[..., ::-1]
    pixels = max(1, BLOCK_BYTES // (8 * len(axis)))
    blocks = spectra.rechunk({0: "auto", 1: "auto", 2: -1}, block_size_limit=8 * pixels * len(axis))
    maps = blocks.map_blocks(
        partial(_block, curve, series, axis),
        token=BLOCK,
        dtype=np.float64,
        chunks=(*blocks.chunks[:2], (len(LAYERS) + 1,)),
        meta=np.empty((0, 0, 0)),
    )
    unit = series.labels["concentration_unit"]
    dims = image.spectra.dims[:2]
    units = dict.fromkeys(LAYERS, unit) | {"p_value": "1"}
    layers: dict[str, Any] = {
        layer: (dims, maps[..., k], {"long_name": said, "units": units[layer]})
        for k, (layer, said) in enumerate(LAYERS.items())
    }
    flags = {"flag_masks": list(FLAGS.values()), "flag_meanings": " ".join(FLAGS)}
    layers["flags"] = (dims, maps[..., -1].astype(np.uint8), flags)
    coordinates = {dim: image.spectra[dim] for dim in dims if dim in image.spectra.coords}
    return xarray.Dataset(layers, coordinates)


def write_maps(maps: Any, path: Path, report: Report = silent) -> None:
    """Compute maps and store them, block by block; an older store is replaced when all are there.

    Args:
        maps: of `concentration_maps`.
        path: of the store.
        report: told of every block.

    Raises:
        ArtifactError: the operating system refuses; an older store is then intact.
    """
    callbacks = require("dask.callbacks", EXTRA)

    def told(key: Any, *_: Any) -> None:
        if str(key[0] if isinstance(key, tuple) else key).startswith(BLOCK):
            report(1)

    with replacing(path) as temporary, callbacks.Callback(posttask=told):
        maps.to_zarr(temporary, mode="w", consolidated=False)


def _block(
    curve: Curve, series: Series, axis: np.ndarray, spectra: np.ndarray
) -> Float[np.ndarray, "y x layer"]:
    """All layers of some pixels."""
    rows = np.asarray(spectra, np.float64).reshape(-1, len(axis))
    maps = np.full((len(rows), len(LAYERS) + 1), np.nan)
    there = np.isfinite(rows).all(axis=1)
    maps[:, -1] = np.where(there, 0, MISSING)
    if there.any():
        found = estimate(curve, on_axis(series, axis, rows[there]))
        low, high = (np.array([ends[k][k] for ends in found.sets]) for k in (0, -1))
        maps[there] = np.stack(
            [
                *(found.mode, found.mean, found.deviation, low, high, found.p_value),
                AMBIGUOUS * found.disconnected + MISFIT * ~found.fits,
            ],
            axis=1,
        )
    return maps.reshape(*spectra.shape[:2], -1)
