"""Atomic writes, by one process at a time.

New content of `NAME` is written in a scratch folder next to it, `.NAME.geonode`, which also has
the lock of the writing process. Only files that geonode writes there are removed.
"""

import errno
import logging
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from geonode.errors import ArtifactError, remedy

_LOCK, _NEW, _OLD, _KEPT = "lock", "new", "old", "kept"
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF)  # of some network disks
_NO_FLUSH = (errno.EINVAL, errno.EBADF, errno.EOPNOTSUPP, errno.ENOSYS, errno.EIO)
"""Answers of some network disks to the flush of a folder."""
_LOG = logging.getLogger(__name__)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path, which replaces `path` when the body has filled it.

    Each may be a file or a folder. Parents are created. If the body raises, the temporary path is
    removed and `path` is unchanged. Remains of a killed run are removed; an old folder that it had
    moved away without moving the new one in is restored. The folder `kept_of` is removed once
    `path` is replaced.

    Raises:
        ArtifactError: the operating system refuses (disk full, no permission, a file where a folder
            should be, a folder where a file should be), in the body or here; another process or
            thread is writing `path`; or the scratch folder contains files of others.
    """
    with _scratch(path) as temporary:
        own = temporary.parent
        if os.path.lexists(own / _OLD) and not os.path.lexists(path):
            (own / _OLD).rename(path)
        _remove(own / _OLD)
        yield temporary
        for file in (*temporary.rglob("*"), temporary):
            _flush(file)
        if temporary.is_dir() and path.is_dir():
            # No portable call exchanges two folders, so the old one is moved away first; one of a
            # lower layer of an overlay can only be copied.
            shutil.move(path, own / _OLD)
            try:
                temporary.rename(path)
            except OSError:
                (own / _OLD).rename(path)
                raise
        else:
            temporary.replace(path)
        _flush(path.parent)
        _remove(own / _OLD)
        _remove(own / _KEPT)


def kept_of(path: Path) -> Path:
    """Folder in which an interrupted run of `replacing` keeps results for the next run."""
    return _scratch_of(path) / _KEPT


@contextmanager
def scratch_folder(path: Path) -> Iterator[Path]:
    """Empty folder next to `path`, for a time and this process alone; raises as `replacing`."""
    with _scratch(path) as temporary:
        temporary.mkdir()
        yield temporary


@contextmanager
def _scratch(path: Path) -> Iterator[Path]:
    """Context with a temporary path next to `path`, at which nothing is before and after."""
    with file_lock(path) as own, _explained(path):
        _remove(own / _NEW)
        try:
            yield own / _NEW
        finally:
            _remove(own / _NEW)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically.

    Raises:
        ArtifactError: the operating system refuses.
    """
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def remove(path: Path) -> None:
    """Remove a file or folder, and remains of a killed `replacing`; raises as that does."""
    with file_lock(path) as own, _explained(path):
        for left in (own / _NEW, own / _OLD, own / _KEPT, path):
            _remove(left)


@contextmanager
def file_lock(path: Path) -> Iterator[Path]:
    """Lock `path` against writing by others, with a lock of the operating system.

    The lock ends with its process in any case.

    Yields:
        The scratch folder of `path`, which contains the lock file.

    Raises:
        ArtifactError: another process or thread has the lock, the scratch folder contains files of
            others, or the operating system refuses.
    """
    own = _scratch_of(path)
    lock = FileLock(own / _LOCK, blocking=False)
    with _explained(path):
        own.mkdir(parents=True, exist_ok=True)
        others = {entry.name for entry in own.iterdir()} - {_LOCK, _NEW, _OLD, _KEPT}
        if own.is_symlink() or others:
            raise ArtifactError(
                f"{own}: found something not made by geonode, expected nothing or a scratch "
                f"folder; move it away to write {path.name}"
            )
        try:
            lock.acquire()
        except Timeout as error:
            raise ArtifactError(
                f"{path}: is being written by another process; wait until it has ended, or end "
                "it, and run this again"
            ) from error
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            _LOG.warning("%s: its disk has no locks; let one process alone write it", path)
    try:
        yield own
    finally:
        with suppress(OSError):
            if not any((own / left).exists() for left in (_NEW, _OLD, _KEPT)):
                (own / _LOCK).unlink()  # another process that has opened it tries again
                own.rmdir()
        lock.release()


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Context in which a refusal of the operating system becomes an error with its remedy."""
    try:
        yield
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be written: {error}{remedy(error, path)}") from error


def _scratch_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.geonode")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    """Flush a file, or the entries of a folder if its disk can: they survive a power cut."""
    if path.is_dir() and sys.platform == "win32":
        return
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_FLUSH or not path.is_dir():
            raise
        _LOG.warning("%s: its disk does not flush folders; a power cut may lose the last run", path)
    finally:
        os.close(descriptor)
