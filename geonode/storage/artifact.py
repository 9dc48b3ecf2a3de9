"""Layout and reading of artifacts: sealed Zarr v3 groups that xarray opens.

An array is a single uncompressed chunk: its file contains the little-endian C-order bytes, which a
reader maps into memory, and their CRC-32C in the last four bytes.

The attributes of the root `zarr.json` list the checksum of every other file under `files`, and seal
`zarr.json` itself with `checksum`. A flipped bit anywhere, and any missing, added, truncated or
exchanged file, is found when the artifact is opened. The error names file and array.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped

from geonode.errors import ArtifactError, CorruptArtifactError
from geonode.storage.seal import UNSEALED, file_checksum, readable, seal, well_formed

JSON = dict[str, Any] | list[Any] | str | int | float | bool | None

ROOT = "zarr.json"
AFTER_SEAL = '"\n  }\n}\n'  # the checksum is the last attribute, and the attributes come last
SEAL_AT = -len(UNSEALED + AFTER_SEAL)

CRC_BYTES = 4


@dataclass(frozen=True)
class ArrayEntry:
    """Array of an artifact."""

    name: str
    dtype: str  # type of the numbers
    shape: tuple[int, ...]
    dims: tuple[str, ...]  # name of every dimension; weights have none
    units: str  # by CF; empty for weights
    long_name: str  # label of the quantity; empty for weights

    @property
    def size(self) -> int:
        """Size of the numbers (bytes)."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    def file(self, path: Path) -> Path:
        """File of its only chunk, in the artifact at a path."""
        return path.joinpath(self.name, "c", *["0"] * len(self.shape))

    def map(self, path: Path, mode: Any) -> Shaped[np.memmap, "..."]:
        """Map of its file, in the artifact at a path, in a mode of `np.memmap`.

        Raises:
            OSError, ValueError: there is no such file, or it is too short.
        """
        dtype = np.dtype(self.dtype).newbyteorder("<")
        return np.memmap(self.file(path), dtype, mode, shape=self.shape)

    def metadata(self) -> dict[str, Any]:
        """Metadata of the array, the content of its `zarr.json` (Zarr v3, core specification)."""
        missing: dict[str, JSON] = {"f": "NaN", "b": False}
        return {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(self.shape),
            "data_type": self.dtype,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(self.shape)}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": missing.get(np.dtype(self.dtype).kind, 0),
            "codecs": [
                {"name": "bytes", "configuration": {"endian": "little"}},
                {"name": "crc32c"},
            ],
            "attributes": {"units": self.units, "long_name": self.long_name},
            "dimension_names": list(self.dims),
        }

    @classmethod
    def read(cls, path: Path, name: str) -> "ArrayEntry":
        """Array of the artifact at a path; no other metadata than those of `metadata` are accepted.

        Raises:
            CorruptArtifactError: there are others, or the file of the array has another size.
        """
        with well_formed(path, "found no array as geonode writes it", name):
            found = json.loads((path / name / ROOT).read_bytes())
            about, shape = found["attributes"], tuple(found["shape"])
            labels = str(about["units"]), str(about["long_name"])
            entry = cls(name, found["data_type"], shape, tuple(found["dimension_names"]), *labels)
            if np.dtype(entry.dtype).kind not in "biuf" or len(entry.dims) != len(shape):
                raise TypeError(f"{entry.dtype} of dimensions {entry.dims}")
            # Zarr leaves out the order of bytes where there is but one.
            found["codecs"][0].setdefault("configuration", {"endian": "little"})
            for key, expected in entry.metadata().items():
                if key != "attributes" and found[key] != expected:
                    raise ValueError(f"{key} {found[key]}, expected {expected}")
            if (size := entry.file(path).stat().st_size) != entry.size + CRC_BYTES:
                raise ValueError(f"{size} bytes, expected {entry.size + CRC_BYTES}")
        return entry


@dataclass(frozen=True)
class Artifact:
    """Verified artifact, opened by `open_artifact`."""

    path: Path
    attributes: dict[str, Any]  # of the whole, as written
    arrays: dict[str, ArrayEntry]  # in alphabetical order

    def __getitem__(self, name: str) -> Shaped[np.ndarray, "..."]:
        """Read-only array, mapped from its file: what is not looked at is not read.

        Raises:
            ArtifactError: there is no such array.
            CorruptArtifactError: the array was damaged since the artifact was opened.
        """
        if name not in self.arrays:
            raise ArtifactError(
                f"{self.path}: no array {name!r}, expected one of {', '.join(self.arrays)}"
            )
        with well_formed(self.path, "damaged since it was opened", name):
            return np.asarray(self.arrays[name].map(self.path, "r"))

    def require_shape(self, name: str, shape: tuple[int, ...], of: str) -> None:
        """Refuse an artifact of other inputs, by the shape of an array.

        The name `of` the inputs is for the message.

        Raises:
            ArtifactError: there is no such array, or it has another shape.
        """
        found = self[name].shape
        if found != shape:
            raise ArtifactError(
                f"{self.path}: array {name!r}: found shape {found}, expected {shape} from {of}; "
                "it is of another run: run `dvc repro`"
            )


def open_artifact(path: Path) -> Artifact:
    """Open an artifact after checking every byte of it.

    Raises:
        MissingArtifactError: there is nothing at `path`.
        CorruptArtifactError: a file is damaged, missing, or does not belong to the artifact; the
            error names array and chunk.
        ArtifactError: the operating system refuses.
    """
    for error in damages(path):
        raise error
    attributes = read_attributes(path)
    del attributes["checksum"]
    names = sorted({array_and_chunk(file)[0] for file in attributes.pop("files")})
    return Artifact(path, attributes, {name: ArrayEntry.read(path, name) for name in names})


def damages(path: Path) -> Iterator[CorruptArtifactError]:
    """Errors of all files of an artifact that differ from what was written.

    Raises:
        MissingArtifactError: there is nothing at `path`.
        ArtifactError: the operating system refuses.
    """
    try:
        checksums = read_attributes(path)["files"]
    except CorruptArtifactError as error:
        yield error
        return
    with readable(path):
        present = sealed_files(path)
        for file in sorted({*present, *checksums}):
            if file not in checksums:
                reason = "does not belong to the artifact"
            elif file not in present:
                reason = "is missing"
            elif file_checksum(path / file) != checksums[file]:
                reason = "fails its checksum"
            else:
                continue
            yield CorruptArtifactError(path, f"{file} {reason}", *array_and_chunk(file))


def read_attributes(path: Path) -> dict[str, Any]:
    """Attributes in the root of an artifact; no other file is read.

    Returns:
        Attributes of the whole, with the checksums of all other files under `files` and that of the
        root under `checksum`.

    Raises:
        MissingArtifactError: there is nothing at `path`.
        CorruptArtifactError: the root is damaged or missing.
        ArtifactError: the operating system refuses.
    """
    root = path / ROOT
    with readable(path):
        path.stat()
        if not root.is_file():
            raise CorruptArtifactError(path, f"{ROOT} is missing")
        content = root.read_bytes()
    if seal(content, SEAL_AT) != content:
        raise CorruptArtifactError(path, f"{ROOT} fails its checksum")
    with well_formed(path, f"{ROOT} is sealed but is not of an artifact"):
        attributes: dict[str, Any] = json.loads(content)["attributes"]
        files = attributes["files"]
        checksums = (attributes["checksum"], *files.values())
        if not all(isinstance(text, str) for text in (*files, *checksums)):
            raise TypeError("files without checksums")
    return attributes


def sealed_files(folder: Path) -> list[str]:
    """Files of an artifact except its root `zarr.json`, relative to `folder`."""
    files = (file for file in folder.rglob("*") if not file.is_dir())
    return sorted({file.relative_to(folder).as_posix() for file in files} - {ROOT})


def array_and_chunk(file: str) -> tuple[str, str]:
    """Array and chunk of a file: `features/c/0/1` is chunk `0/1` of array `features`."""
    name, slash, part = file.partition("/")
    return (name if slash else ""), (part.removeprefix("c/") if part.startswith("c/") else "")
