"""Images of spectra (y, x, wavelength) in Zarr stores, read tile by tile."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from math import ceil, prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from geonode.errors import ArtifactError, SpectraError
from geonode.estimation.large import batch_size
from geonode.spectra.formats.zarr_store import require_chunks
from geonode.spectra.headers import UNITS, role
from geonode.spectra.reading import errors_naming
from geonode.spectra.sheet import MOST_VALUES
from geonode.storage.zarr_metadata import require_own_files, require_plain

MOST_BYTES, MOST_CHUNKS = 2**42, 10**7  # largest image, which is never read as a whole


TILE_BYTES = 2**24
"""Wanted size of the spectra of a tile in double precision, within limits of chunks and memory."""


COPIES = 5  # double-precision arrays of the size of a tile's spectra while it is computed


class ImageTile(NamedTuple):
    """Rectangle of pixels that are computed together.

    Attributes:
        rows, columns: ranges of the pixels.
    """

    rows: slice
    columns: slice

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.rows.stop - self.rows.start, self.columns.stop - self.columns.start

    @property
    def name(self) -> str:
        """Name of the file of the tile."""
        return "-".join(str(end) for part in self for end in (part.start, part.stop))


@dataclass(frozen=True)
class Image:
    """Image whose pixels are spectra.

    Attributes:
        path: path of the Zarr store.
        spectra: an xarray.DataArray (y, x, wavelength) over a dask array.
        axis: wavelengths, ascending.
        axis_unit: unit of the wavelengths.
    """

    path: Path
    spectra: Any
    axis: Float[np.ndarray, "wavelength"]
    axis_unit: str

    @classmethod
    def open(cls, path: Path) -> "Image":
        """Open the image of a Zarr store; only coordinates are read.

        Raises:
            SpectraError: not exactly one numeric variable is over two dimensions and a spectral
                axis; the wavelengths neither ascend nor descend; or a package is absent.
        """
        if find_spec("dask") is None:
            raise SpectraError(
                f"{path}: found no package dask, which images need; "
                'pip install "geonode-spectra[cluster]"'
            )
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
        with errors_naming(path):
            require_chunks(path, data, {name, at_axis})
        rows, columns = (dim for dim in data[name].dims if dim != at_axis)
        spectra = data[name].transpose(rows, columns, at_axis)
        if axis[0] > axis[-1]:
            spectra, axis = spectra[..., ::-1], axis[::-1].copy()
        unit = str(data[at_axis].attrs.get("units", "1"))
        return cls(path, spectra, axis, UNITS.get(unit.lower(), unit))

    @property
    def axis_name(self) -> str:
        """Name of the wavelengths."""
        return str(self.spectra.dims[2])

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        rows, columns, _ = self.spectra.shape
        return rows, columns

    @property
    def chunks(self) -> tuple[int, int]:
        """Rows and columns of the first chunk, the largest."""
        (rows, *_), (columns, *_), _ = self.spectra.chunks
        return rows, columns

    def read(self, tile: ImageTile) -> Float[np.ndarray, "pixel wavelength"]:
        """Spectra of a tile, row by row.

        Raises:
            SpectraError: they cannot be read.
        """
        try:
            found = self.spectra.data[tile].compute(scheduler="synchronous")
        except Exception as error:  # of a damaged part, whatever it is
            said = " ".join(repr(error).split())
            raise SpectraError(
                f"{self.path}: found pixels {tile.name} that cannot be read ({said:.80})"
            ) from error
        return np.asarray(found, np.float64).reshape(-1, len(self.axis))


def is_image(path: Path) -> bool:
    """Whether a Zarr store holds spectra over two dimensions of pixels, by its metadata alone."""
    if path.suffix.lower() != ".zarr" or not path.is_dir():
        return False
    try:
        return len(_images(_opened(path, chunks=None))) > 0
    except SpectraError:  # the reader of tables gives the error message
        return False


def _opened(path: Path, chunks: dict[str, int] | None) -> Any:
    """Open a store of arrays and read its coordinates only; with chunks, as dask arrays."""
    import xarray  # noqa: PLC0415 - few files need it

    try:
        require_own_files(path)
        require_plain(path, MOST_BYTES, MOST_CHUNKS, most_of_lines=8 * MOST_VALUES)
        return xarray.open_dataset(
            path, engine="zarr", chunks=chunks, decode_times=False, consolidated=False
        )
    except (ArtifactError, SpectraError) as error:
        raise SpectraError(f"{path}: {error}") from error
    except Exception as error:  # of a damaged part, whatever it is
        said = " ".join(repr(error).split())
        raise SpectraError(f"{path}: found no image that can be read ({said:.80})") from error


def _images(data: Any) -> dict[str, str]:
    """Names of the variables that are images, each with the name of its spectral dimension."""
    return {
        str(name): str(dims[roles.index("axis")])
        for name, variable in data.data_vars.items()
        if len(dims := variable.dims) == 3 and variable.dtype.kind in "fiu"
        if (roles := [role(str(dim)) for dim in dims]).count("axis") == 1
        if not {"concentration", "replicate"} & set(roles)
    }


def tiles(image: Image, pixels: int) -> list[ImageTile]:
    """Tiles of an image: whole chunks, or parts of one, so that few chunks are read twice.

    Args:
        image: image to divide.
        pixels: largest number of pixels of a tile.
    """
    rows, columns = image.shape
    chunk_rows, chunk_columns = image.chunks
    wide = _most(columns, chunk_columns, max(1, pixels // min(chunk_rows, pixels)))
    high = _most(rows, chunk_rows, max(1, pixels // wide))
    return [
        ImageTile(of_rows, of_columns)
        for of_rows in _cuts(rows, chunk_rows, high)
        for of_columns in _cuts(columns, chunk_columns, wide)
    ]


def _most(size: int, chunk: int, room: int) -> int:
    """Length of a tile: whole chunks, or an even part of a chunk that does not fit."""
    if room >= chunk:
        return min(size, room // chunk * chunk)
    return ceil(chunk / ceil(chunk / room))


def _cuts(size: int, chunk: int, most: int) -> Iterator[slice]:
    """Slices of a length, each of whole chunks or within one."""
    whole = max(chunk, most)
    for start in range(0, size, whole):
        end = min(start + whole, size)
        yield from (slice(at, min(at + most, end)) for at in range(start, end, most))


def pixels_at_once(image: Image, at_once: int) -> int:
    """Pixels of a tile: those of one chunk, or of `TILE_BYTES` of small chunks, or fewer.

    Fewer are taken where free memory is short.

    Args:
        image: image to divide.
        at_once: number of tiles that are computed at the same time.
    """
    of_one = 8 * len(image.axis)
    return batch_size(COPIES * of_one, max(TILE_BYTES // of_one, prod(image.chunks)), at_once)
