"""Header of the weights of networks, a sealed safetensors file; read without importing torch."""

import json
from pathlib import Path

from geonode.errors import CorruptArtifactError
from geonode.storage.seal import read_sealed

LENGTH = 8
"""Bytes of the length of the JSON header, with which a safetensors file opens (little-endian)."""

SEAL_AT = LENGTH + len('{"__metadata__":{"checksum":"')
"""Place of the checksum."""


def read_metadata(path: Path) -> dict[str, str]:
    """Metadata of a file of `geonode.storage.weights`, with the checksum of the file.

    Raises:
        MissingArtifactError: there is no such file.
        CorruptArtifactError: any byte has changed since it was written.
        ArtifactError: it cannot be read.
    """
    try:
        header, _ = split(read_sealed(path, SEAL_AT))
        metadata: dict[str, str] = header["__metadata__"]
        if not all(isinstance(text, str) for text in (metadata["checksum"], *metadata.values())):
            raise TypeError("no texts")
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        reason = f"is sealed but holds no metadata ({error!r:.80})"
        raise CorruptArtifactError(path, reason) from error
    return metadata


def split(content: bytes) -> tuple[dict, bytes]:
    """JSON header and tensor data of a safetensors file."""
    start = LENGTH + int.from_bytes(content[:LENGTH], "little")
    return json.loads(content[LENGTH:start]), content[start:]
