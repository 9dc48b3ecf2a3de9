"""Outputs of a DVC pipeline, as declared in `dvc.yaml` and recorded in `dvc.lock`.

`dvc.yaml` declares the outputs of every stage; those of `type: metrics` are for people. `dvc.lock`
records the MD5, size and number of files of each output and input at the end of the stage.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ruamel.yaml.error import YAMLError

from geonode.errors import ArtifactError, MissingArtifactError
from geonode.parameters_file import parse_yaml
from geonode.progress import Progress, silent
from geonode.storage.seal import require_file

LOCK = "dvc.lock"
_DECLARED = "dvc.yaml"
_ROLES: dict[str, Literal["output", "metrics", "plot"]] = {
    "outs": "output",
    "metrics": "metrics",
    "plots": "plot",
}
_UNREAD = ("foreach", "matrix", "wdir")  # keys that change the meaning of paths


@dataclass(frozen=True)
class Output:
    """File or folder that a stage writes.

    Attributes:
        path: path relative to the folder of the pipeline.
        stage: name of the stage.
        description: description of the stage.
        role: input of later stages, metrics or plot.
        frozen: whether DVC never reruns the stage.
        inputs: declared paths that the stage reads.
    """

    path: str
    stage: str
    description: str
    role: Literal["output", "metrics", "plot"]
    frozen: bool
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Record:
    """Record of a stage in `dvc.lock`: fingerprints of its outputs and inputs by path."""

    outs: dict[str, dict[str, Any]]
    deps: dict[str, dict[str, Any]]


def outputs(root: Path) -> list[Output]:
    """Outputs of all stages of a pipeline, in the order of `dvc.yaml`.

    Args:
        root: folder of `dvc.yaml`.

    Raises:
        ArtifactError: there is no pipeline, or its paths contain variables.
    """
    file = root / _DECLARED
    if not file.is_file():
        raise ArtifactError(f"{root}: found no {_DECLARED}, expected a pipeline; give its folder")
    found = []
    for name, stage in _stages(file).items():
        if taken := [key for key in _UNREAD if key in stage]:
            raise ArtifactError(
                f"{file}: stage {name!r}: found {taken[0]!r}, expected paths as they are"
            )
        description, frozen = str(stage.get("desc", "")), bool(stage.get("frozen", False))
        inputs = tuple(path for path, _ in _paths(stage.get("deps") or []) if path is not None)
        for key, usual in _ROLES.items():
            for path, options in _paths(stage.get(key) or []):
                role = _ROLES.get(str(options.get("type")), usual)
                if path is None or "${" in path:
                    raise ArtifactError(
                        f"{file}: stage {name!r}: {key}: found {path!r}, expected paths as they are"
                    )
                found.append(Output(path, name, description, role, frozen, inputs))
    return found


def records(root: Path) -> dict[str, Record]:
    """Records of `dvc.lock` by stage.

    Raises:
        ArtifactError: there is no `dvc.lock`, or it is invalid.
    """
    file = root / LOCK
    if not file.is_file():
        raise ArtifactError(f"{file}: not found; run `dvc repro` first")
    try:
        return {
            name: Record(
                *({item["path"]: item for item in stage.get(key, ())} for key in ("outs", "deps"))
            )
            for name, stage in _stages(file).items()
        }
    except (KeyError, TypeError) as error:
        raise ArtifactError(f"{file}: found a stage that DVC has not written: {error!r}") from error


def fingerprint(path: Path, report: Progress = silent) -> dict[str, Any]:
    """MD5, size and, for a folder, number of files, from reading every byte.

    The MD5 of a folder is that of a JSON list of the MD5 and path of every file, and ends in
    `.dir` (dvc-data, `hashfile/tree.py`). DVC itself takes the MD5 of a file of unchanged time from
    a database.

    Args:
        path: a file or a folder.
        report: called with the size of every file that was read.

    Raises:
        ArtifactError: the operating system refuses.
    """
    try:
        if not path.is_dir():
            return {"md5": _md5(path, report), "size": path.stat().st_size}
        files = sorted(file for file in path.rglob("*") if not file.is_dir())
        names = [file.relative_to(path).as_posix() for file in files]
        listed = [
            {"md5": _md5(file, report), "relpath": name}
            for name, file in sorted(zip(names, files, strict=True))
        ]
        digest = hashlib.md5(json.dumps(listed).encode(), usedforsecurity=False).hexdigest()
        size = sum(file.stat().st_size for file in files)
        return {"md5": f"{digest}.dir", "size": size, "nfiles": len(files)}
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read: {error}") from error


def damaged_in_cache(root: Path, record: dict[str, Any]) -> list[Path]:
    """Damaged files in the cache of DVC, which `dvc repro` would restore.

    Args:
        root: folder of `dvc.yaml`, with the cache in the default place.
        record: fingerprint of an output in a `Record`.
    """
    md5 = str(record.get("md5", ""))
    entry = root / ".dvc" / "cache" / "files" / "md5" / md5[:2] / md5[2:]
    if len(md5) < 3 or not entry.is_file():
        return []
    if _md5(entry, silent) != md5.removesuffix(".dir"):
        return [entry]
    if not md5.endswith(".dir"):
        return []
    listed = json.loads(entry.read_bytes())
    return [wrong for item in listed for wrong in damaged_in_cache(root, {"md5": item["md5"]})]


def require_there(path: Path) -> None:
    """Refuse an absent or inaccessible output.

    Raises:
        MissingArtifactError: there is nothing at the path.
        ArtifactError: the operating system refuses.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise MissingArtifactError(path) from error
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read: {error}") from error


def size_of(path: Path) -> int:
    """Size of a file or of all files of a folder (bytes); 0 if there is nothing."""
    try:
        files = path.rglob("*") if path.is_dir() else [path]
        return sum(file.stat().st_size for file in files if file.is_file())
    except OSError:  # reported when the files are read
        return 0


def _paths(declared: Any) -> Iterator[tuple[str | None, dict[str, Any]]]:
    """Paths of a list of outputs, each with its options; None for anything else."""
    for entry in declared if isinstance(declared, list) else [None]:
        path, options = (
            next(iter(entry.items()), (None, None)) if isinstance(entry, dict) else (entry, None)
        )
        yield path if isinstance(path, str) else None, options if isinstance(options, dict) else {}


def _md5(file: Path, report: Progress) -> str:
    with require_file(file).open("rb") as stream:
        digest = hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False))
    report(file.stat().st_size)
    return digest.hexdigest()


def _stages(file: Path) -> dict[str, dict[str, Any]]:
    try:
        content = parse_yaml(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ArtifactError(f"{file}: cannot be read: {error}") from error
    except (YAMLError, ValueError) as error:  # ruamel.yaml raises ValueError for bad numbers
        raise ArtifactError(f"{file}: is no YAML: {' '.join(str(error).split())}") from error
    stages = content.get("stages") if isinstance(content, dict) else None
    if not isinstance(stages, dict) or not all(isinstance(s, dict) for s in stages.values()):
        raise ArtifactError(f"{file}: found no mapping of stages, expected a file of DVC")
    return stages
