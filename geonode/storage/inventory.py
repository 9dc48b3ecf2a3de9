"""Artifacts of a folder: what they hold, whether they are intact, and whether they belong together.

DVC says whether code, parameters or files have changed since they were recorded (`dvc status`), by
size and time of a file. What is here reads every byte, and the seals that artifacts carry.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from geonode.errors import ArtifactError, CorruptArtifactError
from geonode.progress import Progress, silent
from geonode.storage.artifact import ArrayEntry, damages, open_artifact
from geonode.storage.lineage import read_seal, strangers

KINDS = {".zarr": "Zarr group", ".safetensors": "weights (safetensors)"}
"""Kinds of artifacts by the suffix of their names."""


@dataclass(frozen=True)
class Entry:
    """Artifact of a folder."""

    path: Path
    kind: str  # one of `KINDS`
    damage: str  # what is wrong with it; empty if it is intact
    arrays: tuple[ArrayEntry, ...]  # its arrays; none of a damaged one
    bytes_on_disk: int  # size of all its files

    @property
    def bytes_in_memory(self) -> int:
        """Size of all its arrays."""
        return sum(array.bytes_in_memory for array in self.arrays)

    @property
    def dimensions(self) -> dict[str, int]:
        """Size of every named dimension."""
        return {d: n for a in self.arrays for d, n in zip(a.dims, a.shape, strict=bool(a.dims))}


class Problem(NamedTuple):
    """Problem of an artifact."""

    path: Path
    array: str  # name of the array, if the problem is in one
    message: str  # one line: where, what, and what to do


def artifacts(folder: Path) -> list[Path]:
    """Paths of all artifacts of a folder, by name.

    Raises:
        ArtifactError: there is no such folder, or no artifact in it.
    """
    found = sorted(path for suffix in KINDS for path in folder.glob(f"*{suffix}"))
    if not found:
        raise ArtifactError(
            f"{folder}: found no {' and no '.join(KINDS)}, expected the folder of artifacts; give "
            "it, or run `dvc repro` first"
        )
    return found


def inventory(folder: Path) -> list[Entry]:
    """Artifacts of a folder, with verified checksums.

    Raises:
        ArtifactError: there is none.
    """
    found = []
    for path in artifacts(folder):
        arrays, problems = _read(path)
        damage = problems[0].message if problems else ""
        found.append(Entry(path, KINDS[path.suffix], damage, arrays, size_of(path)))
    return found


def verify(folder: Path, report: Progress = silent) -> Iterator[Problem]:
    """Read every byte of the artifacts of a folder, and yield what is wrong with them.

    Checked are the checksums, and that every artifact was made from the others that are there now.

    Args:
        folder: folder of the artifacts.
        report: called with the size of every artifact that was read.

    Raises:
        ArtifactError: there is none.
    """
    seals, paths = {}, artifacts(folder)
    for path in paths:
        _, problems = _read(path)
        yield from problems
        if not problems:
            seals[path] = read_seal(path)
        report(size_of(path))
    for path, seal in seals.items():
        sources = [folder / name for name in seal.made_from]
        for source in sources:
            if source not in paths:
                yield Problem(path, "", f"{path}: was made from {source}, which is not there")
        for message in strangers(path, [one for one in sources if one in seals], seals):
            yield Problem(path, "", message)


def size_of(path: Path) -> int:
    """Size of a file or of all files of a folder (bytes); 0 if there is nothing."""
    try:
        files = path.rglob("*") if path.is_dir() else [path]
        return sum(file.stat().st_size for file in files if file.is_file())
    except OSError:  # reported when the files are read
        return 0


def _read(path: Path) -> tuple[tuple[ArrayEntry, ...], list[Problem]]:
    """Arrays of an artifact after checking every byte of it, or all that is wrong with it."""
    errors: Sequence[ArtifactError]
    try:
        read_seal(path)
        if path.suffix == ".safetensors":
            return _tensors(path), []
        artifact = open_artifact(path)
        return tuple(artifact.describe(name) for name in artifact.names), []
    except CorruptArtifactError as error:
        errors = (list(damages(path)) if path.suffix == ".zarr" else []) or [error]
    except ArtifactError as error:
        errors = [error]
    return (), [Problem(path, getattr(error, "array", ""), str(error)) for error in errors]


def _tensors(path: Path) -> tuple[ArrayEntry, ...]:
    from geonode.storage.weights import read_weights  # noqa: PLC0415 - imports torch

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
        for name, tensor in sorted(read_weights(path)[0].items())
    )
