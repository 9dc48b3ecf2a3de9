"""Writing of artifacts, whole and verified or not at all."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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

from geonode.errors import ArtifactError
from geonode.storage.artifact import (
    JSON,
    ROOT,
    SEAL_AT,
    chunk_file,
    open_artifact,
    sealed_files,
)
from geonode.storage.atomic import replacing
from geonode.storage.document import encode_json
from geonode.storage.seal import UNSEALED, file_checksum, seal

Shape = tuple[int, ...]

CHUNK_BYTES = 1 << 20
CRC_BYTES = 4
HALF_WRITTEN = ".partial"  # suffix of Zarr's files until they are complete

# Threads append compressed blocks in the order they finish, so that bytes would vary.
numcodecs.blosc.use_threads = False


@contextmanager
def artifact_writer(path: Path, attributes: dict[str, JSON]) -> Iterator["ArtifactWriter"]:
    """Write an artifact, which is verified and then replaces an older one.

    Args:
        path: folder of the artifact; its parents are created.
        attributes: attributes of the whole, as JSON without NaN.

    Raises:
        ArtifactError: `attributes` is not JSON or uses a key of the seal, an array holds NaN or
            infinity or misses blocks, `path` is a folder of something else, or the operating system
            refuses. The older artifact is then intact, as it is when the body raises.
    """
    encode_json(path, attributes)  # raises before hours of computing instead of after
    if taken := {"files", "checksum"} & attributes.keys():
        raise ArtifactError(
            f"{path}: attributes {sorted(taken)} are taken by the seal; rename them"
        )
    if path.is_dir() and any(path.iterdir()) and not (path / ROOT).is_file():
        raise ArtifactError(
            f"{path}: is a folder but no artifact; move it away or choose a new path"
        )
    with replacing(path) as folder:
        folder.mkdir()
        writer = ArtifactWriter(path, folder)
        yield writer
        writer._close(attributes)


@dataclass(frozen=True)
class Parts:
    """Arrays of an artifact that is being written, for any process that sees its folder.

    Processes that fill different parts need no synchronisation.
    """

    path: Path  # final path of the artifact, for messages
    folder: Path  # folder in which it is written

    def write(self, name: str, index: tuple[int, ...], block: Shaped[np.ndarray, "..."]) -> None:
        """Compress and write one block of a stored array.

        Args:
            name: the array.
            index: index of the block along the leading dimensions.
            block: values over the other dimensions, in the dtype of the array.

        Raises:
            ArtifactError: there is no such array, or index or block are of another size or dtype;
                nothing is broadcast or cast. Or a value is not finite.
        """
        array = self._open(name)
        shape, dtype = array.shape[len(index) :], array.dtype
        # A shard is the file of one block: two processes must not write parts of it.
        shards = array.shards or ()
        whole = shards[: len(index)] == (1,) * len(index) and all(
            part >= size for part, size in zip(shards[len(index) :], shape, strict=True)
        )
        if not whole or block.shape != shape or block.dtype != dtype:
            raise ArtifactError(
                f"{self.path}: array {name!r}: block {index}: found {block.dtype} of shape "
                f"{block.shape}, expected {dtype} of shape {shape} at the index of one block"
            )
        self.require_finite(name, block, index)
        array[index] = block

    def require_finite(
        self, name: str, values: Shaped[np.ndarray, "..."], index: tuple[int, ...] = ()
    ) -> None:
        """Refuse values of an array, from an index on, of which one is NaN or infinite.

        Raises:
            ArtifactError: one is.
        """
        flat = values.reshape(-1)
        for start in range(0, flat.size, CHUNK_BYTES):  # in little memory, however large it is
            wrong = ~np.isfinite(flat[start : start + CHUNK_BYTES])
            if wrong.any():
                inside = np.unravel_index(start + int(wrong.argmax()), values.shape)
                raise ArtifactError(
                    f"{self.path}: array {name!r}: found NaN or infinity at index "
                    f"{(*index, *map(int, inside))}, expected finite numbers; look for the step "
                    "that produced it"
                )

    def mapped(self, name: str) -> Shaped[np.memmap, "..."]:
        """Mapped array to fill; `flush` it for readers on other machines.

        Raises:
            ArtifactError: there is no such array.
        """
        array = self._open(name)
        file = chunk_file(self.folder / name, array)
        return np.memmap(file, array.dtype, mode="r+", shape=array.shape)

    def read(self, name: str, index: tuple[int, ...]) -> Shaped[np.ndarray, "..."]:
        """Written part of a stored array.

        Raises:
            ArtifactError: there is no such array.
        """
        selection: tuple[int | EllipsisType, ...] = (*index, ...)
        return np.asarray(self._open(name)[selection])

    def _open(self, name: str) -> zarr.Array:
        try:
            with zarr.config.set({"array.write_empty_chunks": True}):  # what is absent is lost
                return zarr.open_array(self.folder / name, mode="r+", zarr_format=3)
        except (OSError, ValueError) as error:
            raise ArtifactError(
                f"{self.path}: array {name!r}: cannot be opened to be filled: {error}"
            ) from error


class ArtifactWriter:
    """Arrays of an artifact that is being written, opened and closed by `artifact_writer`.

    Every array has attributes by CF: `units` ("1" without a dimension) and `long_name`, the label
    of the quantity. A dimension has one size in all arrays; another raises ArtifactError.

    Attributes:
        parts: the arrays, for processes that fill parts of them.
    """

    def __init__(self, path: Path, folder: Path) -> None:
        self.parts = Parts(path, folder)
        self._path, self._folder = path, folder
        self._sizes: dict[str, int] = {}  # by dimension
        self._dims: dict[str, tuple[str, ...]] = {}  # by array
        self._blocks: dict[str, int] = {}  # number of files, by array
        self._coordinates: set[str] = set()
        self._mapped: dict[str, Path] = {}  # file by array

    def coordinate(
        self,
        name: str,
        values: Shaped[np.ndarray, "_"],
        *,
        dims: tuple[str] | None = None,
        **about: str,
    ) -> None:
        """Store the coordinate of the dimension `name`, or an auxiliary one of another dimension.

        Args:
            name: the coordinate.
            values: one number per index of the dimension.
            dims: the other dimension, for an auxiliary coordinate.
            about: `units` and `long_name`.
        """
        self.stored(name, dims or (name,), values, **about)
        self._coordinates.add(name)

    def stored(
        self, name: str, dims: tuple[str, ...], values: Shaped[np.ndarray, "..."], **about: str
    ) -> None:
        """Store an array, compressed, in one file.

        Args:
            name: the array.
            dims: name of every dimension of `values`.
            values: numbers or truth values.
            about: `units` and `long_name`.
        """
        self.stored_blocks(name, dims, values.shape, values.dtype, block_dims=0, **about)
        self.parts.write(name, (), values)

    def stored_blocks(
        self,
        name: str,
        dims: tuple[str, ...],
        shape: Shape,
        dtype: DTypeLike,
        *,
        block_dims: int,
        **about: str,
    ) -> None:
        """Add an array of compressed blocks, for `Parts.write` to fill in any order; one file each.

        Args:
            name: the array.
            dims: name of every dimension.
            shape: size of every dimension.
            dtype: type of the numbers.
            block_dims: number of leading dimensions that index the blocks; a block has the others.
            about: `units` and `long_name`.
        """
        itemsize = np.dtype(dtype).itemsize
        lead, (rows, *rest) = (1,) * block_dims, shape[block_dims:]
        count = min(rows, math.ceil(rows * math.prod(rest) * itemsize / CHUNK_BYTES))
        chunk = math.ceil(rows / count)
        layout = {
            "chunks": (*lead, chunk, *rest),
            # A shard consists of whole chunks, so it may extend a little beyond the array.
            "shards": (*lead, chunk * math.ceil(rows / chunk), *rest),
        }
        codecs = BloscCodec(cname="lz4", shuffle="shuffle", typesize=itemsize), Crc32cCodec()
        self._create(name, dims, shape, dtype, about, compressors=codecs, **layout)
        self._blocks[name] = math.prod(shape[:block_dims])

    def mapped(
        self, name: str, dims: tuple[str, ...], shape: Shape, dtype: DTypeLike, **about: str
    ) -> Shaped[np.ndarray, "..."]:
        """Add an uncompressed array and return a memory map of its file, for the caller to fill.

        Floating-point numbers are NaN at first, so that missing ones are refused at the end.

        Args:
            name: the array.
            dims: name of every dimension.
            shape: size of every dimension.
            dtype: type of the numbers.
            about: `units` and `long_name`.
        """
        layout = {"chunks": shape, "compressors": (Crc32cCodec(),)}
        array = self._create(name, dims, shape, dtype, about, **layout)
        file = chunk_file(self._folder / name, array)
        file.parent.mkdir(parents=True)
        # Written before it is mapped: a full disk then raises an error, while a write to a mapped
        # hole of a sparse file would kill the process.
        size = array.nbytes
        block = np.full(CHUNK_BYTES // array.dtype.itemsize, array.fill_value, array.dtype)
        with file.open("wb") as stream:
            for start in range(0, size, block.nbytes):
                stream.write(block.tobytes()[: size - start])
            stream.write(bytes(CRC_BYTES))
        self._mapped[name], self._blocks[name] = file, 1
        return self.parts.mapped(name)

    def _create(
        self,
        name: str,
        dims: tuple[str, ...],
        shape: Shape,
        dtype: DTypeLike,
        about: dict[str, str],
        **layout: Any,
    ) -> zarr.Array:
        """Write the metadata of an array; `layout` is for `zarr.create_array`."""
        for dim, size in zip(dims, shape, strict=True):
            if self._sizes.setdefault(dim, size) != size:
                raise ArtifactError(
                    f"{self._path}: array {name!r}: found size {size} of {dim!r}, expected "
                    f"{self._sizes[dim]} as before"
                )
        self._dims[name] = dims
        dtype = np.dtype(dtype).newbyteorder("<")
        return zarr.create_array(
            store=self._folder / name,
            shape=shape,
            dtype=dtype,
            filters=None,
            serializer=BytesCodec(endian="little"),
            fill_value=math.nan if dtype.kind == "f" else 0,  # of what was never written
            dimension_names=dims,
            attributes={**about},
            **layout,
        )

    def _close(self, attributes: dict[str, JSON]) -> None:
        """Complete the files, seal them, and verify all of them."""
        for left in self._folder.rglob(f"*{HALF_WRITTEN}"):
            left.unlink()  # of a killed process; another has written the block since
        for name, file in self._mapped.items():
            self.parts.require_finite(name, self.parts.mapped(name))
            mapped = np.memmap(file, mode="r+")  # opened anew, as other processes may have written
            crc = google_crc32c.value(mapped[:-CRC_BYTES])
            mapped[-CRC_BYTES:] = np.frombuffer(crc.to_bytes(CRC_BYTES, "little"), np.uint8)
            mapped.flush()
        for name, dims in self._dims.items():
            written = len(sealed_files(self._folder / name / "c"))
            if written != self._blocks[name]:
                raise ArtifactError(
                    f"{self._path}: array {name!r}: found {written} blocks, expected "
                    f"{self._blocks[name]}"
                )
            auxiliary = [
                one
                for one in sorted(self._coordinates)
                if self._dims[one] != (one,) and set(self._dims[one]) <= set(dims)
            ]
            if auxiliary and name not in self._coordinates:  # by CF
                array = zarr.open_array(self._folder / name, mode="r+", zarr_format=3)
                array.attrs["coordinates"] = " ".join(auxiliary)
        files = {file: file_checksum(self._folder / file) for file in sealed_files(self._folder)}
        root = {
            "zarr_format": 3,
            "node_type": "group",
            "attributes": {**attributes, "files": files, "checksum": UNSEALED},
        }
        content = seal(encode_json(self._path, root), SEAL_AT)
        (self._folder / ROOT).write_bytes(content)
        open_artifact(self._folder)
