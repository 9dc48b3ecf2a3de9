"""Safety checks of the metadata of a Zarr store, before any library acts on them.

Zarr takes the names of codecs from the store. One of them unpickles, which runs arbitrary code, and
shapes and chunks may have any size. Only codecs that turn bytes into numbers and texts are allowed,
with sizes that fit into memory.
"""

import json
import math
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from geonode.errors import ArtifactError

CODECS = frozenset(
    {"bytes", "blosc", "crc32c", "gzip", "sharding_indexed", "transpose", "zstd"}
    | {"bz2", "delta", "fixedscaleoffset", "lz4", "lzma", "shuffle", "vlen-utf8", "zlib"}
)
"""Safe codecs; their names may have the prefix `numcodecs.`."""

LARGEST_METADATA = 2**20
"""Largest metadata of one array or group (bytes)."""

MOST_ARRAYS = 1000
"""Largest number of arrays and groups of a store."""

_FILES: dict[str, Literal[2, 3]] = {"zarr.json": 3, ".zarray": 2}
_NUMBERS_AND_TEXTS = "biufcSUT"  # kinds of NumPy


def require_plain(
    folder: Path, most_bytes: int, most_chunks: int, most_of_lines: int | None = None
) -> None:
    """Refuse a store with anything but arrays of numbers and texts, in files of its own.

    Args:
        folder: the store; none of its chunks are read.
        most_bytes: largest size of an array and of a chunk in memory, with at least eight bytes per
            value.
        most_chunks: largest number of chunks of an array.
        most_of_lines: largest size of all one-dimensional arrays together, which are read when a
            store is opened; None: `most_bytes`.

    Raises:
        ArtifactError: there are links, pipes or devices; metadata are invalid, name a codec that is
            not one of `CODECS`, objects, or a larger size than allowed; the message names the file.
        OSError: the store cannot be read.
    """
    of_lines, files = 0, []
    for file in sorted(folder.rglob("*")):
        mode = file.lstat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            found = "link" if stat.S_ISLNK(mode) else "pipe or a device"
            raise ArtifactError(
                f"{file.relative_to(folder)}: found a {found}, expected files and folders; copy "
                "the store with what its links lead to"
            )
        files += [file] if file.name in _FILES else []
    if len(files) > MOST_ARRAYS:
        raise ArtifactError(f"found {len(files)} arrays and groups, expected at most {MOST_ARRAYS}")
    for file in files:
        try:
            shape, size = _shape_and_size(file, most_chunks)
            of_lines += size if len(shape) == 1 else 0
            for bytes_, most in ((size, most_bytes), (of_lines, most_of_lines or most_bytes)):
                if bytes_ > most:
                    raise ArtifactError(
                        f"found {bytes_:.3g} bytes of shape {shape!r:.80}, expected at most "
                        f"{most:.3g}; write the store in parts"
                    )
        except ArtifactError as error:
            raise ArtifactError(f"{file.relative_to(folder)}: {error}") from error
        except OSError:
            raise
        except Exception as error:  # Zarr raises errors of many types
            raise ArtifactError(
                f"{file.relative_to(folder)}: found no metadata of an array ({error!r:.80})"
            ) from error


def _shape_and_size(file: Path, most_chunks: int) -> tuple[tuple[int, ...], int]:
    """Shape of an array, and its size or that of its largest chunk (bytes); () and 0 of a group."""
    import zarr  # noqa: PLC0415 - few files need it

    if (size := file.stat().st_size) > LARGEST_METADATA:
        raise ArtifactError(f"found {size} bytes of metadata, expected at most {LARGEST_METADATA}")
    found, version = json.loads(file.read_bytes()), _FILES[file.name]
    if version == 3 and found["node_type"] == "group":
        return (), 0
    if found.get("storage_transformers"):
        raise ArtifactError("found storage transformers, expected none")
    listed = found["codecs"] if version == 3 else [found["compressor"], *(found["filters"] or ())]
    names = [*_codecs(listed)]
    if unsafe := [name for name in names if str(name).removeprefix("numcodecs.") not in CODECS]:
        raise ArtifactError(
            f"found codec {str(unsafe[0])[:40]!r}, expected one of {', '.join(sorted(CODECS))}: "
            "others may run code; write the store again with one of them"
        )
    if names.count("sharding_indexed") > 1:
        raise ArtifactError("found shards within shards, expected chunks")
    # Only now does Zarr see the metadata, since it makes the codecs that they name.
    array = zarr.open_array(file.parent, mode="r", zarr_format=version)
    if array.dtype.kind not in _NUMBERS_AND_TEXTS and "vlen-utf8" not in names:
        raise ArtifactError(f"found data type {array.dtype}, expected numbers or texts, no objects")
    shape, values = array.shape, math.prod(array.shape)
    for chunk in filter(None, (array.chunks, array.shards)):
        if min((*shape, 0)) < 0 or min((*chunk, 1)) < 1:
            raise ArtifactError(f"found shape {shape!r:.80} in chunks of {chunk!r:.80}")
        count = math.prod(-(-size // part) for size, part in zip(shape, chunk, strict=True))
        if count > most_chunks:
            raise ArtifactError(
                f"found {count:.3g} chunks, expected at most {most_chunks}; write larger ones"
            )
        values = max(values, math.prod(chunk))
    return shape, values * max(8, array.dtype.itemsize)


def _codecs(listed: Iterable[Any]) -> Iterator[Any]:
    """Names of codecs, of both versions of the format, and of those within shards."""
    for codec in listed:
        if isinstance(codec, str):
            yield codec
        elif codec is not None:
            yield from (codec[key] for key in ("id", "name") if key in codec)
            inner = codec.get("configuration", {})
            yield from _codecs([*inner.get("codecs", ()), *inner.get("index_codecs", ())])
