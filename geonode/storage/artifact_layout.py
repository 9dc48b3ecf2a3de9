"""Layout of an artifact on disk: a sealed Zarr v3 group that xarray opens.

There are two kinds of arrays. A *stored* one is compressed (Blosc: LZ4 over shuffled bytes) in
chunks of about 1 MiB, each with its CRC-32C, packed into few shards. A *mapped* one is a single
uncompressed chunk: its file holds the little-endian C-order bytes of the array, which a reader maps
into memory, and their CRC-32C in the last four bytes.

The attributes of the root `zarr.json` list the checksum of every other file under `files`, and seal
`zarr.json` itself with `checksum`. A flipped bit anywhere, and any missing, added, truncated or
exchanged file, is found when the artifact is opened.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from geonode.storage.seal import UNSEALED

Shape = tuple[int, ...]
JSON = dict[str, Any] | list[Any] | str | int | float | bool | None

ROOT = "zarr.json"
AFTER_SEAL = '"\n  }\n}\n'  # the checksum is the last attribute, and the attributes come last
SEAL_AT = -len(UNSEALED + AFTER_SEAL)
CHUNK_BYTES = 1 << 20
CRC_BYTES = 4
HALF_WRITTEN = ".partial"  # suffix of Zarr's files until they are complete


def chunks_and_shards(shape: Shape, itemsize: int, block_dims: int) -> tuple[Shape, Shape]:
    """Shapes of the inner chunks, of about 1 MiB, and of the shards, one for each block."""
    lead, (rows, *rest) = (1,) * block_dims, shape[block_dims:]
    count = min(rows, math.ceil(rows * math.prod(rest) * itemsize / CHUNK_BYTES))
    rows_per_chunk = math.ceil(rows / count)
    # A shard consists of whole chunks, so it may extend a little beyond the array.
    rows_per_shard = rows_per_chunk * math.ceil(rows / rows_per_chunk)
    return (*lead, rows_per_chunk, *rest), (*lead, rows_per_shard, *rest)


def part_of(shape: Shape, itemsize: int) -> Shape:
    """Shape of contiguous parts of about 1 MiB or less of an array in C order."""
    part = list(shape)
    for axis in range(len(shape)):
        rest = math.prod(part[axis + 1 :]) * itemsize
        part[axis] = min(part[axis], max(1, CHUNK_BYTES // rest))
        if part[axis] > 1:
            break
    return tuple(part)


def ceil_divide(size: int, part: int) -> int:
    """Quotient rounded up."""
    return -(-size // part)


def fill_value(dtype: np.dtype) -> float | int:
    """Value of a chunk that was never written: NaN for floating-point numbers, else 0."""
    return math.nan if dtype.kind == "f" else 0


def chunk_file(folder: Path, array: zarr.Array) -> Path:
    """File of the only chunk of a mapped array."""
    return folder / array.metadata.encode_chunk_key((0,) * array.ndim)


def sealed_files(folder: Path) -> list[str]:
    """Files of an artifact except its root `zarr.json`, relative to `folder`."""
    files = (file for file in folder.rglob("*") if not file.is_dir())
    return sorted({file.relative_to(folder).as_posix() for file in files} - {ROOT})


def array_and_chunk(file: str) -> tuple[str, str]:
    """Array and chunk of a file: `features/c/0/1` is chunk `0/1` of array `features`."""
    name, slash, part = file.partition("/")
    return (name if slash else ""), (part.removeprefix("c/") if part.startswith("c/") else "")
