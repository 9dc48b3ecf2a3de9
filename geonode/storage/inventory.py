"""What the outputs of a pipeline hold: arrays with their dimensions, sizes, and whether intact."""

import csv
import logging
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from geonode.errors import ArtifactError, MissingArtifactError
from geonode.storage.artifact import open_artifact
from geonode.storage.document import read_document
from geonode.storage.pipeline import Output, outputs, require_there, size_of
from geonode.storage.seal import require_file
from geonode.storage.weights import read_weights

Kind = Literal["arrays", "weights", "document", "table", "file"]

_KINDS: dict[str, Kind] = {
    ".zarr": "arrays",
    ".safetensors": "weights",
    ".json": "document",
    ".csv": "table",
}
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class ArrayEntry:
    """An array of an artifact.

    Attributes:
        name: of the array.
        dtype: of the numbers.
        shape: size of every dimension.
        dims: name of every dimension; weights have none.
        units: of the values; empty for weights.
        long_name: label of the quantity; empty for weights.
        bytes_on_disk: as it is stored.
        bytes_in_memory: as it is computed with.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    dims: tuple[str, ...]
    units: str
    long_name: str
    bytes_on_disk: int
    bytes_in_memory: int


@dataclass(frozen=True)
class Entry:
    """An output of a pipeline.

    Attributes:
        path: relative to the folder of the pipeline.
        kind: how it is written.
        role: what later stages read, or figures and numbers for people.
        stage: the stage that writes it.
        description: what that stage does.
        state: whether it is as it was written; `unsealed` where it has no checksums of its own.
        reason: why it is damaged, or what to do where it is absent.
        dimensions: size of every named dimension; rows and columns of a table.
        arrays: what it holds, if it is intact.
        bytes_on_disk: of all its files.
        bytes_in_memory: of all its arrays; None where there are none.
    """

    path: str
    kind: Kind
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
        """How many times smaller than its arrays it is on disk; None where there are none."""
        return self.bytes_in_memory / self.bytes_on_disk if self.bytes_in_memory else None


def inventory(root: Path) -> list[Entry]:
    """Every output of a pipeline, in the order of `dvc.yaml`; checksums are checked.

    Args:
        root: folder of `dvc.yaml`.

    Raises:
        ArtifactError: there is no pipeline.
    """
    return [_entry(root / output.path, output) for output in outputs(root)]


def kind_of(output: Output) -> Kind:
    """How an output is written. What stages read from each other is sealed, but for tables."""
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
    arrays = []
    for name in artifact.names:
        about = artifact.describe(name)
        dimensions |= dict(zip(about.dims, about.shape, strict=True))
        arrays.append(
            ArrayEntry(
                name,
                str(about.dtype),
                about.shape,
                about.dims,
                about.units,
                about.long_name,
                about.stored_bytes,
                math.prod(about.shape) * about.dtype.itemsize,
            )
        )
    return dimensions, tuple(arrays)


def _tensors(path: Path) -> tuple[ArrayEntry, ...]:
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
    """Size of a table, its header not counted."""
    try:
        with require_file(path).open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream)
            columns = len(next(reader, ()))
            return {"row": sum(1 for _ in reader), "column": columns}
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ArtifactError(f"{path}: is no CSV of UTF-8 text: {error}") from error
