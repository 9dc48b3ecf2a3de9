"""Lineage of artifacts: the inputs of each, and whether the present artifacts belong together.

An artifact is identified by the checksum of its seal, which depends on its content alone. A writer
stores, by file name, the checksums of the artifacts that it computed from. As these are sealed too,
the last artifact of a run identifies all earlier ones.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from geonode.errors import ArtifactError
from geonode.storage.artifact import read_attributes
from geonode.storage.seal import read_weights_metadata, well_formed

PACKAGE = Path(__file__).parents[1]

NO_INPUTS: Mapping[str, str] = {}
"""Lineage of an artifact that was made from no other."""


class Seal(NamedTuple):
    """Seal of an artifact."""

    checksum: str  # identity of the artifact, eight hexadecimal digits
    made_from: dict[str, str]  # checksums of its inputs by file name; empty if none are stored


@contextmanager
def consistent_artifacts(*paths: Path) -> Iterator[dict[str, str]]:
    """Context in which artifacts of one run are read.

    Args:
        paths: Zarr artifacts and weights in the order of the pipeline; each was made from all
            earlier ones.

    Yields:
        Their checksums by file name, the lineage of an artifact computed from them.

    Raises:
        MissingArtifactError, CorruptArtifactError: as `read_seal`.
        ArtifactError: an artifact was made from another run, or was replaced meanwhile.
    """
    seals = {path: read_seal(path) for path in paths}
    for place, path in enumerate(paths):
        for message in strangers(path, paths[:place], seals):
            raise ArtifactError(message)
    yield {path.name: seal.checksum for path, seal in seals.items()}
    for path, seal in seals.items():
        if read_seal(path) != seal:
            raise ArtifactError(f"{path}: was replaced by another while it was read; run again")


def read_seal(path: Path) -> Seal:
    """Read the seal of an artifact; nothing else of Zarr artifacts is read or checked.

    Raises:
        MissingArtifactError: there is no artifact.
        CorruptArtifactError: the seal is damaged, or its lineage is malformed.
        ArtifactError: the operating system refuses.
    """
    of_weights = path.suffix == ".safetensors"
    attributes: dict[str, Any] = (read_weights_metadata if of_weights else read_attributes)(path)
    found = attributes.get("made_from", {})
    with well_formed(path, "is sealed but does not name what it was made from"):
        made_from = json.loads(found) if isinstance(found, str) else found
        if not all(isinstance(checksum, str) for checksum in made_from.values()):
            raise TypeError("no checksums")
    return Seal(attributes["checksum"], made_from)


def strangers(path: Path, sources: Iterable[Path], seals: Mapping[Path, Seal]) -> Iterator[str]:
    """Messages about present inputs from which an artifact was not made."""
    for source in sources:
        expected = seals[source].checksum
        found = seals[path].made_from.get(source.name, "none")
        if found != expected:
            yield (
                f"{path}: found that it was made from {source.name} of checksum {found}, expected "
                f"{expected} of {source}; one of the two is of another run: run `dvc repro`"
            )


@cache
def code_digest() -> str:
    """SHA-256 of the code of this package, and of the weights in it."""
    digest = hashlib.sha256()
    for file in sorted(
        path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".safetensors")
    ):
        digest.update(file.relative_to(PACKAGE).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()
