"""Inventory of the outputs of a pipeline: arrays, dimensions, sizes and state."""

import csv
import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from geonode.errors import ArtifactError, MissingArtifactError
from geonode.storage.artifact import ArrayEntry, open_artifact
from geonode.storage.document import read_document
from geonode.storage.pipeline import Output, outputs, require_there, size_of
from geonode.storage.seal import require_file

OutputKind = Literal["arrays", "weights", "document", "table", "file"]

_KINDS: dict[str, OutputKind] = {
    ".zarr": "arrays",
    ".safetensors": "weights",
    ".json": "document",
    ".csv": "table",
}
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Entry:
    """Output of a pipeline.

    Attributes:
        path: path relative to the folder of the pipeline.
        kind: file format.
        role: input of later stages, metrics or plot.
        stage: stage that writes the output.
        description: description of the stage.
        state: state by the checksums of the output; `unsealed` if it has none.
        reason: reason of damage, or what to do if absent.
        dimensions: size of every named dimension; rows and columns of a table.
        arrays: arrays of an intact output.
        bytes_on_disk: size of all its files.
        bytes_in_memory: size of all its arrays; None without arrays.
    """

    path: str
    kind: OutputKind
    role: Literal["output", "metrics", "plot"]
    stage: str
    description: str
    state: Literal["intact", "damaged", "absent", "unsealed"]
    reason: str
    dimensions: dict[str, int]
    arrays: tuple[ArrayEntry, ...]
    bytes_on_disk: int
    bytes_in_memory: int | None

    @property
    def ratio(self) -> float | None:
        """Compression ratio, memory over disk; None without arrays."""
        return self.bytes_in_memory / self.bytes_on_disk if self.bytes_in_memory else None


def inventory(root: Path) -> list[Entry]:
    """Outputs of a pipeline with verified checksums, in the order of `dvc.yaml`.

    Args:
        root: folder of `dvc.yaml`.

    Raises:
        ArtifactError: there is no pipeline.
    """
    return [_entry(root / output.path, output) for output in outputs(root)]


def kind_of(output: Output) -> OutputKind:
    """File format of an output; those that stages read are sealed, except tables."""
    return _KINDS.get(Path(output.path).suffix, "file") if output.role == "output" else "file"


def _entry(path: Path, output: Output) -> Entry:
    _LOG.debug("looking at %s", path)
    kind = kind_of(output)
    entry = Entry(
        output.path,
        kind,
        output.role,
        output.stage,
        output.description,
        state="intact",
        reason="",
        dimensions={},
        arrays=(),
        bytes_on_disk=size_of(path),
        bytes_in_memory=None,
    )
    try:
        require_there(path)
        if kind == "arrays":
            return _with_arrays(entry, *_arrays(path))
        if kind == "weights":
            return _with_arrays(entry, {}, _tensors(path))
        if kind == "document":
            read_document(path)
            return entry
        dimensions = _rows_and_columns(path) if kind == "table" else {}
        return replace(entry, state="unsealed", dimensions=dimensions)
    except MissingArtifactError as error:
        return replace(entry, state="absent", reason=str(error))
    except ArtifactError as error:
        return replace(entry, state="damaged", reason=str(error))


def _with_arrays(entry: Entry, dimensions: dict[str, int], arrays: tuple[ArrayEntry, ...]) -> Entry:
    size = sum(array.bytes_in_memory for array in arrays)
    return replace(entry, dimensions=dimensions, arrays=arrays, bytes_in_memory=size)


def _arrays(path: Path) -> tuple[dict[str, int], tuple[ArrayEntry, ...]]:
    """Sizes of the dimensions of an artifact, and its arrays."""
    artifact = open_artifact(path)
    dimensions: dict[str, int] = {}
    arrays = tuple(artifact.describe(name) for name in artifact.names)
    for array in arrays:
        dimensions |= dict(zip(array.dims, array.shape, strict=True))
    return dimensions, arrays


def _tensors(path: Path) -> tuple[ArrayEntry, ...]:
    from geonode.storage.weights import read_weights  # noqa: PLC0415 - imports torch

    tensors, _ = read_weights(path)
    return tuple(
        ArrayEntry(
            name,
            str(tensor.dtype).removeprefix("torch."),
            tuple(tensor.shape),
            dims=(),
            units="",
            long_name="",
            bytes_on_disk=tensor.nbytes,
            bytes_in_memory=tensor.nbytes,
        )
        for name, tensor in sorted(tensors.items())
    )


def _rows_and_columns(path: Path) -> dict[str, int]:
    """Size of a table without its header."""
    try:
        with require_file(path).open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream)
            columns = len(next(reader, ()))
            return {"row": sum(1 for _ in reader), "column": columns}
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ArtifactError(f"{path}: is no CSV of UTF-8 text: {error}") from error
