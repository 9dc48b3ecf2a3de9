"""Checksums, and byte strings that carry their own.

A seal is eight hexadecimal digits at a known offset of a byte string: the checksum of that string
with zeros in their place. The offset is never the result of a search, so that no content can be
read as the seal.

The checksum is CRC-32 and deliberately not the CRC-32C that Zarr appends to its chunks: any bytes
followed by their own CRC-32C have one and the same CRC-32C, so two intact chunks of one length
could be swapped unnoticed. CRC-32 too finds every flipped bit and every burst of up to 32 bits.
"""

import errno
import json
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from geonode.errors import ArtifactError, CorruptArtifactError, MissingArtifactError

UNSEALED = "00000000"

LENGTH = 8
"""Bytes of the length of the JSON header, with which a safetensors file opens (little-endian)."""

WEIGHTS_AT = LENGTH + len('{"__metadata__":{"checksum":"')
"""Place of the seal of weights, which are safetensors files."""

_BLOCK = 1 << 20


def require_file(path: Path) -> Path:
    """Refuse pipes and devices, on which opening would wait; return the path.

    Raises:
        OSError: there is nothing at the path, or a pipe or device.
    """
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(errno.EINVAL, "found a pipe or a device, expected a file", str(path))
    return path


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Context in which a refusal of the operating system names the artifact that is read.

    Raises:
        MissingArtifactError: there is no such file.
        ArtifactError: it cannot be read.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise MissingArtifactError(path) from error
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read: {error}") from error


@contextmanager
def well_formed(path: Path, reason: str, array: str = "") -> Iterator[None]:
    """Context in which sealed content is looked into, which may be of something else.

    Raises:
        CorruptArtifactError: it is, for this reason, in an array if one is named.
    """
    try:
        yield
    except (
        *(LookupError, AttributeError, TypeError, ValueError, RuntimeError, OSError),
        SafetensorError,
    ) as error:
        raise CorruptArtifactError(path, f"{reason} ({error!r:.200})", array) from error


def file_checksum(path: Path) -> str:
    """CRC-32 of a file, as eight lower-case hexadecimal digits.

    Raises:
        OSError: the file cannot be read.
    """
    crc = 0
    require_file(path)
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            crc = zlib.crc32(block, crc)
    return f"{crc:08x}"


def seal(content: bytes, at: int) -> bytes:
    """Put the checksum of `content` into it; what is sealed already stays as it is.

    Args:
        content: the bytes to seal; the eight bytes of the seal may be anything.
        at: offset of the seal, from the end if negative.
    """
    head, tail = content[:at], content[at:][len(UNSEALED) :]
    crc = zlib.crc32(head + UNSEALED.encode() + tail)
    return head + f"{crc:08x}".encode() + tail


def read_sealed(path: Path, at: int) -> bytes:
    """Read a file that is sealed as a whole.

    Raises:
        MissingArtifactError: there is no such file.
        CorruptArtifactError: any byte has changed since it was written.
        ArtifactError: it cannot be read.
    """
    with readable(path):
        content = require_file(path).read_bytes()
    if seal(content, at) != content:
        raise CorruptArtifactError(path, "the file fails its checksum")
    return content


def read_weights_metadata(path: Path) -> dict[str, str]:
    """Metadata of a file of `geonode.storage.weights`, with the checksum of the file.

    Raises:
        MissingArtifactError: there is no such file.
        CorruptArtifactError: any byte has changed since it was written.
        ArtifactError: it cannot be read.
    """
    content = read_sealed(path, WEIGHTS_AT)
    with well_formed(path, "is sealed but contains no metadata"):
        metadata: dict[str, str] = split_weights(content)[0]["__metadata__"]
        if not all(isinstance(text, str) for text in (metadata["checksum"], *metadata.values())):
            raise TypeError("no texts")
    return metadata


def split_weights(content: bytes) -> tuple[dict, bytes]:
    """JSON header and tensor data of a safetensors file."""
    start = LENGTH + int.from_bytes(content[:LENGTH], "little")
    return json.loads(content[LENGTH:start]), content[start:]
