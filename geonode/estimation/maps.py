"""Concentration maps of images whose pixels are spectra, tile by tile.

An image is a dask array (y, x, wavelength) of which nothing is read but the tile that is worked on,
by whoever works on it. Memory is that of the tiles at once, however large the image.

A tile that is done is a sealed file beside the maps. From these files the maps are made, by one
process, as tiles share pages of their files; and a run that was ended goes on from them. Spectra
are taken `AT_ONCE` at a time and with one thread: a pixel has the same bytes in any tile and with
any number of workers.
"""

import hashlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import zarr
from jaxtyping import Float
from threadpoolctl import threadpool_limits

from geonode.config import Format
from geonode.engine.local import LOCAL, Engine
from geonode.errors import ArtifactError, SpectraError
from geonode.estimation.axis import on_axis, require_axis
from geonode.estimation.curve import Curve
from geonode.estimation.judged import require_resolution
from geonode.estimation.large import batch_size, in_format
from geonode.estimation.posterior import NUMBERS_AT_ONCE, estimate
from geonode.progress import Report, silent
from geonode.spectra.headers import UNITS, role
from geonode.spectra.labelled_arrays import probe, require_chunks
from geonode.spectra.optional import require
from geonode.spectra.reading import Spectra
from geonode.spectra.series import Series
from geonode.spectra.sheet import MOST_VALUES
from geonode.storage.artifact_writer import ArtifactWriter, artifact_writer
from geonode.storage.atomic import kept_of, write_bytes
from geonode.storage.seal import UNSEALED, read_sealed, seal
from geonode.storage.zarr_metadata import require_own_files, require_plain

EXTRA = "netcdf,cluster"
MOST_BYTES, MOST_CHUNKS = 2**42, 10**7  # of an image, which is never read as a whole
TILE_BYTES = 2**24
"""Of the spectra of a tile in double precision, where chunks and memory leave the choice."""

COPIES = 5  # of the spectra of a tile, in double precision, that there are while it is computed
AT_ONCE = 64
MISSING_VALUE = -1.0
"""Of a map where a spectrum is incomplete: readers that know of CF show NaN."""

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


class Tile(NamedTuple):
    """Pixels that are worked on together.

    Attributes:
        rows, columns: where they are.
    """

    rows: slice
    columns: slice

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.rows.stop - self.rows.start, self.columns.stop - self.columns.start

    @property
    def name(self) -> str:
        """Of its file."""
        return "-".join(str(end) for part in self for end in (part.start, part.stop))


@dataclass(frozen=True)
class Image:
    """Spectra of pixels.

    Attributes:
        path: of its store.
        spectra: an xarray.DataArray (y, x, wavelength) over a dask array.
        axis: its wavelengths, ascending.
        axis_unit: of them.
    """

    path: Path
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
        try:
            require_chunks(path, data, {name, at_axis})
        except SpectraError as error:
            raise SpectraError(f"{path}: {error}") from error
        rows, columns = (dim for dim in data[name].dims if dim != at_axis)
        spectra = data[name].transpose(rows, columns, at_axis)
        if axis[0] > axis[-1]:
            spectra, axis = spectra[..., ::-1], axis[::-1].copy()
        unit = str(data[at_axis].attrs.get("units", "1"))
        return cls(path, spectra, axis, UNITS.get(unit.lower(), unit))

    @property
    def dims(self) -> tuple[str, str, str]:
        """Names of rows, columns and wavelengths."""
        rows, columns, at_axis = map(str, self.spectra.dims)
        return rows, columns, at_axis

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        rows, columns, _ = self.spectra.shape
        return rows, columns

    @property
    def chunks(self) -> tuple[int, int]:
        """Rows and columns of the first chunk, which is as large as any."""
        (rows, *_), (columns, *_), _ = self.spectra.chunks
        return rows, columns

    def read(self, tile: Tile) -> Float[np.ndarray, "pixel wavelength"]:
        """Spectra of a tile, row after row.

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
    except SpectraError:  # whoever reads it as a table says what is wrong
        return False


def _opened(path: Path, chunks: dict[str, int] | None) -> Any:
    """A store of arrays, of which the coordinates alone are read; chunks: as dask arrays."""
    xarray = require("xarray", EXTRA)
    try:
        require_own_files(path)
        require_plain(path, MOST_BYTES, MOST_CHUNKS, most_of_lines=8 * MOST_VALUES)
        probe(path, most_dimensions=1)
        return xarray.open_dataset(
            path, engine="zarr", chunks=chunks, decode_times=False, consolidated=False
        )
    except (ArtifactError, SpectraError) as error:
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


def tiles(image: Image, pixels: int) -> list[Tile]:
    """Tiles of an image: whole chunks, or parts of one, so that few chunks are read twice.

    Args:
        image: to be divided.
        pixels: of a tile at most.
    """
    rows, columns = image.shape
    chunk_rows, chunk_columns = image.chunks
    wide = _most(columns, chunk_columns, max(1, pixels // min(chunk_rows, pixels)))
    high = _most(rows, chunk_rows, max(1, pixels // wide))
    return [
        Tile(of_rows, of_columns)
        for of_rows in _cuts(rows, chunk_rows, high)
        for of_columns in _cuts(columns, chunk_columns, wide)
    ]


def _most(size: int, chunk: int, room: int) -> int:
    """Length of a tile: some chunks, or an even part of one that is longer than there is room."""
    if room >= chunk:
        return min(size, room // chunk * chunk)
    return _ceil_divide(chunk, _ceil_divide(chunk, room))


def _ceil_divide(size: int, part: int) -> int:
    return -(-size // part)


def _cuts(size: int, chunk: int, most: int) -> Iterator[slice]:
    """Parts of a length, whole chunks or within one."""
    whole = max(chunk, most)
    for start in range(0, size, whole):
        end = min(start + whole, size)
        yield from (slice(at, min(at + most, end)) for at in range(start, end, most))


def pixels_at_once(image: Image, at_once: int) -> int:
    """Pixels of a tile: one chunk's or, of small chunks, `TILE_BYTES`, if memory has room for them.

    Args:
        image: whose pixels they are.
        at_once: tiles in hand.
    """
    of_one = 8 * len(image.axis)
    return batch_size(COPIES * of_one, max(TILE_BYTES // of_one, prod(image.chunks)), at_once)


def write_maps(
    path: Path,
    curve: Curve,
    series: Series,
    image: Image,
    pixels: int,
    number: Format = "float64",
    report: Report = silent,
    engine: Engine = LOCAL,
    cores: int | None = None,
) -> None:
    """Maps of an image as an artifact (y, x), instead of an older one when all of them are there.

    `LAYERS` are `MISSING_VALUE`, and flagged as missing, where a spectrum has a NaN. Where one fits
    nowhere the numbers mean nothing, and the flag says so. The tiles of a run that was ended are
    kept beside, in `kept_of(path)`, and are not computed again if model, image and format are the
    same.

    Args:
        path: of the artifact.
        curve: of predicted spectra.
        series: whose axis the curve has.
        image: the spectra.
        pixels: of a tile at most.
        number: format of the layers.
        report: told of every pixel.
        engine: works on the tiles.
        cores: tiles at once in this process.

    Raises:
        SpectraError: the image says nothing at some wavelengths of the series, or cannot be read.
        ArtifactError: the artifact cannot be written, or a number has no place in the format. An
            older one is intact in both cases.
    """
    none = Spectra(
        [], image.axis, image.dims[2], image.axis_unit, image.axis[None][:0], np.empty(0)
    )
    require_axis(series, none)
    require_resolution(curve, series, image.axis)
    kept = kept_of(path)
    folder = kept / _fingerprint(curve, series, image, number)
    with artifact_writer(path, {"labels": series.labels}) as writer:
        maps = _declared(writer, image, series.labels["concentration_unit"], number)
        for other in set(kept.glob("*")) - {folder}:
            shutil.rmtree(other)
        left = []
        for tile in tiles(image, pixels):
            try:
                _fill(maps, folder, tile)
                report(prod(tile.shape))
            except ArtifactError:  # it is absent, or damaged
                left.append(tile)
        recipe = partial(_mapping, folder, curve, series, image.path, number)
        with threadpool_limits(1):
            engine.work(recipe, left, lambda tile, _: _fill(maps, folder, tile), report, cores)


def _fingerprint(curve: Curve, series: Series, image: Image, number: Format) -> str:
    """Of all that decides the numbers of a map."""
    found = hashlib.sha256(repr((number, image.axis.tolist(), series.axis.tolist())).encode())
    for part in (getattr(curve, field.name) for field in fields(curve)):
        found.update(part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode())
    for file in sorted(image.path.rglob("*")):
        about = file.stat()
        name = file.relative_to(image.path).as_posix()
        found.update(repr((name, about.st_size, about.st_mtime_ns)).encode())
    return found.hexdigest()[:16]


def _declared(
    writer: ArtifactWriter, image: Image, unit: str, number: Format
) -> dict[str, np.ndarray]:
    """The maps, to be filled, and the coordinates of the pixels where the image has them."""
    dims = image.dims[:2]
    for dim in dims:
        if dim in image.spectra.coords:
            values, about = image.spectra[dim].values, image.spectra[dim].attrs
            if values.dtype.kind == "f" and not np.isfinite(values).all():
                raise SpectraError(
                    f"{image.path}: coordinate {dim!r}: found NaN or infinity, expected numbers; "
                    "write the image without it"
                )
            called, units = str(about.get("long_name", dim)), str(about.get("units", "1"))
            writer.coordinate(dim, values, units=units, long_name=called)
    maps = {}
    for name, said in LAYERS.items():
        units = "1" if name == "p_value" else unit
        maps[name] = writer.mapped(name, dims, image.shape, number, units=units, long_name=said)
        _add_attributes(writer, name, {"missing_value": MISSING_VALUE})
    maps["flags"] = writer.mapped(
        "flags", dims, image.shape, np.uint8, units="1", long_name="what is wrong with a pixel"
    )
    meanings = {"flag_masks": list(FLAGS.values()), "flag_meanings": " ".join(FLAGS)}
    _add_attributes(writer, "flags", meanings)
    return maps


def _add_attributes(writer: ArtifactWriter, name: str, attributes: dict[str, Any]) -> None:
    folder = writer.parts.folder / name
    zarr.open_array(folder, mode="r+", zarr_format=3).attrs.update(attributes)


def _fill(maps: dict[str, np.ndarray], folder: Path, tile: Tile) -> None:
    """Put a tile that was kept into the maps."""
    content, start = read_sealed(folder / tile.name, -len(UNSEALED)), 0
    for values in maps.values():
        part = np.frombuffer(content, values.dtype, prod(tile.shape), start)
        values[tile] = part.reshape(tile.shape)
        start += part.nbytes


def _mapping(
    folder: Path, curve: Curve, series: Series, path: Path, number: Format
) -> Callable[[Tile, Report], None]:
    """What computes a tile of an image and keeps it in a file."""
    image = Image.open(path)

    def work(tile: Tile, report: Report) -> None:
        layers, flags = _tile(curve, series, image.axis, image.read(tile))
        parts = [
            in_format(layer, number, f"{path}: map {name!r}")
            for name, layer in zip(LAYERS, layers, strict=True)
        ]
        content = b"".join(part.tobytes() for part in (*parts, flags))
        write_bytes(folder / tile.name, seal(content + UNSEALED.encode(), -len(UNSEALED)))
        report(len(flags))

    return work


def _tile(
    curve: Curve, series: Series, axis: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Layers and flags of some pixels."""
    layers = np.full((len(LAYERS), len(rows)), MISSING_VALUE)
    flags = np.full(len(rows), MISSING, dtype=np.uint8)
    there = np.flatnonzero(np.isfinite(rows).all(axis=1))
    # Products of matrices compute the last rows, of which there are no eight, in another way.
    size = max(8, min(AT_ONCE, NUMBERS_AT_ONCE // curve.scores.size) // 8 * 8)
    for start in range(0, len(there), size):
        place = there[start : start + size]
        whole = np.resize(place, size)
        found = estimate(curve, on_axis(series, axis, rows[whole]))
        low, high = (np.array([ends[k][k] for ends in found.sets]) for k in (0, -1))
        numbers = (found.mode, found.mean, found.deviation, low, high, found.p_value)
        layers[:, place] = np.stack(numbers)[:, : len(place)]
        marks = AMBIGUOUS * found.disconnected + MISFIT * ~found.fits
        flags[place] = marks[: len(place)]
    return layers, flags
