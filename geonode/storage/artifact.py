"""Layout and reading of artifacts: sealed Zarr v3 groups that xarray opens.

There are two kinds of arrays. A *stored* one is compressed (Blosc: LZ4 over shuffled bytes) in
chunks of about 1 MiB, each with its CRC-32C, packed into few shards. A *mapped* one is a single
uncompressed chunk: its file holds the little-endian C-order bytes of the array, which a reader maps
into memory, and their CRC-32C in the last four bytes.

The attributes of the root `zarr.json` list the checksum of every other file under `files`, and seal
`zarr.json` itself with `checksum`. A flipped bit anywhere, and any missing, added, truncated or
exchanged file, is found when the artifact is opened. The error names file and array.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import EllipsisType
from typing import Any

import numpy as np
import zarr
from jaxtyping import Shaped

from geonode.errors import ArtifactError, CorruptArtifactError, MissingArtifactError
from geonode.storage.seal import UNSEALED, file_checksum, is_sealed, require_file
from geonode.storage.zarr_metadata import require_plain

JSON = dict[str, Any] | list[Any] | str | int | float | bool | None

ROOT = "zarr.json"
AFTER_SEAL = '"\n  }\n}\n'  # the checksum is the last attribute, and the attributes come last
SEAL_AT = -len(UNSEALED + AFTER_SEAL)

LARGEST_RATIO = 20_000  # size of an array relative to its files: three times that of zeros
FEWEST_BYTES = 1 << 30  # size that is always allowed: chunks of zeros only are not stored


@dataclass(frozen=True)
class ArrayEntry:
    """Array of an artifact."""

    name: str  # name of the array
    dtype: str  # type of the numbers
    shape: tuple[int, ...]  # size of every dimension
    dims: tuple[str, ...]  # name of every dimension; weights have none
    units: str  # units of the values by CF; empty for weights
    long_name: str  # label of the quantity; empty for weights
    bytes_on_disk: int  # stored size
    bytes_in_memory: int  # size in memory


@dataclass(frozen=True)
class Artifact:
    """Verified artifact, opened by `open_artifact`."""

    path: Path  # folder of the artifact
    attributes: dict[str, Any]  # attributes of the whole, as written
    _chunks: dict[str, list[Path]] = field(repr=False)  # files of every array

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the arrays, in alphabetical order."""
        return tuple(sorted(self._chunks))

    def __getitem__(self, name: str) -> Shaped[np.ndarray, "..."]:
        """Read a whole array, read-only: a mapped one is an np.memmap, a stored one decompressed.

        Raises:
            ArtifactError: there is no such array.
            CorruptArtifactError: the array was damaged since the artifact was opened.
        """
        return self.read(name, ())

    def describe(self, name: str) -> ArrayEntry:
        """Metadata of an array.

        Raises:
            ArtifactError: there is no such array.
        """
        array = self._array(name)
        return ArrayEntry(
            name,
            str(array.dtype),
            array.shape,
            tuple(array.metadata.dimension_names),  # type: ignore[union-attr, arg-type]
            str(array.attrs["units"]),
            str(array.attrs["long_name"]),
            sum(file.stat().st_size for file in self._chunks[name]),
            array.nbytes,
        )

    def require_shape(self, name: str, shape: tuple[int, ...], of: str) -> None:
        """Refuse an artifact of other inputs, by the shape of an array.

        Args:
            name: an array of the artifact.
            shape: expected shape.
            of: name of the inputs, for the message.

        Raises:
            ArtifactError: there is no such array, or it has another shape.
        """
        found = self.describe(name).shape
        if found != shape:
            raise ArtifactError(
                f"{self.path}: array {name!r}: found shape {found}, expected {shape} from {of}; "
                "it is of another run: run `dvc repro`"
            )

    def read(self, name: str, index: tuple[int, ...]) -> Shaped[np.ndarray, "..."]:
        """Read part of an array, read-only, at an index along its leading dimensions.

        Only the chunks of that part are decompressed.

        Raises:
            IndexError: there is no such index.
            ArtifactError: there is no such array.
            CorruptArtifactError: the array was damaged since the artifact was opened.
        """
        selection: tuple[int | EllipsisType, ...] = (*index, ...)  # an array, even of one number
        try:
            array = self._array(name)
            if array.shards is None:
                file = chunk_file(self.path / name, array)
                return np.memmap(file, array.dtype, mode="r", shape=array.shape)[selection]
            values = np.asarray(array[selection])
        except (OSError, ValueError, RuntimeError) as error:
            reason = f"damaged since it was opened: {error}"
            raise CorruptArtifactError(self.path, reason, name) from error
        # Zarr reads the fill value from a missing or empty file, without an error.
        for file in self._chunks[name]:
            if not file.is_file() or not file.stat().st_size:
                chunk = array_and_chunk(file.relative_to(self.path).as_posix())
                raise CorruptArtifactError(self.path, "removed since it was opened", *chunk)
        values.flags.writeable = False
        return values

    def _check(self, name: str) -> None:
        """Refuse invalid metadata, and sizes that the files of the array cannot hold.

        Raises:
            CorruptArtifactError: the metadata are invalid.
        """
        stored = sum(file.stat().st_size for file in self._chunks[name])
        try:
            require_plain(self.path / name, FEWEST_BYTES + LARGEST_RATIO * stored, stored)
            about = self.describe(name)
        except Exception as error:  # Zarr raises more than ValueError where metadata are wrong
            reason = f"{error or repr(error)}"
            raise CorruptArtifactError(self.path, reason, name) from error
        numbers = np.dtype(about.dtype).kind in "biuf"
        if not numbers or len(about.dims) != len(about.shape):
            reason = f"found {about.dtype} of shape {about.shape} and dimensions {about.dims}"
            raise CorruptArtifactError(self.path, reason, name)

    def _array(self, name: str) -> zarr.Array:
        if name not in self._chunks:
            raise ArtifactError(
                f"{self.path}: no array {name!r}, expected one of {', '.join(self.names)}"
            )
        return zarr.open_array(self.path / name, mode="r", zarr_format=3)


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
    checksums = attributes.pop("files")
    chunks: dict[str, list[Path]] = {}
    for file in sorted(checksums):
        name, chunk = array_and_chunk(file)
        chunks.setdefault(name, []).extend([path / file] if chunk else [])
    artifact = Artifact(path, attributes, chunks)
    for name in artifact.names:
        artifact._check(name)
    return artifact


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
    try:
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
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read: {error}") from error


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
    try:
        path.stat()
    except FileNotFoundError as error:
        raise MissingArtifactError(path) from error
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read: {error}") from error
    try:
        content = require_file(root).read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise CorruptArtifactError(path, f"{ROOT} is missing") from error
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read: {error}") from error
    if not is_sealed(content, SEAL_AT):
        raise CorruptArtifactError(path, f"{ROOT} fails its checksum")
    try:
        attributes: dict[str, Any] = json.loads(content)["attributes"]
        files = attributes["files"]
        checksums = (attributes["checksum"], *files.values())
        if not all(isinstance(text, str) for text in (*files, *checksums)):
            raise TypeError("files without checksums")
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        reason = f"{ROOT} is sealed but is not of an artifact ({error!r:.80})"
        raise CorruptArtifactError(path, reason) from error
    return attributes


def sealed_files(folder: Path) -> list[str]:
    """Files of an artifact except its root `zarr.json`, relative to `folder`."""
    files = (file for file in folder.rglob("*") if not file.is_dir())
    return sorted({file.relative_to(folder).as_posix() for file in files} - {ROOT})


def array_and_chunk(file: str) -> tuple[str, str]:
    """Array and chunk of a file: `features/c/0/1` is chunk `0/1` of array `features`."""
    name, slash, part = file.partition("/")
    return (name if slash else ""), (part.removeprefix("c/") if part.startswith("c/") else "")


def chunk_file(folder: Path, array: zarr.Array) -> Path:
    """File of the only chunk of a mapped array."""
    return folder / array.metadata.encode_chunk_key((0,) * array.ndim)
