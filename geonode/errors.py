"""Hierarchy of all errors raised on purpose."""

from pathlib import Path
from typing import Any


class GeonodeError(Exception):
    """Root of the hierarchy. Stages print the message as one line and exit with status 2."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Restored from another process without calling __init__, as the arguments of some classes
        # are not their message.
        return _again, (type(self), self.args, self.__dict__)


class ParameterError(GeonodeError):
    """A parameter is unknown, of the wrong type, or out of range."""

    def __init__(self, source: str, key: str, found: object, expected: str) -> None:
        super().__init__(f"{source}: {key}: found {found!r}, expected {expected}")
        self.key, self.found, self.expected = key, found, expected


class SpectraError(GeonodeError):
    """A table of spectra cannot be read or is not a concentration series."""


class DeviceError(GeonodeError):
    """A requested device or precision is absent on this machine."""


class GeometryError(GeonodeError):
    """A metric, a grid or a geodesic problem is not well posed, or was not solved."""


class TrainingError(GeonodeError):
    """Training gave numbers that are not finite, or cannot start or resume as requested."""


class EngineError(GeonodeError):
    """Worker processes are absent, inconsistent, or were lost."""


class ArtifactError(GeonodeError):
    """An artifact of the pipeline cannot be used."""


class MissingArtifactError(ArtifactError):
    """An artifact is absent."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path}: not found; run `dvc repro` (or the stage that writes it) first")
        self.path = path


class CorruptArtifactError(ArtifactError):
    """An artifact fails its checksums, misses a part, or holds an invalid value."""

    def __init__(self, path: Path, reason: str, array: str = "", chunk: str = "") -> None:
        where = f", array {array!r}" if array else ""
        where += f", chunk {chunk!r}" if chunk else ""
        super().__init__(
            f"{path}{where}: {reason}; remove {path} and run `dvc repro` to write it again"
        )
        self.path, self.array, self.chunk = path, array, chunk


def _again(kind: type[GeonodeError], arguments: tuple[Any, ...], state: dict[str, Any]) -> Any:
    """Error of another process, restored."""
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(state)
    return error
