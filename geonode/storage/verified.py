"""Artifacts of a folder: their contents, whether they are intact and belong together.

DVC shows whether code, parameters or files have changed since they were recorded (`dvc status`), by
size and time of a file. What is here reads every byte, and the seals that artifacts carry.
"""

from dataclasses import dataclass
from pathlib import Path

from geonode.errors import ArtifactError, CorruptArtifactError
from geonode.progress import Progress, silent
from geonode.storage.artifact import ArrayEntry, damages, open_artifact
from geonode.storage.lineage import read_seal, strangers


@dataclass(frozen=True)
class Verified:
    """Artifact of a folder, after every byte of it was read."""

    path: Path
    bytes_on_disk: int  # of all its files
    arrays: tuple[ArrayEntry, ...]  # none of a damaged one
    problems: list[ArtifactError]


def artifacts(folder: Path) -> list[Path]:
    """Paths of all artifacts of a folder, Zarr groups and weights, by name.

    Raises:
        ArtifactError: there is no such folder, or no artifact in it.
    """
    found = sorted([*folder.glob("*.zarr"), *folder.glob("*.safetensors")])
    if not found:
        raise ArtifactError(
            f"{folder}: found no .zarr and no .safetensors, expected the folder of artifacts; give "
            "it, or run `dvc repro` first"
        )
    return found


def verified(folder: Path, report: Progress = silent) -> list[Verified]:
    """Read every byte of the artifacts of a folder, and find what is wrong with them.

    Checked are the checksums, and that every artifact was made from the others that are there now.
    `report` gets the size of every artifact that was read.

    Raises:
        ArtifactError: there is none.
    """
    found, seals = [], {}
    for path in artifacts(folder):
        size = size_of(path)
        arrays, problems = _read(path)
        if not problems:
            seals[path] = read_seal(path)
        found.append(Verified(path, size, arrays, problems))
        report(size)
    present = {one.path for one in found}
    for one in found:
        if one.path in seals:
            path, sources = one.path, [folder / name for name in seals[one.path].made_from]
            messages = [
                f"{path}: was made from {source}, which is not there"
                for source in sources
                if source not in present
            ]
            messages += strangers(path, [source for source in sources if source in seals], seals)
            one.problems.extend(map(ArtifactError, messages))
    return found


def size_of(path: Path) -> int:
    """Size of a file or of all files of a folder (bytes); 0 if there is nothing."""
    try:
        files = path.rglob("*") if path.is_dir() else [path]
        return sum(file.stat().st_size for file in files if file.is_file())
    except OSError:  # reported when the files are read
        return 0


def _read(path: Path) -> tuple[tuple[ArrayEntry, ...], list[ArtifactError]]:
    """Arrays of an artifact after checking every byte of it, or all that is wrong with it."""
    try:
        read_seal(path)
        if path.suffix == ".zarr":
            return tuple(open_artifact(path).arrays.values()), []
        from geonode.storage.weights import read_weights  # noqa: PLC0415 - imports torch

        return tuple(
            ArrayEntry(name, str(tensor.dtype).removeprefix("torch."), (*tensor.shape,), (), "", "")
            for name, tensor in sorted(read_weights(path)[0].items())
        ), []
    except CorruptArtifactError as error:
        return (), [*(damages(path) if path.suffix == ".zarr" else ())] or [error]
    except ArtifactError as error:
        return (), [error]
