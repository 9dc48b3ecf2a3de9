"""Concentration maps of images whose pixels are spectra, tile by tile.

Each process reads only the tile that it computes, so that memory depends on the tiles in hand and
not on the size of the image.

A finished tile is a sealed file in a folder next to the maps. One process copies these files into
the maps, as tiles share pages of the map files; an interrupted run resumes from them. A tile has
the same bytes with any number of workers; tiles of another size round differently.
"""

import hashlib
import shutil
from collections.abc import Callable
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
import zarr
from threadpoolctl import threadpool_limits

from geonode.compute.device import one_thread
from geonode.compute.engine import LOCAL, Engine
from geonode.errors import ArtifactError, SpectraError
from geonode.estimation.axis import prepared, require_axis, require_resolution
from geonode.estimation.curve import Curve
from geonode.estimation.image import Image, ImageTile, tiles
from geonode.estimation.large import in_format
from geonode.estimation.posterior import CPU, Law
from geonode.estimation.posterior import MISFIT as SMALLEST_P
from geonode.parameter_types import Format
from geonode.progress import Progress, silent
from geonode.spectra.series import Series
from geonode.storage.artifact_writer import ArtifactWriter, artifact_writer
from geonode.storage.atomic import kept_of, write_bytes
from geonode.storage.lineage import code_digest
from geonode.storage.seal import UNSEALED, read_sealed, seal

MISSING_VALUE = -1.0
"""Value of a map where a spectrum is incomplete; readers that follow CF show NaN."""

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
"""Floating-point maps of an image and their descriptions; the flags are one more map."""


def write_maps(
    path: Path,
    curve: Curve,
    series: Series,
    image: Image,
    pixels: int,
    number: Format = "float64",
    report: Progress = silent,
    engine: Engine = LOCAL,
    cores: int | None = None,
    place: torch.device = CPU,
) -> None:
    """Write the maps of an image as an artifact (y, x), which replaces an older one when complete.

    `LAYERS` are `MISSING_VALUE`, and flagged as missing, where a spectrum has a NaN. Where a
    spectrum fits nowhere the numbers are meaningless, and the pixel is flagged. The tiles of an
    interrupted run are kept in `kept_of(path)` and reused if model, image and format are the same.

    Args:
        path: path of the artifact.
        curve: curve of predicted spectra.
        series: series whose axis the curve has.
        image: the image.
        pixels: largest number of pixels of a tile.
        number: format of the layers.
        report: called with the number of finished pixels.
        engine: runs the tiles.
        cores: tiles at the same time in this process.
        place: device that estimates; reading and writing of other tiles overlap with it.

    Raises:
        SpectraError: the image has no values at some wavelengths of the series, or is unreadable.
        ArtifactError: the artifact cannot be written, or a number exceeds the format. An older
            artifact is intact in both cases.
    """
    require_axis(series, image)
    require_resolution(curve, series, image.axis)
    folder = kept_of(path) / _fingerprint(curve, series, image, number)
    with artifact_writer(path, {"labels": series.labels}) as writer:
        maps = _declared(writer, image, series.labels["concentration_unit"], number)
        for other in set(folder.parent.glob("*")) - {folder}:
            shutil.rmtree(other)
        left = []
        for tile in tiles(image, pixels):
            try:
                _fill(maps, folder, tile)
                report(prod(tile.shape))
            except ArtifactError:  # the file is absent or damaged
                left.append(tile)
        recipe = partial(_mapping, folder, curve, series, image, number, place)
        with one_thread(), threadpool_limits(1):
            engine.work(recipe, left, lambda tile, _: _fill(maps, folder, tile), report, cores)


def _fingerprint(curve: Curve, series: Series, image: Image, number: Format) -> str:
    """Hash of all inputs of the maps: model, image files and format."""
    found = hashlib.sha256(repr((code_digest(), number, curve.novelty, curve.offset)).encode())
    model = [*vars(curve).values(), *vars(curve.covariances).values(), image.axis, series.axis]
    for array in model:
        if isinstance(array, np.ndarray):
            found.update(array.tobytes())
    for file in sorted(image.path.rglob("*")):
        about = file.stat()
        name = file.relative_to(image.path).as_posix()
        found.update(repr((name, about.st_size, about.st_mtime_ns)).encode())
    return found.hexdigest()[:16]


def _declared(
    writer: ArtifactWriter, image: Image, unit: str, number: Format
) -> dict[str, np.ndarray]:
    """Create empty maps, and the coordinates of the pixels if the image has them."""
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


def _fill(maps: dict[str, np.ndarray], folder: Path, tile: ImageTile) -> None:
    """Copy a finished tile into the maps."""
    content, start = read_sealed(folder / tile.name, -len(UNSEALED)), 0
    for values in maps.values():
        part = np.frombuffer(content, values.dtype, prod(tile.shape), start)
        values[tile] = part.reshape(tile.shape)
        start += part.nbytes


def _mapping(
    folder: Path, curve: Curve, series: Series, image: Image, number: Format, place: torch.device
) -> Callable[[ImageTile, Progress], None]:
    """Function that computes a tile of an image and writes it to a file."""
    law = Law(curve, place)

    def work(tile: ImageTile, report: Progress) -> None:
        layers, flags = _tile(law, series, image.axis, image.read(tile))
        parts = [
            in_format(layer, number, f"{image.path}: map {name!r}")
            for name, layer in zip(LAYERS, layers, strict=True)
        ]
        content = b"".join(part.tobytes() for part in (*parts, flags))
        write_bytes(folder / tile.name, seal(content + UNSEALED.encode(), -len(UNSEALED)))
        report(len(flags))

    return work


def _tile(
    law: Law, series: Series, axis: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Layers and flags of the pixels of a tile."""
    layers = np.full((len(LAYERS), len(rows)), MISSING_VALUE)
    flags = np.full(len(rows), MISSING, dtype=np.uint8)
    there = np.flatnonzero(np.isfinite(rows).all(axis=1))
    values = prepared(series, axis, rows[there])
    there, values = (part[np.isfinite(values).all(axis=1)] for part in (there, values))
    for start in range(0, len(there), law.spectra_at_once):
        some = slice(start, start + law.spectra_at_once)
        *numbers, disconnected = law.summaries(values[some])
        place = there[some]
        layers[:, place] = np.stack(numbers)
        flags[place] = AMBIGUOUS * disconnected + MISFIT * (numbers[-1] < SMALLEST_P)
    return layers, flags
