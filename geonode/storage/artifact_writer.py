"""Writing of artifacts, whole and verified or not at all."""

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import google_crc32c
import numpy as np
from jaxtyping import Shaped
from numpy.typing import DTypeLike

from geonode.errors import ArtifactError
from geonode.storage.artifact import (
    CRC_BYTES,
    JSON,
    ROOT,
    SEAL_AT,
    ArrayEntry,
    open_artifact,
    sealed_files,
)
from geonode.storage.atomic import replacing
from geonode.storage.document import encode_json
from geonode.storage.seal import UNSEALED, file_checksum, seal

CHUNK_BYTES = 1 << 20  # of an array that is filled or looked at


@contextmanager
def artifact_writer(path: Path, attributes: dict[str, JSON]) -> Iterator["ArtifactWriter"]:
    """Write an artifact, which is verified and then replaces an older one.

    The parents of the folder are created; the attributes of the whole are JSON without NaN.

    Raises:
        ArtifactError: `attributes` is not JSON or uses a key of the seal, an array contains NaN or
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
class ArtifactWriter:
    """Arrays of an artifact that is being written, opened and closed by `artifact_writer`.

    Every array has attributes by CF: `units` ("1" without a dimension) and `long_name`, the label
    of the quantity. A dimension has one size in all arrays; another raises ArtifactError. Any
    process that sees the folder fills arrays by `write`.
    """

    path: Path  # final path of the artifact, for messages
    folder: Path  # folder in which it is written
    _entries: dict[str, ArrayEntry] = field(default_factory=dict)
    _coordinates: set[str] = field(default_factory=set)

    def coordinate(
        self,
        name: str,
        values: Shaped[np.ndarray, "_"],
        *,
        dims: tuple[str] | None = None,
        **about: str,
    ) -> None:
        """Store the coordinate of the dimension `name`, or an auxiliary one of another dimension.

        It has one number per index; `about` are `units` and `long_name`.
        """
        self.stored(name, dims or (name,), values, **about)
        self._coordinates.add(name)

    def stored(
        self, name: str, dims: tuple[str, ...], values: Shaped[np.ndarray, "..."], **about: str
    ) -> None:
        """Store an array; `about` are `units` and `long_name`."""
        self.mapped(name, dims, values.shape, values.dtype, **about)[...] = values

    def mapped(
        self,
        name: str,
        dims: tuple[str, ...],
        shape: tuple[int, ...],
        dtype: DTypeLike,
        **about: str,
    ) -> Shaped[np.ndarray, "..."]:
        """Add an array and return a map of its file, to be filled here or by `write`.

        Floating-point numbers are NaN at first, so that missing ones are refused at the end.
        `about` are `units` and `long_name`.
        """
        sizes: dict[str, int] = {}
        for one in self._entries.values():
            sizes |= zip(one.dims, one.shape, strict=True)
        for dim, size in zip(dims, shape, strict=True):
            if sizes.get(dim, size) != size:
                raise ArtifactError(
                    f"{self.path}: array {name!r}: found size {size} of {dim!r}, expected "
                    f"{sizes[dim]} as before"
                )
        number = np.dtype(dtype)
        entry = self._entries[name] = ArrayEntry(name, number.name, shape, dims, **about)
        file = entry.file(self.folder)
        file.parent.mkdir(parents=True)
        metadata = encode_json(self.path, entry.metadata())
        (self.folder / name / ROOT).write_bytes(metadata)
        if entry.size > shutil.disk_usage(file.parent).free:  # before it is filled
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))
        # Written before it is mapped: a full disk then raises an error, while a write to a mapped
        # hole of a sparse file would kill the process.
        missing = np.nan if number.kind == "f" else 0
        block = np.full(CHUNK_BYTES // number.itemsize, missing, number).tobytes()
        with file.open("wb") as stream:
            for start in range(0, entry.size, len(block)):
                stream.write(block[: entry.size - start])
            stream.write(bytes(CRC_BYTES))
        return entry.map(self.folder, "r+")

    def write(self, name: str, index: tuple[int, ...], block: Shaped[np.ndarray, "..."]) -> None:
        """Write one block of a mapped array.

        By its bytes and not through a map, whose pages two machines would overwrite. Processes that
        write different blocks need no synchronisation. The index is along the leading dimensions;
        the block has the others, and the dtype of the array.

        Raises:
            ArtifactError: index or block are of another size or dtype; nothing is broadcast or
                cast.
        """
        entry = self._entries[name]
        leading, shape = entry.shape[: len(index)], entry.shape[len(index) :]
        inside = all(0 <= place < size for place, size in zip(index, leading, strict=True))
        if not inside or (block.shape, str(block.dtype)) != (shape, entry.dtype):
            raise ArtifactError(
                f"{self.path}: array {name!r}: block {index}: found {block.dtype} of shape "
                f"{block.shape}, expected {entry.dtype} of shape {shape} at an index of {leading}"
            )
        place = int(np.ravel_multi_index(index, leading)) if index else 0
        with entry.file(self.folder).open("r+b") as stream:
            stream.seek(place * block.nbytes)
            stream.write(np.ascontiguousarray(block, block.dtype.newbyteorder("<")).tobytes())

    def _close(self, attributes: dict[str, JSON]) -> None:
        """Complete the files, seal them, and verify all of them."""
        for name, entry in self._entries.items():
            self._require_finite(entry)
            # opened anew, as other processes may have written
            content = np.memmap(entry.file(self.folder), mode="r+")
            crc = google_crc32c.value(content[:-CRC_BYTES])
            content[-CRC_BYTES:] = np.frombuffer(crc.to_bytes(CRC_BYTES, "little"), np.uint8)
            content.flush()
            auxiliary = [
                one
                for one in sorted(self._coordinates)
                if (dims := self._entries[one].dims) != (one,) and {*dims} <= {*entry.dims}
            ]
            if auxiliary and name not in self._coordinates:  # by CF
                file = self.folder / name / ROOT
                metadata = json.loads(file.read_bytes())
                metadata["attributes"]["coordinates"] = " ".join(auxiliary)
                file.write_bytes(encode_json(self.path, metadata))
        files = {file: file_checksum(self.folder / file) for file in sealed_files(self.folder)}
        root = {
            "zarr_format": 3,
            "node_type": "group",
            "attributes": {**attributes, "files": files, "checksum": UNSEALED},
        }
        content_of_root = seal(encode_json(self.path, root), SEAL_AT)
        (self.folder / ROOT).write_bytes(content_of_root)
        open_artifact(self.folder)

    def _require_finite(self, entry: ArrayEntry) -> None:
        """Refuse an array of which a value is NaN or infinite."""
        flat = entry.map(self.folder, "r").reshape(-1)
        for start in range(0, flat.size, CHUNK_BYTES):  # in little memory, however large it is
            wrong = ~np.isfinite(flat[start : start + CHUNK_BYTES])
            if wrong.any():
                place = np.unravel_index(start + int(wrong.argmax()), entry.shape)
                raise ArtifactError(
                    f"{self.path}: array {entry.name!r}: found NaN or infinity at index "
                    f"{(*map(int, place),)}, expected finite numbers; look for the step that "
                    "produced it"
                )
