"""Hierarchy of all errors raised on purpose, and what to do where the system refuses."""

import copyreg
import errno
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

_FULL = "; found {free:,} bytes free in {folder}; make room and run it again"
_FORBIDDEN = "; make {folder} writable, or work in a folder that is"
REMEDIES = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EACCES: _FORBIDDEN,
    errno.EPERM: _FORBIDDEN,
    errno.EROFS: _FORBIDDEN,
    errno.EFBIG: "; expected a larger limit of files; raise `ulimit -f` and run it again",
    errno.EMFILE: "; expected more open files; raise `ulimit -n` and run it again",
    errno.ENAMETOOLONG: "; choose a shorter name",
}
"""Advice, by the error of the operating system."""


class GeonodeError(Exception):
    """Root of the hierarchy. Stages print the message as one line and exit with status 2."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Restored from another process without calling __init__, as the arguments of some classes
        # are not their message.
        arguments = (type(self), *self.args)
        return copyreg.__newobj__, arguments, self.__dict__  # type: ignore[attr-defined]


class ParameterError(GeonodeError):
    """A parameter is unknown, of the wrong type, or out of range."""

    def __init__(self, source: str, key: str, found: object, expected: str) -> None:
        if source == "options" and isinstance(found, list | tuple):  # by version of Typer
            found = " ".join(map(str, found))
        super().__init__(f"{source}: {key}: found {found!r}, expected {expected}")
        self.key, self.found, self.expected = key, found, expected


class SpectraError(GeonodeError):
    """A table of spectra cannot be read or is not a concentration series."""


class MixtureError(GeonodeError):
    """Amounts of several substances cannot calibrate, or spectra do not belong to them."""


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
    """An artifact fails its checksums, misses a part, or contains an invalid value."""

    def __init__(self, path: Path, reason: str, array: str = "", chunk: str = "") -> None:
        where = f", array {array!r}" if array else ""
        where += f", chunk {chunk!r}" if chunk else ""
        super().__init__(
            f"{path}{where}: {reason}; remove {path} and run `dvc repro` to write it again"
        )
        self.path, self.array, self.chunk = path, array, chunk


def remedy(error: OSError, path: Path = Path()) -> str:
    """Advice on a refusal of the operating system, as the end of a message; or nothing.

    Args:
        error: the refusal.
        path: what was to be written, if the refusal names no file. Then the folder of temporary
            files is looked at as well, and of a full disk the fuller one is named.
    """
    advice = REMEDIES.get(error.errno or 0, "")
    if "{" not in advice:
        return advice
    refused = Path(os.fsdecode(error.filename or path)).absolute()
    folders = [next(parent for parent in refused.parents if parent.exists())]
    if error.filename is None and error.errno in (errno.ENOSPC, errno.EDQUOT):
        folders.append(Path(tempfile.gettempdir()))
    free, folder = min((shutil.disk_usage(folder).free, folder) for folder in folders)
    return advice.format(folder=folder, free=free)
