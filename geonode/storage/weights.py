"""Weights of networks: safetensors files, sealed as a whole."""

import json
from pathlib import Path

import safetensors.torch
import torch
from jaxtyping import Shaped
from torch import Tensor

from geonode.errors import ArtifactError, CorruptArtifactError
from geonode.storage.atomic import write_bytes
from geonode.storage.seal import (
    LENGTH,
    UNSEALED,
    WEIGHTS_AT,
    read_sealed,
    seal,
    split_weights,
    well_formed,
)


def write_weights(
    path: Path, tensors: dict[str, Shaped[Tensor, "..."]], metadata: dict[str, str]
) -> None:
    """Write tensors and their metadata, atomically; the same input gives the same bytes.

    Tensors have any shape and device; metadata are the texts that a reader needs to use them.

    Raises:
        ArtifactError: a tensor contains NaN or infinity, `metadata` has a key `checksum`, or the
            file cannot be written.
    """
    if "checksum" in metadata:
        raise ArtifactError(f"{path}: metadata 'checksum' is taken by the seal; use another name")
    for name, tensor in tensors.items():
        if not torch.isfinite(tensor).all():
            raise ArtifactError(
                f"{path}: tensor {name!r}: contains NaN or infinity, expected finite numbers; "
                "look for the step that produced it"
            )
    copies = {  # because safetensors refuses tensors that share memory
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }
    # safetensors writes metadata in random order, so the header is written here: the checksum comes
    # first, which fixes its place, and spaces align the data to 8 bytes as the format recommends.
    header, data = split_weights(safetensors.torch.save(copies))
    text = json.dumps(
        {"__metadata__": {"checksum": UNSEALED, **metadata}, **header}, separators=(",", ":")
    )
    text += " " * (-len(text) % 8)
    content = len(text).to_bytes(LENGTH, "little") + text.encode() + data
    write_bytes(path, seal(content, WEIGHTS_AT))


def read_weights(path: Path) -> tuple[dict[str, Shaped[Tensor, "..."]], dict[str, str]]:
    """Read a file of `write_weights`: tensors on the CPU, and metadata without the checksum.

    Raises:
        MissingArtifactError: there is no such file.
        CorruptArtifactError: any byte has changed since it was written, or the file is sealed but
            contains no tensors of finite numbers.
        ArtifactError: it cannot be read.
    """
    content = read_sealed(path, WEIGHTS_AT)
    with well_formed(path, "is sealed but contains no tensors"):
        # Checks sizes against the file before it allocates memory.
        tensors = safetensors.torch.load(content)
        metadata = split_weights(content)[0]["__metadata__"]
        del metadata["checksum"]
        infinite = [name for name, tensor in tensors.items() if not tensor.isfinite().all()]
    if infinite:
        reason = "contains NaN or infinity, expected finite numbers"
        raise CorruptArtifactError(path, reason, infinite[0])
    return tensors, metadata
