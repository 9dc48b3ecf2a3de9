"""Concentration maps of images whose pixels are spectra, tile by tile.

Each process reads only the tile that it computes, so that memory depends on the tiles in hand and
not on the size of the image.

A finished tile is a sealed file in a folder next to the maps. One process copies these files into
the maps, as tiles share pages of the map files; an interrupted run resumes from them. A tile has
the same bytes with any number of workers; tiles of another size round differently.
"""

import hashlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from itertools import cycle
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
import zarr
from torch import Tensor

from geonode.compute.device import CPU, all_alike
from geonode.compute.engine import LOCAL, Engine
from geonode.compute.threads import MOST_THREADS, one_thread
from geonode.errors import ArtifactError, SpectraError
from geonode.estimation.axis import require_axis, require_resolution
from geonode.estimation.estimates import CalibrationModel, Flag
from geonode.estimation.image import Image, ImageTile
from geonode.estimation.posterior import BATCH_ON_DEVICE
from geonode.machine import usable_cores
from geonode.parameter_types import Format
from geonode.progress import Progress, silent
from geonode.reading.refusals import errors_naming
from geonode.spectra.common_axis import interpolated, is_same
from geonode.storage.artifact_writer import ArtifactWriter, artifact_writer
from geonode.storage.atomic import kept_of, write_bytes
from geonode.storage.large import batch_size, in_format
from geonode.storage.lineage import code_digest
from geonode.storage.seal import UNSEALED, read_sealed, seal

TILE_BYTES = 2**24
"""Wanted size of the spectra of a tile in double precision on a CPU; a GPU takes a batch."""

COPIES_OF_TILE = 5
"""Double-precision arrays of the size of a tile's spectra while these are preprocessed."""

MISSING_VALUE = float(np.finfo(np.float16).min)
"""Value of a map where a spectrum is incomplete; readers that follow CF show NaN.

Every format contains it, and no amount nor end of an interval comes near, as they may to -1.
"""


@dataclass(frozen=True)
class Maps:
    """Maps of an image.

    They are `MISSING_VALUE`, and flagged as missing, where a spectrum has a NaN. Where a
    spectrum fits nowhere the numbers are meaningless, and the pixel is flagged.
    """

    model: CalibrationModel
    """Calibration that estimates them."""
    image: Image
    number: Format = "float64"
    """Format of the layers."""
    place: torch.device = CPU
    """Device that estimates, or all such GPUs; other tiles are read and written meanwhile."""

    @one_thread()
    def write(
        self,
        path: Path,
        pixels: int,
        report: Progress = silent,
        engine: Engine = LOCAL,
    ) -> None:
        """Write the maps as an artifact (y, x), which replaces an older one when complete.

        The tiles of an interrupted run are kept in `kept_of(path)` and reused if model, image and
        format are the same.

        Args:
            path: path of the artifact.
            pixels: largest number of pixels of a tile.
            report: called with the number of finished pixels.
            engine: runs the tiles.

        Raises:
            SpectraError: the image has no values at some wavelengths of the series, or is
                unreadable.
            ArtifactError: the artifact cannot be written, or a number exceeds the format. An older
                artifact is intact in both cases.
        """
        series = self.model.series
        with errors_naming(self.image.path):
            require_axis(series, self.image)
            require_resolution(self.model, self.image.axis)
        folder = kept_of(path) / self._fingerprint()
        with artifact_writer(path, {"labels": series.labels}) as writer:
            maps = self._declared(writer)
            for other in set(folder.parent.glob("*")) - {folder}:
                shutil.rmtree(other)
            left = []
            for tile in self.image.tiles(pixels):
                try:
                    _fill(maps, folder, tile)
                    report(prod(tile.shape))
                except ArtifactError:  # the file is absent or damaged
                    left.append(tile)
            recipe = partial(self._computing, folder)
            engine.work(
                recipe, left, lambda tile, _: _fill(maps, folder, tile), report, self.threads
            )

    @property
    def threads(self) -> int:
        """Number of tiles at the same time in this process."""
        return min(MOST_THREADS, usable_cores())

    def pixels_at_once(self, at_once: int) -> int:
        """Pixels of a tile: those of one chunk, or more small chunks; fewer if memory is short.

        Args:
            at_once: number of tiles that are computed at the same time.
        """
        image, length = self.image, len(self.image.axis)
        at_least = BATCH_ON_DEVICE if self.place.type == "cuda" else TILE_BYTES // (8 * length)
        of_value = 2 * image.spectra.dtype.itemsize if self._as_they_are else 8 * COPIES_OF_TILE
        return batch_size(of_value * length, max(at_least, prod(image.chunks)), at_once)

    @property
    def _as_they_are(self) -> bool:
        """True if nothing is done to spectra, which keep their precision then."""
        series = self.model.series
        return is_same(self.image.axis, series.axis) and not series.preprocessing.steps

    def _fingerprint(self) -> str:
        """Hash of all that decides the maps: code, model, image files and format."""
        image = self.image
        digest = hashlib.sha256()
        for part in _bytes_of(
            (code_digest(), self.number, self.place.type, self.model, image.axis)
        ):
            digest.update(part)
        for file in sorted(image.path.rglob("*")):
            name, state = file.relative_to(image.path).as_posix(), file.stat()
            digest.update(repr((name, state.st_size, state.st_mtime_ns)).encode())
        return digest.hexdigest()[:16]

    def _declared(self, writer: ArtifactWriter) -> dict[str, np.ndarray]:
        """Create empty maps, and the coordinates of the pixels if the image has them."""
        image, dims = self.image, self.image.dims[:2]
        for dim in dims:
            if dim in image.spectra.coords:
                values, about = image.spectra[dim].values, image.spectra[dim].attrs
                if values.dtype.kind == "f" and not np.isfinite(values).all():
                    raise SpectraError(
                        f"{image.path}: coordinate {dim!r}: found NaN or infinity, expected "
                        "numbers; write the image without it"
                    )
                called, units = str(about.get("long_name", dim)), str(about.get("units", "1"))
                writer.coordinate(dim, values, units=units, long_name=called)
        maps = {}
        for name, (units, long_name) in self.model.layers.items():
            about = {"units": units, "long_name": long_name}
            maps[name] = writer.mapped(name, dims, image.shape, self.number, **about)
        about = {"units": "1", "long_name": "what is wrong with a pixel"}
        maps["flags"] = writer.mapped("flags", dims, image.shape, np.uint8, **about)
        names = " ".join(one.lower() for one in Flag.__members__)
        meanings = {"flag_masks": [one.value for one in Flag], "flag_meanings": names}
        for name in maps:
            more: dict[str, Any] = meanings if name == "flags" else {"missing_value": MISSING_VALUE}
            folder = writer.folder / name
            zarr.open_array(folder, mode="r+", zarr_format=3).attrs.update(more)
        return maps

    def _computing(self, folder: Path) -> Callable[[ImageTile, Progress], None]:
        """Function that computes a tile, on the GPUs by turns, and writes it to a file."""
        turns = cycle([self.model.on(place) for place in all_alike(self.place)])
        series = self.model.series

        def compute(tile: ImageTile, report: Progress) -> None:
            rows, named = self.image.read(tile), self.model.layers
            layers = np.full((len(named), len(rows)), MISSING_VALUE)
            flags = np.full(len(rows), Flag.MISSING, dtype=np.uint8)
            there, values = _complete(np.arange(len(rows)), rows)
            if not self._as_they_are:  # NaN where a spectrum is too flat for a step
                values = interpolated(self.image.axis, values.astype(np.float64), series.axis)
                values = series.preprocessing.transform(series.axis, values)
                there, values = _complete(there, values)
            if len(there):
                layers[:, there], flags[there] = next(turns)(values)
            parts = [
                in_format(layer, self.number, f"{self.image.path}: map {name!r}")
                for name, layer in zip(named, layers, strict=True)
            ]
            content = b"".join(part.tobytes() for part in (*parts, flags))
            write_bytes(folder / tile.name, seal(content + UNSEALED.encode(), -len(UNSEALED)))
            report(len(flags))

        return compute


def _bytes_of(value: Any) -> Iterator[bytes]:
    """Bytes of all numbers, arrays and texts of a value of any depth."""
    if isinstance(value, Tensor):
        value = value.numpy()
    if isinstance(value, np.ndarray):
        yield from (repr((value.shape, value.dtype)).encode(), value.tobytes())
    elif is_dataclass(value):
        yield from (part for one in fields(value) for part in _bytes_of(getattr(value, one.name)))
    elif isinstance(value, dict | list | tuple):
        items = value.items() if isinstance(value, dict) else value
        yield from (part for one in items for part in _bytes_of(one))
    else:
        yield repr(value).encode()


def _complete(places: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places and rows without NaN; a tile is seldom copied, as most are complete."""
    complete = np.isfinite(rows).all(axis=1)
    return (places, rows) if complete.all() else (places[complete], rows[complete])


def _fill(maps: dict[str, np.ndarray], folder: Path, tile: ImageTile) -> None:
    """Copy a finished tile into the maps."""
    content, start = read_sealed(folder / tile.name, -len(UNSEALED)), 0
    for values in maps.values():
        part = np.frombuffer(content, values.dtype, prod(tile.shape), start)
        values[tile] = part.reshape(tile.shape)
        start += part.nbytes
