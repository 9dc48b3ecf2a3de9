"""Arrays on disk that survive damage: a sealed Zarr v3 group that xarray opens.

Two kinds of array. A *stored* one is compressed (Blosc: zstd over shuffled bits) in chunks of about
1 MiB, each with its CRC-32C, packed into few shards. A *mapped* one is a single uncompressed chunk:
its file is the array's little-endian C-order bytes, which a reader maps into memory instead of
loading, and their CRC-32C in the last four bytes.

The attributes of the root `zarr.json` list the checksum of every other file under `files`, and seal
`zarr.json` itself with `checksum`. A flipped bit anywhere, or a file that is missing, added, cut or
exchanged for another, is found when the artifact is opened.
"""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import EllipsisType
from typing import Any

import google_crc32c
import numcodecs.blosc
import numpy as np
import zarr
from jaxtyping import Shaped
from numpy.typing import DTypeLike
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec

from geonode.errors import ArtifactError, CorruptArtifactError, MissingArtifactError
from geonode.storage.atomic import replacing
from geonode.storage.document import encode_json
from geonode.storage.seal import UNSEALED, file_checksum, is_sealed, require_file, seal
from geonode.storage.zarr_metadata import require_plain

JSON = dict[str, Any] | list[Any] | str | int | float | bool | None

# Threads append compressed blocks in the order they finish: not the same bytes every time.
numcodecs.blosc.use_threads = False

_ROOT = "zarr.json"
_AFTER_SEAL = '"\n  }\n}\n'  # the checksum is the last attribute, and the attributes come last
_SEAL_AT = -len(UNSEALED + _AFTER_SEAL)
_CHUNK_BYTES = 1 << 20
_CRC_BYTES = 4
_LARGEST_RATIO = 20_000  # of an array to its files: three times that of zeros
_FEWEST_BYTES = 1 << 30  # that are never too many: chunks that are all zero are not stored
_HALF_WRITTEN = ".partial"  # suffix of Zarr's files until they are complete


@contextmanager
def artifact_writer(path: Path, attributes: dict[str, JSON]) -> Iterator["ArtifactWriter"]:
    """Write an artifact: all of it is verified and put in the place of an older one, or nothing is.

    Args:
        path: folder of the artifact; its parents are created.
        attributes: what a reader must know of the whole, as JSON without NaN.

    Raises:
        ArtifactError: `attributes` is not JSON or uses a key of the seal, an array holds NaN or
            infinity or misses blocks, `path` is a folder of something else, or the operating system
            refuses. The older artifact is then as it was, as it is when the body raises.
    """
    encode_json(path, attributes)  # raises now what the seal would raise after hours of computing
    if taken := {"files", "checksum"} & attributes.keys():
        raise ArtifactError(
            f"{path}: attributes {sorted(taken)} are taken by the seal; rename them"
        )
    if path.is_dir() and any(path.iterdir()) and not (path / _ROOT).is_file():
        raise ArtifactError(
            f"{path}: is a folder but no artifact; move it away or choose a new path"
        )
    with replacing(path) as folder:
        folder.mkdir()
        writer = ArtifactWriter(path, folder)
        yield writer
        writer._close(attributes)


class ArtifactWriter:
    """The arrays of an artifact that is being written; `artifact_writer` makes and closes it.

    Every method raises ArtifactError where array, dimensions and size do not fit each other or the
    arrays before.
    """

    def __init__(self, path: Path, folder: Path) -> None:
        self._path = path  # where the artifact will be, for messages
        self._folder = folder
        self._sizes: dict[str, int] = {}  # by dimension
        self._dims: dict[str, tuple[str, ...]] = {}  # by array
        self._block_dims: dict[str, int] = {}  # by array
        self._coordinates: set[str] = set()
        self._mapped: list[Path] = []

    @property
    def parts(self) -> "Parts":
        """The arrays, for processes that fill parts of them."""
        return Parts(self._path, self._folder)

    def coordinate(
        self,
        name: str,
        values: Shaped[np.ndarray, "_"],
        *,
        units: str,
        long_name: str,
        dims: tuple[str] | None = None,
    ) -> None:
        """Store the coordinate of the dimension `name`, or an auxiliary one of another dimension.

        Args:
            name: the coordinate.
            values: one number per index of the dimension.
            units: of the values, as CF has them (dimensionless: "1").
            long_name: label of an axis.
            dims: that other dimension.
        """
        self.stored(name, dims or (name,), values, units=units, long_name=long_name)
        self._coordinates.add(name)

    def stored(
        self,
        name: str,
        dims: tuple[str, ...],
        values: Shaped[np.ndarray, "..."],
        *,
        units: str,
        long_name: str,
    ) -> None:
        """Store an array, compressed, in one file.

        Args:
            name: the array.
            dims: name of every dimension of `values`.
            values: numbers or truth values.
            units: of the values, as CF has them (dimensionless: "1").
            long_name: label of the quantity.
        """
        blocks = self.stored_blocks(
            name, dims, values.shape, values.dtype, units=units, long_name=long_name, block_dims=0
        )
        blocks[()] = values

    def stored_blocks(
        self,
        name: str,
        dims: tuple[str, ...],
        shape: tuple[int, ...],
        dtype: DTypeLike,
        *,
        units: str,
        long_name: str,
        block_dims: int,
    ) -> "BlockWriter":
        """Store an array, compressed, block by block in any order, one file per block.

        Args:
            name: the array.
            dims: name of every dimension.
            shape: size of every dimension.
            dtype: of the numbers.
            units: of the values, as CF has them (dimensionless: "1").
            long_name: label of the quantity.
            block_dims: how many leading dimensions tell the blocks apart; a block has the others.
        """
        dtype = self._declare(name, dims, shape, dtype, block_dims)
        chunks, shards = _chunks_and_shards(shape, dtype.itemsize, block_dims)
        array = self._create(
            name,
            dtype,
            units=units,
            long_name=long_name,
            chunks=chunks,
            shards=shards,
            compressors=(
                BloscCodec(cname="zstd", shuffle="bitshuffle", typesize=dtype.itemsize),
                Crc32cCodec(),
            ),
        )
        return BlockWriter(array, block_dims, f"{self._path}: array {name!r}")

    def mapped(
        self,
        name: str,
        dims: tuple[str, ...],
        shape: tuple[int, ...],
        dtype: DTypeLike,
        *,
        units: str,
        long_name: str,
    ) -> Shaped[np.ndarray, "..."]:
        """Add an uncompressed array and return it, a map of its file, for the caller to fill.

        Floating-point numbers are NaN at first, so one that is not filled in is refused at the end.

        Args:
            name: the array.
            dims: name of every dimension.
            shape: size of every dimension.
            dtype: of the numbers.
            units: of the values, as CF has them (dimensionless: "1").
            long_name: label of the quantity.
        """
        dtype = self._declare(name, dims, shape, dtype, block_dims=0)
        array = self._create(
            name,
            dtype,
            units=units,
            long_name=long_name,
            chunks=shape,
            shards=None,
            compressors=(Crc32cCodec(),),
        )
        file = _chunk_file(self._folder / name, array)
        file.parent.mkdir(parents=True)
        # Written out before it is mapped: a full disk then is an error that can be reported, while
        # filling a hole of a sparse file without room kills the process.
        size = math.prod(shape) * dtype.itemsize
        block = np.full(_CHUNK_BYTES // dtype.itemsize, _fill_value(dtype), dtype).tobytes()
        with file.open("wb") as stream:
            for start in range(0, size, len(block)):
                stream.write(block[: size - start])
            stream.write(bytes(_CRC_BYTES))
        self._mapped.append(file)
        return self.parts.mapped(name)

    def _declare(
        self,
        name: str,
        dims: tuple[str, ...],
        shape: tuple[int, ...],
        dtype: DTypeLike,
        block_dims: int,
    ) -> np.dtype:
        """Check an array against those before it, and return its dtype as it will be on disk."""
        dtype = np.dtype(dtype).newbyteorder("<")
        if name in self._dims:
            raise self._error(name, "is there already; give every array a name of its own")
        if dtype.kind not in "biuf":
            raise self._error(name, f"found dtype {dtype}, expected numbers or truth values")
        if len(dims) != len(shape) or len(shape) <= block_dims or 0 in shape:
            raise self._error(
                name,
                f"found dimensions {dims} of size {shape}, expected one size above 0 for each, and "
                f"more than {block_dims} of them",
            )
        for dim, size in zip(dims, shape, strict=True):
            if self._sizes.setdefault(dim, size) != size:
                raise self._error(
                    name, f"found size {size} of {dim!r}, expected {self._sizes[dim]} as before"
                )
        self._dims[name], self._block_dims[name] = dims, block_dims
        return dtype

    def _create(
        self,
        name: str,
        dtype: np.dtype,
        *,
        units: str,
        long_name: str,
        chunks: tuple[int, ...],
        shards: tuple[int, ...] | None,
        compressors: tuple[BloscCodec | Crc32cCodec, ...],
    ) -> zarr.Array:
        """Write the metadata of a declared array."""
        return zarr.create_array(
            store=self._folder / name,
            shape=self._shape(name),
            dtype=dtype,
            chunks=chunks,
            shards=shards,
            filters=None,
            serializer=BytesCodec(endian="little"),
            compressors=compressors,
            fill_value=_fill_value(dtype),
            dimension_names=self._dims[name],
            attributes={"units": units, "long_name": long_name},
            config={"write_empty_chunks": True},  # so that an absent chunk is always a lost one
        )

    def _close(self, attributes: dict[str, JSON]) -> None:
        """Complete the files, seal them, and check all that was written."""
        for left in self._folder.rglob(f"*{_HALF_WRITTEN}"):
            left.unlink()  # by a process that was killed; another has written the block since
        for file in self._mapped:
            mapped = np.memmap(file, mode="r+")  # anew: others may have written to it
            crc = google_crc32c.value(mapped[:-_CRC_BYTES])
            mapped[-_CRC_BYTES:] = np.frombuffer(crc.to_bytes(_CRC_BYTES, "little"), np.uint8)
            mapped.flush()
        for name, dims in self._dims.items():
            self._check_complete(name)
            if name not in self._coordinates:
                self._attach_auxiliary_coordinates(name, dims)
        files = {file: file_checksum(self._folder / file) for file in _files(self._folder)}
        root = {
            "zarr_format": 3,
            "node_type": "group",
            "attributes": {**attributes, "files": files, "checksum": UNSEALED},
        }
        content = seal(encode_json(self._path, root), _SEAL_AT)
        (self._folder / _ROOT).write_bytes(content)
        artifact = open_artifact(self._folder)
        for name in self._dims:
            if (first := artifact.first_not_finite(name)) is not None:
                raise self._error(
                    name,
                    f"found NaN or infinity at index {first}, expected finite numbers; "
                    "look for the step that produced it",
                )

    def _check_complete(self, name: str) -> None:
        expected = math.prod(self._shape(name)[: self._block_dims[name]])
        written = len(_files(self._folder / name / "c"))
        if written != expected:
            raise self._error(name, f"found {written} blocks, expected {expected}")

    def _attach_auxiliary_coordinates(self, name: str, dims: tuple[str, ...]) -> None:
        """Name them in the CF attribute `coordinates`, which tells them from data."""
        auxiliary = [
            coordinate
            for coordinate in sorted(self._coordinates)
            if self._dims[coordinate] != (coordinate,) and set(self._dims[coordinate]) <= set(dims)
        ]
        if auxiliary:
            array = zarr.open_array(self._folder / name, mode="r+", zarr_format=3)
            array.attrs["coordinates"] = " ".join(auxiliary)

    def _shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._sizes[dim] for dim in self._dims[name])

    def _error(self, name: str, reason: str) -> ArtifactError:
        return ArtifactError(f"{self._path}: array {name!r}: {reason}")


@dataclass(frozen=True)
class Parts:
    """The arrays of an artifact that is being written, for any process that sees its folder.

    Whoever fills different parts needs to know nothing of each other.

    Attributes:
        path: where the artifact will be, for messages.
        folder: where it is written.
    """

    path: Path
    folder: Path

    def blocks(self, name: str, block_dims: int) -> "BlockWriter":
        """What takes the blocks of a stored array.

        Args:
            name: the array.
            block_dims: how many leading dimensions tell the blocks apart.

        Raises:
            ArtifactError: the array is not there.
        """
        return BlockWriter(self._open(name), block_dims, f"{self.path}: array {name!r}")

    def mapped(self, name: str) -> Shaped[np.memmap, "..."]:
        """A mapped array, to be filled; `flush` it for readers on other machines.

        Raises:
            ArtifactError: the array is not there.
        """
        array = self._open(name)
        file = _chunk_file(self.folder / name, array)
        return np.memmap(file, array.dtype, mode="r+", shape=array.shape)

    def read(self, name: str, index: tuple[int, ...]) -> Shaped[np.ndarray, "..."]:
        """A part of a stored array, as it was written.

        Raises:
            ArtifactError: the array is not there.
        """
        selection: tuple[int | EllipsisType, ...] = (*index, ...)
        return np.asarray(self._open(name)[selection])

    def _open(self, name: str) -> zarr.Array:
        try:
            folder, config = self.folder / name, {"write_empty_chunks": True}
            return zarr.open_array(folder, mode="r+", zarr_format=3, config=config)
        except (OSError, ValueError) as error:
            raise ArtifactError(
                f"{self.path}: array {name!r}: cannot be opened to be filled: {error}"
            ) from error


class BlockWriter:
    """Takes the blocks of a stored array: `blocks[index] = block`."""

    def __init__(self, array: zarr.Array, block_dims: int, where: str) -> None:
        self._array = array
        self._block_dims = block_dims
        self._where = where

    def __setitem__(self, index: tuple[int, ...], block: Shaped[np.ndarray, "..."]) -> None:
        """Compress and write one block.

        Args:
            index: along the leading dimensions that tell blocks apart.
            block: of the size of the other dimensions and of the dtype of the array.

        Raises:
            ArtifactError: index or block are of another size or dtype; nothing is broadcast or
                cast.
        """
        shape, dtype = self._array.shape[self._block_dims :], self._array.dtype
        if len(index) != self._block_dims or block.shape != shape or block.dtype != dtype:
            raise ArtifactError(
                f"{self._where}: block {index}: found {block.dtype} of shape {block.shape}, "
                f"expected {dtype} of shape {shape} at an index of length {self._block_dims}"
            )
        self._array[index] = block


@dataclass(frozen=True)
class Description:
    """What the metadata of an array say.

    Attributes:
        dims: name of every dimension.
        shape: size of every dimension.
        dtype: of the numbers.
        units: of the values, as CF has them.
        long_name: label of the quantity.
        stored_bytes: of its chunks, as they are on disk.
    """

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype
    units: str
    long_name: str
    stored_bytes: int


@dataclass(frozen=True)
class Artifact:
    """A verified artifact; `open_artifact` makes it.

    Attributes:
        path: its folder.
        attributes: what its writer said of the whole.
    """

    path: Path
    attributes: dict[str, Any]
    _chunks: dict[str, list[Path]] = field(repr=False)  # files of every array
    _root: tuple[int, ...] | None = field(repr=False)  # which of all that were ever at the path

    @property
    def names(self) -> tuple[str, ...]:
        """The arrays, in alphabetical order."""
        return tuple(sorted(self._chunks))

    def __getitem__(self, name: str) -> Shaped[np.ndarray, "..."]:
        """A whole array, read-only: a mapped one is an np.memmap, a stored one is decompressed.

        Raises:
            ArtifactError: there is no such array, or the artifact was replaced by another.
            CorruptArtifactError: it was damaged since the artifact was opened.
        """
        return self.read(name, ())

    def describe(self, name: str) -> Description:
        """What there is to know of an array without reading its numbers.

        Raises:
            ArtifactError: there is no such array, or the artifact was replaced by another.
        """
        self._require(name)
        with _unreplaced(self.path, self._root):
            return self._described(name)

    def _described(self, name: str) -> Description:
        array = zarr.open_array(self.path / name, mode="r", zarr_format=3)
        return Description(
            tuple(array.metadata.dimension_names),  # type: ignore[union-attr, arg-type]
            array.shape,
            array.dtype,
            str(array.attrs["units"]),
            str(array.attrs["long_name"]),
            sum(file.stat().st_size for file in self._chunks[name]),
        )

    def require_shape(self, name: str, shape: tuple[int, ...], of: str) -> None:
        """Refuse an artifact that was made of other inputs than those at hand.

        Args:
            name: an array of the artifact.
            shape: its shape if it belongs to these inputs.
            of: what the inputs are, for the message.

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
        """Part of an array, read-only, at an index along its leading dimensions.

        Only the chunks of that part are decompressed.

        Raises:
            IndexError: there is no such index.
            ArtifactError: there is no such array, or the artifact was replaced by another.
            CorruptArtifactError: it was damaged since the artifact was opened.
        """
        with _unreplaced(self.path, self._root):
            return self._select(name, (*index, ...))  # an array, even of one number

    def first_not_finite(self, name: str) -> tuple[int, ...] | None:
        """Index of a NaN or an infinity; None if there is none. Memory is that of a chunk.

        NaN is what Zarr reads where a chunk is missing, so it cannot be a value too.

        Raises:
            ArtifactError: there is no such array.
            CorruptArtifactError: it was damaged since the artifact was opened.
        """
        self._require(name)
        array = zarr.open_array(self.path / name, mode="r", zarr_format=3)
        part = array.chunks if array.shards else _part(array.shape, array.dtype.itemsize)
        for corner in np.ndindex(*map(_ceil_divide, array.shape, part)):
            start = [place * size for place, size in zip(corner, part, strict=True)]
            region = [slice(first, first + n) for first, n in zip(start, part, strict=True)]
            finite = np.isfinite(self._select(name, tuple(region)))
            if not finite.all():
                inside = np.argwhere(~finite)[0].tolist()
                return tuple(map(sum, zip(start, inside, strict=True)))
        return None

    def _select(
        self, name: str, selection: tuple[int | slice | EllipsisType, ...]
    ) -> Shaped[np.ndarray, "..."]:
        self._require(name)
        try:
            array = zarr.open_array(self.path / name, mode="r", zarr_format=3)
            if array.shards is None:
                file = _chunk_file(self.path / name, array)
                return np.memmap(file, array.dtype, mode="r", shape=array.shape)[selection]
            values = np.asarray(array[selection])
        except (OSError, ValueError, RuntimeError) as error:
            reason = f"damaged since it was opened: {error}"
            raise CorruptArtifactError(self.path, reason, name) from error
        # A missing or empty file is no error to Zarr: it reads the fill value.
        for file in self._chunks[name]:
            if not file.is_file() or not file.stat().st_size:
                chunk = _array_and_chunk(file.relative_to(self.path).as_posix())
                raise CorruptArtifactError(self.path, "removed since it was opened", *chunk)
        values.flags.writeable = False
        return values

    def _check(self, name: str) -> None:
        """Refuse metadata that ask for more than the files of the array can hold.

        Raises:
            CorruptArtifactError: they do, or they are none.
        """
        stored = sum(file.stat().st_size for file in self._chunks[name])
        try:
            require_plain(self.path / name, _FEWEST_BYTES + _LARGEST_RATIO * stored, stored)
            about = self.describe(name)
        except Exception as error:  # Zarr raises more than ValueError where metadata are wrong
            reason = f"{error or repr(error)}"
            raise CorruptArtifactError(self.path, reason, name) from error
        if about.dtype.kind not in "biuf" or len(about.dims) != len(about.shape):
            reason = f"found {about.dtype} of shape {about.shape} and dimensions {about.dims}"
            raise CorruptArtifactError(self.path, reason, name)

    def _require(self, name: str) -> None:
        if name not in self._chunks:
            raise ArtifactError(
                f"{self.path}: no array {name!r}, expected one of {', '.join(self.names)}"
            )


def open_artifact(path: Path) -> Artifact:
    """Open an artifact after checking every byte of it.

    Raises:
        MissingArtifactError: there is nothing at `path`.
        CorruptArtifactError: a file is damaged, missing, or does not belong to the artifact; the
            error names array and chunk.
        ArtifactError: the operating system refuses, or another artifact took the place meanwhile.
    """
    root = _root_of(path)
    with _unreplaced(path, root):
        return _opened(path, root)


def _opened(path: Path, root: tuple[int, ...] | None) -> Artifact:
    for error in damages(path):
        raise error
    attributes = _sealed_attributes(path)
    del attributes["checksum"]
    checksums = attributes.pop("files")
    chunks: dict[str, list[Path]] = {}
    for file in sorted(checksums):
        name, chunk = _array_and_chunk(file)
        chunks.setdefault(name, []).extend([path / file] if chunk else [])
    artifact = Artifact(path, attributes, chunks, root)
    for name in artifact.names:
        artifact._check(name)
    return artifact


def _root_of(path: Path) -> tuple[int, ...] | None:
    """What tells an artifact from others that are written to the same path; None for none."""
    try:
        about = (path / _ROOT).stat()
    except OSError:
        return None
    return about.st_dev, about.st_ino, about.st_mtime_ns


@contextmanager
def _unreplaced(path: Path, root: tuple[int, ...] | None) -> Iterator[None]:
    """Refuse what is read inside if part of it may be of another artifact than the rest."""
    failed: Exception | None = None
    try:
        yield
    except Exception as error:
        failed = error
    if _root_of(path) != root:
        raise ArtifactError(
            f"{path}: was replaced by another since it was opened; run this again"
        ) from failed
    if failed is not None:
        raise failed


def damages(path: Path) -> Iterator[CorruptArtifactError]:
    """Every file of an artifact that is not as it was written.

    Raises:
        MissingArtifactError: there is nothing at `path`.
        ArtifactError: the operating system refuses.
    """
    try:
        try:
            checksums = _sealed_attributes(path)["files"]
        except CorruptArtifactError as error:
            yield error
            return
        present = _files(path)
        for file in sorted({*present, *checksums}):
            if file not in checksums:
                reason = "does not belong to the artifact"
            elif file not in present:
                reason = "is missing"
            elif file_checksum(path / file) != checksums[file]:
                reason = "fails its checksum"
            else:
                continue
            yield CorruptArtifactError(path, f"{file} {reason}", *_array_and_chunk(file))
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read: {error}") from error


def read_attributes(path: Path) -> dict[str, Any]:
    """What the root of an artifact says, of which nothing else is read.

    Returns:
        Attributes of the whole; under `files` checksums of all other files, and under `checksum`
        that of the root with all of these.

    Raises:
        MissingArtifactError: there is nothing at `path`.
        CorruptArtifactError: the root is damaged or missing.
        ArtifactError: the operating system refuses.
    """
    try:
        return _sealed_attributes(path)
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read: {error}") from error


def _sealed_attributes(path: Path) -> dict[str, Any]:
    """Attributes of a root that is intact, those of the seal with them."""
    root = path / _ROOT
    try:
        path.stat()
    except FileNotFoundError as error:
        raise MissingArtifactError(path) from error
    try:
        content = require_file(root).read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise CorruptArtifactError(path, f"{_ROOT} is missing") from error
    if not is_sealed(content, _SEAL_AT):
        raise CorruptArtifactError(path, f"{_ROOT} fails its checksum")
    try:
        attributes: dict[str, Any] = json.loads(content)["attributes"]
        files = attributes["files"]
        checksums = (attributes["checksum"], *files.values())
        if not all(isinstance(text, str) for text in (*files, *checksums)):
            raise TypeError("files without checksums")
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        reason = f"{_ROOT} is sealed but is not of an artifact ({error!r:.80})"
        raise CorruptArtifactError(path, reason) from error
    return attributes


def _chunks_and_shards(
    shape: tuple[int, ...], itemsize: int, block_dims: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of the inner chunks, of about 1 MiB, and of the shards, one for each block."""
    lead, (rows, *rest) = (1,) * block_dims, shape[block_dims:]
    count = min(rows, math.ceil(rows * math.prod(rest) * itemsize / _CHUNK_BYTES))
    rows_per_chunk = math.ceil(rows / count)
    # A shard must be whole chunks, so it may reach a little beyond the array.
    rows_per_shard = rows_per_chunk * math.ceil(rows / rows_per_chunk)
    return (*lead, rows_per_chunk, *rest), (*lead, rows_per_shard, *rest)


def _part(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Shape of contiguous parts, of at most about 1 MiB, of an array in C order."""
    part = list(shape)
    for axis in range(len(shape)):
        rest = math.prod(part[axis + 1 :]) * itemsize
        part[axis] = min(part[axis], max(1, _CHUNK_BYTES // rest))
        if part[axis] > 1:
            break
    return tuple(part)


def _ceil_divide(size: int, part: int) -> int:
    return -(-size // part)


def _fill_value(dtype: np.dtype) -> float | int:
    return math.nan if dtype.kind == "f" else 0


def _chunk_file(folder: Path, array: zarr.Array) -> Path:
    """File of the only chunk of a mapped array."""
    return folder / array.metadata.encode_chunk_key((0,) * array.ndim)


def _files(folder: Path) -> list[str]:
    """Every file of an artifact but its root `zarr.json`, relative to `folder`."""
    files = (file for file in folder.rglob("*") if not file.is_dir())
    return sorted({file.relative_to(folder).as_posix() for file in files} - {_ROOT})


def _array_and_chunk(file: str) -> tuple[str, str]:
    """Where a file belongs: `features/c/0/1` is chunk `0/1` of array `features`."""
    name, slash, part = file.partition("/")
    return (name if slash else ""), (part.removeprefix("c/") if part.startswith("c/") else "")
