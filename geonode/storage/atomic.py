"""Writes that happen completely or not at all."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from geonode.errors import ArtifactError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary sibling of `path`, for the body to make, that then takes its place.

    Either is a file or a folder. Parents are created. If the body raises, the sibling is removed
    and `path` is as it was. What a killed run left behind is removed, or put back where that run
    had moved the old folder away and not yet moved the new one in.

    Raises:
        ArtifactError: the operating system refuses (disk full, no permission, a file where a folder
            should be, a folder where a file should be), in the body or here.
    """
    temporary = path.with_name(path.name + ".tmp")
    aside = path.with_name(path.name + ".old")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if aside.exists() and not path.exists():
            aside.rename(path)
        _remove(aside)
        _remove(temporary)
        try:
            yield temporary
            _flush(temporary)
            if temporary.is_dir() and path.is_dir():
                # No call exchanges two folders everywhere, so the old one steps aside first.
                path.rename(aside)
                try:
                    temporary.rename(path)
                except OSError:
                    aside.rename(path)
                    raise
                _remove(aside)
            else:
                temporary.replace(path)
        finally:
            _remove(temporary)
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be written: {error}") from error


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically.

    Raises:
        ArtifactError: the operating system refuses.
    """
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    """Bring files to the disk before the rename, so that a power cut leaves no empty ones."""
    for file in (path, *path.rglob("*")):
        if file.is_file():
            with file.open("rb+") as stream:
                os.fsync(stream.fileno())
