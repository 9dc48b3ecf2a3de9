"""Images of spectra (y, x, wavelength) in Zarr stores, read tile by tile."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from geonode.errors import SpectraError
from geonode.reading.formats.labelled_arrays import require_chunks
from geonode.reading.headers import UNITS, role
from geonode.reading.refusals import errors_explained, errors_naming
from geonode.spectra.arrays import MOST_VALUES
from geonode.storage.zarr_metadata import require_plain

LARGEST_IMAGE, MOST_TILES = 2**42, 10**7  # largest image, which is never read as a whole


class ImageTile(NamedTuple):
    """Rectangle of pixels that are computed together."""

    rows: slice  # ranges of the pixels
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
    """Image whose pixels are spectra."""

    path: Path  # path of the Zarr store
    spectra: Any  # an xarray.DataArray of which nothing has been read, over `dims` in any order.
    dims: tuple[str, str, str]  # names of the dimensions: rows, columns, wavelengths
    axis: Float[np.ndarray, "wavelength"]  # wavelengths, ascending
    axis_unit: str  # unit of the wavelengths
    turned: bool  # whether the wavelengths of the store descend

    @classmethod
    def open(cls, path: Path) -> "Image | None":
        """Open the image of a Zarr store; only coordinates are read.

        Returns:
            None if the path is no Zarr store, or one without a numeric variable over two dimensions
            of pixels and a spectral axis.

        Raises:
            SpectraError: the store is damaged or too large; several variables are images; or the
                wavelengths neither ascend nor descend.
        """
        if path.suffix.lower() != ".zarr" or not path.is_dir():
            return None
        import xarray  # noqa: PLC0415 - few files need it

        with errors_naming(path), errors_explained("image"):
            require_plain(path, LARGEST_IMAGE, MOST_TILES, most_of_lines=8 * MOST_VALUES)
            data = xarray.open_dataset(path, engine="zarr", decode_times=False, consolidated=False)
        images: dict[str, tuple[str, str, str]] = {}
        for name, variable in data.data_vars.items():
            names = [str(dim) for dim in variable.dims]
            roles = [role(dim) for dim in names]
            others = [dim for dim, kind in zip(names, roles, strict=True) if kind != "axis"]
            is_table = bool({"concentration", "replicate"} & set(roles))
            is_cube = (len(names), len(others)) == (3, 2) and variable.dtype.kind in "fiu"
            if is_cube and not is_table:
                images[str(name)] = others[0], others[1], names[roles.index("axis")]
        if not images:
            return None
        if len(images) > 1:
            several = ", ".join(map(repr, sorted(images)))
            raise SpectraError(
                f"{path}: found {several} over two dimensions and a wavelength, expected one"
            )
        ((name, dims),) = images.items()
        at_axis = dims[2]
        if at_axis not in data.coords:
            raise SpectraError(f"{path}: found no coordinate {at_axis!r}, expected wavelengths")
        axis = np.asarray(data[at_axis].values, np.float64)
        steps = np.diff(axis)
        if not (np.isfinite(axis).all() and ((steps > 0).all() or (steps < 0).all())):
            raise SpectraError(f"{path}: found wavelengths out of order, expected ascending ones")
        with errors_naming(path):
            require_chunks(path, data, {name, at_axis})
        unit, turned = str(data[at_axis].attrs.get("units", "1")), bool(axis[0] > axis[-1])
        ascending = axis[::-1].copy() if turned else axis
        return cls(path, data[name], dims, ascending, UNITS.get(unit.lower(), unit), turned)

    @property
    def axis_name(self) -> str:
        """Name of the wavelengths."""
        return self.dims[2]

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.spectra.sizes[self.dims[0]], self.spectra.sizes[self.dims[1]]

    @property
    def chunks(self) -> tuple[int, int]:
        """Rows and columns of a chunk."""
        of_dim = dict(zip(self.spectra.dims, self.spectra.encoding["chunks"], strict=True))
        return min(of_dim[self.dims[0]], self.shape[0]), min(of_dim[self.dims[1]], self.shape[1])

    def read(self, tile: ImageTile) -> Float[np.ndarray, "pixel wavelength"]:
        """Spectra of a tile, row by row, in single precision if the store has them so.

        Raises:
            SpectraError: they cannot be read.
        """
        with errors_naming(self.path), errors_explained(f"pixels {tile.name}"):
            part = self.spectra.isel(dict(zip(self.dims, tile, strict=False)))
            pixels = part.transpose(*self.dims).values
            if pixels.dtype != np.float32:
                pixels = np.asarray(pixels, np.float64)
        pixels = pixels.reshape(-1, len(self.axis))
        return pixels[:, ::-1] if self.turned else pixels

    def tiles(self, pixels: int) -> list[ImageTile]:
        """Tiles of whole chunks, or parts of one, so that few chunks are read twice.

        Args:
            pixels: largest number of pixels of a tile.
        """
        (rows, columns), (high, wide) = self.shape, self.chunks
        most_wide = _fitting(wide, max(1, pixels // min(high, pixels)))
        most_high = _fitting(high, max(1, pixels // min(most_wide, columns)))
        return [
            ImageTile(of_rows, of_columns)
            for of_rows in _cuts(rows, high, most_high)
            for of_columns in _cuts(columns, wide, most_wide)
        ]


def _fitting(chunk: int, room: int) -> int:
    """Length of a tile: whole chunks, or an even part of a chunk that does not fit."""
    return room // chunk * chunk if room >= chunk else ceil(chunk / ceil(chunk / room))


def _cuts(size: int, chunk: int, most: int) -> Iterator[slice]:
    """Slices of a length, each of whole chunks or within one."""
    whole = max(chunk, most)
    for start in range(0, size, whole):
        end = min(start + whole, size)
        yield from (slice(at, min(at + most, end)) for at in range(start, end, most))
