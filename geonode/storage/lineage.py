"""From which other artifacts each was made, and whether those at hand belong together.

An artifact is known by the checksum of its seal: the same content has the same one, whoever wrote
it and when. A writer keeps, by file name, those of the artifacts that it computed from; as they are
part of what is sealed, whoever knows the last artifact of a run knows all that are before it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from geonode.errors import ArtifactError, CorruptArtifactError
from geonode.storage.artifact import read_attributes
from geonode.storage.weights import read_metadata

NOTHING: Mapping[str, str] = {}
"""Of what is made from no other artifact."""


class Seal(NamedTuple):
    """What the seal of an artifact keeps of it.

    Attributes:
        checksum: by which it is known, eight hexadecimal digits.
        made_from: by file name, the checksums of what it was made from; empty if it does not say.
    """

    checksum: str
    made_from: dict[str, str]


@contextmanager
def consistent_artifacts(*paths: Path) -> Iterator[dict[str, str]]:
    """Read artifacts that belong together, all of one run, inside.

    Args:
        paths: Zarr artifacts and weights in the order of the pipeline: each was made from all that
            stand before it.

    Yields:
        Their checksums by file name: what an artifact that is computed from them was made from.

    Raises:
        MissingArtifactError, CorruptArtifactError: as `read_seal`.
        ArtifactError: one was made from another than is there, or was replaced meanwhile.
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
    """What the seal of an artifact keeps; of Zarr artifacts nothing else is read or checked.

    Raises:
        MissingArtifactError: there is no artifact.
        CorruptArtifactError: what is read is damaged, or does not say what it was made from in
            the way that it should.
        ArtifactError: the operating system refuses.
    """
    is_weights = path.suffix == ".safetensors"
    said: dict[str, Any] = read_metadata(path) if is_weights else read_attributes(path)
    found = said.get("made_from", {})
    try:
        made_from = json.loads(found) if isinstance(found, str) else found
        if not all(isinstance(checksum, str) for checksum in made_from.values()):
            raise TypeError("no checksums")
    except (AttributeError, TypeError, ValueError, RecursionError) as error:
        reason = f"is sealed but does not say what it was made from ({error!r:.80})"
        raise CorruptArtifactError(path, reason) from error
    return Seal(said["checksum"], made_from)


def strangers(path: Path, sources: Iterable[Path], seals: Mapping[Path, Seal]) -> Iterator[str]:
    """Which artifacts that are there another one was not made from, in one line each.

    Args:
        path: of that artifact.
        sources: those that it should have been made from.
        seals: of all of them.
    """
    for source in sources:
        expected = seals[source].checksum
        found = seals[path].made_from.get(source.name, "none")
        if found != expected:
            yield (
                f"{path}: found that it was made from {source.name} of checksum {found}, expected "
                f"{expected} of {source}; one of the two is of another run: run `dvc repro`"
            )
