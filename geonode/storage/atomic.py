"""Writes that happen completely or not at all, and by one process at a time."""

import errno
import logging
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from geonode.errors import ArtifactError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl
    import resource

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
_HELD = (errno.EAGAIN, errno.EACCES, errno.EDEADLK)
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)  # what some network disks answer
_LOG = logging.getLogger(__name__)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary sibling of `path`, for the body to make, that then takes its place.

    Either is a file or a folder. Parents are created. If the body raises, the sibling is removed
    and `path` is as it was. What a killed run left behind is removed, or put back where that run
    had moved the old folder away and not yet moved the new one in.

    Raises:
        ArtifactError: the operating system refuses (disk full, no permission, a file where a folder
            should be, a folder where a file should be), in the body or here; or another process
            or thread is writing `path`.
    """
    temporary = path.with_name(path.name + ".tmp")
    aside = path.with_name(path.name + ".old")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with alone(path):
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
        raise ArtifactError(f"{path}: cannot be written: {error}{_advice(path, error)}") from error


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically.

    Raises:
        ArtifactError: the operating system refuses.
    """
    with replacing(path) as temporary:
        temporary.write_bytes(content)


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Keep others from writing `path`, by a lock of the operating system.

    It ends with its process, however that ends. Its file, which holds the number of the process, is
    then left behind and taken by the next one.

    Raises:
        ArtifactError: another process or thread has the lock, or the operating system refuses one.
    """
    lock = path.with_name(path.name + ".lock")
    try:
        while (descriptor := _locked(lock, path)) is None:
            pass  # another has removed the file since it was opened
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be written: {error}{_advice(path, error)}") from error
    try:
        yield
    finally:
        _unlock(lock, descriptor)


def _locked(lock: Path, path: Path) -> int | None:
    """An open file that is locked and says by whom; None if it is not the one at its path."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        _take(descriptor, path)
        if sys.platform != "win32" and not _is_at(descriptor, lock):
            os.close(descriptor)
            return None
    except BaseException:
        os.close(descriptor)
        raise
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
    except BaseException:
        _unlock(lock, descriptor)
        raise
    return descriptor


def _unlock(lock: Path, descriptor: int) -> None:
    if sys.platform != "win32":  # which removes no file that is open
        lock.unlink(missing_ok=True)
    os.close(descriptor)


def _take(descriptor: int, path: Path) -> None:
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            _LOG.warning("%s: its disk has no locks; let one process alone write it", path)
            return
        if error.errno not in _HELD:
            raise
        process = "" if sys.platform == "win32" else os.read(descriptor, 20).decode()
        raise ArtifactError(
            f"{path}: is being written by another process ({process or 'of unknown number'}); "
            "wait until it has ended, or end it, and run this again"
        ) from error


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _advice(path: Path, error: OSError) -> str:
    """How much is free or allowed now that what was half written is removed, and what to do."""
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if error.errno in _FULL:
        free = shutil.disk_usage(folder).free
        return f"; found {free:,} bytes free in {folder}, expected more; make room, run it again"
    if error.errno == errno.EFBIG and sys.platform != "win32":
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        allowed = f"{limit:,} bytes" if limit != resource.RLIM_INFINITY else "what its disk takes"
        return f"; a file may have {allowed}, expected more; raise `ulimit -f`, run it again"
    if error.errno in _FORBIDDEN:
        return f"; make {folder} writable, or work in a folder that is"
    return ""


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
