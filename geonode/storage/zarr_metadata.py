"""Safety checks of the metadata of a Zarr store, before any library acts on them.

Zarr takes the names of codecs from the store. One of them unpickles, which runs arbitrary code, and
shapes and chunks may have any size. Only codecs that turn bytes into numbers and texts are allowed,
with sizes that fit into memory.
"""

import json
import math
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from geonode.errors import ArtifactError

CODECS = frozenset(
    {"bytes", "blosc", "crc32c", "gzip", "sharding_indexed", "transpose", "zstd"}
    | {"bz2", "delta", "fixedscaleoffset", "lz4", "lzma", "shuffle", "vlen-utf8", "zlib"}
)
"""Safe codecs; their names may have the prefix `numcodecs.`."""

LARGEST_FILE = 2**20
"""Largest metadata of one array or group (bytes)."""

MOST_ARRAYS = 1000
"""Largest number of arrays and groups of a store."""

_FILES = ("zarr.json", ".zarray")
_TYPES = {
    **dict.fromkeys(("bool", "int8", "uint8"), 1),
    **dict.fromkeys(("int16", "uint16", "float16"), 2),
    **dict.fromkeys(("int32", "uint32", "float32"), 4),
    **dict.fromkeys(("int64", "uint64", "float64", "complex64"), 8),
    **dict.fromkeys(("complex128", "string"), 16),
}  # bytes per value, by names of Zarr 3


def require_own_files(folder: Path) -> None:
    """Refuse a store with links, pipes or devices.

    Raises:
        ArtifactError: there is one; the message names it.
        OSError: the store cannot be read.
    """
    for file in sorted(folder.rglob("*")):
        mode = file.lstat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            found = "link" if stat.S_ISLNK(mode) else "pipe or a device"
            raise ArtifactError(
                f"{file.relative_to(folder)}: found a {found}, expected files and folders; copy "
                "the store with what its links lead to"
            )


def require_plain(
    folder: Path, most_bytes: int, most_chunks: int, most_of_lines: int | None = None
) -> None:
    """Refuse a store with anything but arrays of numbers and texts.

    Args:
        folder: the store; none of its chunks are read.
        most_bytes: largest size of an array and of a chunk in memory, with at least eight bytes per
            value.
        most_chunks: largest number of chunks of an array.
        most_of_lines: largest size of all one-dimensional arrays together, which are read when a
            store is opened; None: `most_bytes`.

    Raises:
        ArtifactError: metadata are invalid, name a codec that is not one of `CODECS`, objects, or
            a larger size than allowed; the message names the file.
        OSError: the metadata cannot be read.
    """
    of_lines = 0
    for file in _metadata_files(folder):
        try:
            found = _read(file)
            size = _size(found, most_chunks)
            of_lines += size if len(found.get("shape", ())) == 1 else 0
            for bytes_, most in ((size, most_bytes), (of_lines, most_of_lines or most_bytes)):
                if bytes_ > most:
                    raise ArtifactError(
                        f"found {bytes_:.3g} bytes of shape {found['shape']!r:.80}, expected at "
                        f"most {most:.3g}; write the store in parts"
                    )
        except ArtifactError as error:
            raise ArtifactError(f"{file.relative_to(folder)}: {error}") from error
        except (
            KeyError,
            TypeError,
            AttributeError,
            ArithmeticError,
            ValueError,
            RecursionError,
        ) as error:
            raise ArtifactError(
                f"{file.relative_to(folder)}: found no metadata of an array ({error!r:.80})"
            ) from error


def _metadata_files(folder: Path) -> list[Path]:
    """Metadata files of all arrays and groups of a store."""
    files = [file for file in sorted(folder.rglob("*")) if file.name in _FILES]
    if len(files) > MOST_ARRAYS:
        raise ArtifactError(f"found {len(files)} arrays and groups, expected at most {MOST_ARRAYS}")
    return files


def _read(file: Path) -> dict[str, Any]:
    size = file.stat().st_size
    if size > LARGEST_FILE:
        raise ArtifactError(f"found {size} bytes of metadata, expected at most {LARGEST_FILE}")
    found = json.loads(file.read_bytes())
    if not isinstance(found, dict):
        raise ArtifactError("found no JSON object, expected metadata of Zarr")
    return found


def _size(found: dict[str, Any], most_chunks: int) -> int:
    """Size of an array or its largest chunk in memory (bytes); 0 for a group."""
    if found["zarr_format"] == 3 and found["node_type"] == "group":
        return 0
    codecs = list(_codecs(found))
    for name in codecs:
        if str(name).removeprefix("numcodecs.") not in CODECS:
            raise ArtifactError(
                f"found codec {str(name)[:40]!r}, expected one of {', '.join(sorted(CODECS))}: "
                "others may run code; write the store again with one of them"
            )
    shape, values = found["shape"], 0
    for chunk in _chunks(found):
        sizes = [(size, 0) for size in shape] + [(size, 1) for size in chunk]
        if len(chunk) != len(shape) or not all(
            isinstance(size, int) and size >= low for size, low in sizes
        ):
            raise ArtifactError(f"found shape {shape!r:.80} in chunks of {chunk!r:.80}")
        count = math.prod(-(-size // part) for size, part in zip(shape, chunk, strict=True))
        if count > most_chunks:
            raise ArtifactError(
                f"found {count:.3g} chunks, expected at most {most_chunks}; write larger ones"
            )
        values = max(values, math.prod(shape), math.prod(chunk))
    return values * max(8, _itemsize(found, codecs))


def _codecs(found: dict[str, Any]) -> Iterator[Any]:
    """Names of all codecs of an array, including those within shards."""
    if found["zarr_format"] == 2:
        for codec in (found["compressor"], *(found["filters"] or ())):
            yield from () if codec is None else (codec["id"],)
        return
    if found.get("storage_transformers"):
        raise ArtifactError("found storage transformers, expected none")
    for name, configuration in _named(found["codecs"]):
        yield name
        for key in ("codecs", "index_codecs"):
            for inner, _ in _named(configuration.get(key, ())):
                yield inner
                if inner == "sharding_indexed":
                    raise ArtifactError("found shards within shards, expected chunks")


def _named(codecs: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    for codec in codecs:
        if isinstance(codec, str):
            yield codec, {}
        else:
            yield codec["name"], codec.get("configuration", {})


def _chunks(found: dict[str, Any]) -> Iterator[list[Any]]:
    """Shapes of the chunks of an array, including those within shards."""
    if found["zarr_format"] == 2:
        yield found["chunks"]
        return
    if found["chunk_grid"]["name"] != "regular":
        raise ArtifactError("found an irregular grid of chunks, expected a regular one")
    yield found["chunk_grid"]["configuration"]["chunk_shape"]
    for name, configuration in _named(found["codecs"]):
        if name == "sharding_indexed":
            yield configuration["chunk_shape"]


def _itemsize(found: dict[str, Any], codecs: list[Any]) -> int:
    """Bytes of one value."""
    kind = found["dtype"] if found["zarr_format"] == 2 else found["data_type"]
    if isinstance(kind, dict):  # fixed-length texts
        if kind["name"] not in ("fixed_length_utf32", "null_terminated_bytes"):
            raise ArtifactError(f"found data type {kind['name']!r:.40}, expected numbers or texts")
        return int(kind["configuration"]["length_bytes"])
    if found["zarr_format"] == 3:
        if kind not in _TYPES:
            raise ArtifactError(f"found data type {kind!r:.40}, expected numbers or texts")
        return _TYPES[kind]
    dtype = np.dtype(kind) if isinstance(kind, str) else np.dtype(object)
    if dtype.kind not in "biufcSU" and (dtype.kind != "O" or "vlen-utf8" not in codecs):
        raise ArtifactError(f"found data type {kind!r:.40}, expected numbers or texts, no objects")
    return max(dtype.itemsize, 1)
