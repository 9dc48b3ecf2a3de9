"""Verification of the outputs of a pipeline: intact, and consistent with each other."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from geonode.errors import ArtifactError, CorruptArtifactError, MissingArtifactError
from geonode.progress import Progress, silent
from geonode.storage.artifact import Artifact, damages, open_artifact
from geonode.storage.document import read_document
from geonode.storage.inventory import kind_of
from geonode.storage.lineage import read_seal, strangers
from geonode.storage.pipeline import (
    LOCK,
    Output,
    Record,
    damaged_in_cache,
    fingerprint,
    outputs,
    records,
    require_there,
    size_of,
)

Lock = dict[str, Record]
"""Records of `dvc.lock` by stage."""

_COMPARED = ("nfiles", "size", "md5")
_SEALED = ("arrays", "weights")  # kinds whose seal names their inputs
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Finding:
    """Problem of an output.

    Attributes:
        path: path of the output, relative to the folder of the pipeline.
        array: name of the array, if the problem is in one.
        problem: `damaged` by its own checksums or a number that is not finite; `absent`; `changed`
            since DVC recorded it; `stale`, made from other than the present inputs; `mismatched`
            with another artifact.
        message: one line: where, what, and what to do.
    """

    path: str
    array: str
    problem: Literal["damaged", "absent", "changed", "stale", "mismatched"]
    message: str


def verify(root: Path, report: Progress = silent) -> Iterator[Finding]:
    """Read every byte of every output, and yield the problems.

    An output that is damaged by its own checksums is not compared with `dvc.lock` as well. Changed
    code or parameters are reported by `dvc status`.

    Args:
        root: folder of `dvc.yaml`.
        report: called with units of work; `workload` is their sum.

    Raises:
        ArtifactError: there is no pipeline.
    """
    declared = outputs(root)
    try:
        lock = records(root)
    except ArtifactError as error:
        lock = None
        yield Finding(LOCK, "", "absent" if not (root / LOCK).exists() else "damaged", str(error))
    intact = []
    for output in declared:
        _LOG.debug("verifying %s", root / output.path)
        found = list(_contents(root / output.path, output))
        report(size_of(root / output.path))
        if not found:
            intact.append(output)
            if lock is not None:
                found = list(_against_lock(root / output.path, output, lock, report))
        yield from (_with_cache(root, finding, output, lock) for finding in found)
    yield from _agreement(root, intact)
    stale = list(_lineage(root, intact))
    yield from stale
    if lock is not None:
        reported = {finding.path for finding in stale}
        others = [output for output in declared if output.path not in reported]
        yield from _lineage_of_lock(root, others, lock)


def damaged(root: Path) -> Iterator[Finding]:
    """Outputs that fail their own seals, without the other checks of `verify`.

    DVC does not notice these, as it reads no file of unchanged time and size.

    Args:
        root: folder of `dvc.yaml`.

    Raises:
        ArtifactError: there is no pipeline, or `dvc.lock` is invalid.
    """
    lock = records(root) if (root / LOCK).exists() else None
    for output in outputs(root):
        for finding in _contents(root / output.path, output, numbers=False):
            if finding.problem != "absent":
                yield _with_cache(root, finding, output, lock)


def workload(root: Path) -> int:
    """Units of work of `verify`: twice the bytes of all outputs.

    Raises:
        ArtifactError: there is no pipeline.
    """
    return 2 * sum(size_of(root / output.path) for output in outputs(root))


def _with_cache(root: Path, finding: Finding, output: Output, lock: Lock | None) -> Finding:
    """Finding with a note if the cache of DVC would restore a damaged copy."""
    record = lock[output.stage].outs.get(output.path) if lock and output.stage in lock else None
    damaged = damaged_in_cache(root, record) if record else []
    if not damaged:
        return finding
    more = f" and {len(damaged) - 1} more" if len(damaged) > 1 else ""
    note = f"DVC would restore a copy that is damaged too: remove {damaged[0]}{more} first"
    return replace(finding, message=f"{finding.message}; {note}")


def _contents(path: Path, output: Output, *, numbers: bool = True) -> Iterator[Finding]:
    """Problems by the checksums of an output itself, and numbers that are not finite."""
    kind = kind_of(output)
    try:
        require_there(path)
        if kind in _SEALED:
            read_seal(path)
        if kind == "arrays":
            yield from _arrays(path, output.path, numbers=numbers)
        elif kind == "weights" and numbers:
            from geonode.storage.weights import read_weights  # noqa: PLC0415 - imports torch

            read_weights(path)
        elif kind == "document":
            read_document(path)
    except MissingArtifactError as error:
        yield Finding(output.path, "", "absent", str(error))
    except ArtifactError as error:
        array = error.array if isinstance(error, CorruptArtifactError) else ""
        yield Finding(output.path, array, "damaged", str(error))


def _arrays(path: Path, shown: str, *, numbers: bool) -> Iterator[Finding]:
    whole = True
    for error in damages(path):
        whole = False
        yield Finding(shown, error.array, "damaged", str(error))
    if whole and numbers:
        artifact = open_artifact(path)
        for name in artifact.names:
            if (index := artifact.first_not_finite(name)) is not None:
                reason = f"holds NaN or infinity at index {index}, expected finite numbers"
                message = str(CorruptArtifactError(path, reason, name))
                yield Finding(shown, name, "damaged", message)


def _against_lock(path: Path, output: Output, lock: Lock, report: Progress) -> Iterator[Finding]:
    record = lock[output.stage].outs.get(output.path) if output.stage in lock else None
    if record is None or record.get("hash") != "md5":
        message = f"{path}: {LOCK} keeps no MD5 of it; run `dvc repro`"
        yield Finding(output.path, "", "changed", message)
        return
    try:
        found = fingerprint(path, report)
    except ArtifactError as error:
        yield Finding(output.path, "", "damaged", str(error))
        return
    for key in _COMPARED:
        if found.get(key) != record.get(key):
            message = (
                f"{path}: found {key} {found.get(key)}, expected {record.get(key)} as in {LOCK}; "
                f"remove {path} and run `dvc repro` to write it again"
            )
            yield Finding(output.path, "", "changed", message)
            return


def _agreement(root: Path, intact: list[Output]) -> Iterator[Finding]:
    """Dimensions of one name with different sizes or coordinates in two artifacts."""
    sizes: dict[str, tuple[int, Path]] = {}
    coordinates: dict[str, tuple[np.ndarray, Path]] = {}
    for output in intact:
        if kind_of(output) != "arrays":
            continue
        path = root / output.path
        artifact = open_artifact(path)
        for dim, (size, name, is_coordinate) in _dimensions(artifact).items():
            expected, first = sizes.setdefault(dim, (size, path))
            reason = ""
            if size != expected:
                reason = f"found size {size} of {dim!r}, expected {expected}"
            elif is_coordinate:
                known, first = coordinates.setdefault(dim, (artifact[dim], path))
                differing = np.flatnonzero(artifact[dim] != known)
                if differing.size:
                    at = int(differing[0])
                    reason = f"found {artifact[dim][at]} at index {at}, expected {known[at]}"
            if reason:
                message = f"{path}: array {name!r}: {reason} as in {first}; run `dvc repro`"
                yield Finding(output.path, name, "mismatched", message)


def _dimensions(artifact: Artifact) -> dict[str, tuple[int, str, bool]]:
    """Size of every dimension, an array along it, and whether that is its coordinate.

    The name of an auxiliary coordinate may be a dimension elsewhere, so only the coordinate of the
    dimension itself counts.
    """
    found: dict[str, tuple[int, str, bool]] = {}
    for name in artifact.names:
        about = artifact.describe(name)
        is_coordinate = about.dims == (name,)
        for dim, size in zip(about.dims, about.shape, strict=True):
            if is_coordinate or dim not in found:
                found[dim] = size, name, is_coordinate
    return found


def _lineage(root: Path, intact: list[Output]) -> Iterator[Finding]:
    """Sealed outputs whose seal names other than the present inputs."""
    sealed = {out.path: out for out in intact if kind_of(out) in _SEALED}
    seals = {root / path: read_seal(root / path) for path in sealed}
    for path, output in sealed.items():
        sources = [root / source for source in output.inputs if source in sealed]
        for message in () if output.frozen else strangers(root / path, sources, seals):
            yield Finding(path, "", "stale", message)


def _lineage_of_lock(root: Path, declared: list[Output], lock: Lock) -> Iterator[Finding]:
    """Outputs of stages that DVC last ran on other than the present inputs."""
    made = {
        path: (maker, record) for maker, kept in lock.items() for path, record in kept.outs.items()
    }
    for output in declared:
        if output.frozen or output.stage not in lock:
            continue
        for path, record in lock[output.stage].deps.items():
            maker, written = made.get(path, ("", record))
            if any(record.get(key) != written.get(key) for key in _COMPARED):
                message = (
                    f"{root / output.path}: was made from another {path} than stage {maker!r} "
                    "has written since; run `dvc repro`"
                )
                yield Finding(output.path, "", "stale", message)
