"""Atomic writes, by one process at a time.

New content of `NAME` is written in a scratch folder next to it, `.NAME.geonode`, which also holds
the lock of the writing process. Only files in this folder are removed, and only if the lock proves
that geonode made the folder: by the content of the lock file, or because the folder was empty. No
link is followed.
"""

import errno
import logging
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)  # of some network disks
_NO_FLUSH = (errno.EINVAL, errno.EBADF)  # of some network disks, for a folder
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_MARK = b"geonode "
_LOCK, _NEW, _OLD, _KEPT = "lock", "new", "old", "kept"
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
            thread is writing `path`; or the scratch folder was not made by geonode.
    """
    with _scratch(path) as own:
        temporary, aside = own / _NEW, own / _OLD
        if os.path.lexists(aside) and not os.path.lexists(path):
            aside.rename(path)
        _remove(aside)
        yield temporary
        _flush(temporary)
        if temporary.is_dir() and path.is_dir():
            # No portable call exchanges two folders, so the old one is moved away first.
            path.rename(aside)
            try:
                temporary.rename(path)
            except OSError:
                aside.rename(path)
                raise
        else:
            temporary.replace(path)
        _flush_folder(path.parent)
        _remove(aside)
        _remove(own / _KEPT)


def kept_of(path: Path) -> Path:
    """Folder in which an interrupted run of `replacing` keeps results for the next run."""
    return _scratch_of(path) / _KEPT


@contextmanager
def scratch_folder(path: Path) -> Iterator[Path]:
    """Temporary folder next to `path`, empty at first and exclusive to this process.

    Raises:
        ArtifactError: as `replacing`.
    """
    with _scratch(path) as own:
        (own / _NEW).mkdir()
        yield own / _NEW


@contextmanager
def _scratch(path: Path) -> Iterator[Path]:
    """Context with the locked scratch folder of a path, without `new` before and after."""
    with _told(path):
        _make_folder(path.parent)
        with file_lock(path) as own:
            _remove(own / _NEW)
            try:
                yield own
            finally:
                _remove(own / _NEW)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Context in which a refusal of the operating system becomes an error that says what to do."""
    try:
        yield
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be written: {error}{_advice(path, error)}") from error


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically.

    Raises:
        ArtifactError: the operating system refuses.
    """
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def remove(path: Path) -> None:
    """Remove a file or folder of `replacing`, and remains of a killed run.

    Raises:
        ArtifactError: as `replacing`.
    """
    with file_lock(path) as own:
        for left in (own / _NEW, own / _OLD, own / _KEPT, path):
            _remove(left)


@contextmanager
def file_lock(path: Path) -> Iterator[Path]:
    """Lock `path` against writing by others, with a lock of the operating system.

    The lock ends with its process in any case. The lock file, which holds the process number, may
    then be left behind; the next process takes it over.

    Yields:
        The scratch folder of `path`, which holds the lock file.

    Raises:
        ArtifactError: another process or thread has the lock, the scratch folder was not made by
            geonode, or the operating system refuses.
    """
    own = _scratch_of(path)
    with _told(path):
        while (descriptor := _locked(own, path)) is None:
            pass  # another process has removed the file or its folder meanwhile
    try:
        yield own
    finally:
        _unlock(own, descriptor)


def _scratch_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.geonode")


def _locked(own: Path, path: Path) -> int | None:
    """Descriptor of the locked file, which names its process; None if it was removed meanwhile."""
    with suppress(FileExistsError):
        own.mkdir()
    if not stat.S_ISDIR(own.lstat().st_mode):
        raise _not_ours(own, path)
    there = _names_in(own)
    if there and _LOCK not in there:
        raise _not_ours(own, path)
    lock = own / _LOCK
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | _NO_LINK, 0o666)
    except FileNotFoundError:
        return None
    except OSError as error:
        if lock.is_symlink():
            raise _not_ours(own, path) from error
        raise
    try:
        _take(descriptor, path)
        if sys.platform != "win32" and not _is_at(descriptor, lock):
            os.close(descriptor)
            return None
        if not _is_ours(own, descriptor):
            raise _not_ours(own, path)
    except BaseException:
        os.close(descriptor)
        raise
    try:
        # Never empty from here on: the content proves that geonode made the folder.
        content = _MARK + str(os.getpid()).encode()
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, content)
        os.ftruncate(descriptor, len(content))
        # Flushed before other files are in the folder; so is the folder, with the renames of a
        # killed process, before an older version is removed.
        os.fsync(descriptor)
        _flush_folder(own)
        _flush_folder(own.parent)
    except BaseException:
        _unlock(own, descriptor)
        raise
    return descriptor


def _is_ours(own: Path, descriptor: int) -> bool:
    """Whether geonode made a scratch folder: by its lock, or because it holds nothing else."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        return False
    content = os.read(descriptor, len(_MARK))
    if content == _MARK:
        return True
    cut_off = _MARK.startswith(content.rstrip(b"\0"))  # by a kill or power cut before the flush
    return cut_off and _names_in(own) == [_LOCK]


def _names_in(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()]


def _not_ours(own: Path, path: Path) -> ArtifactError:
    return ArtifactError(
        f"{own}: found something not made by geonode, expected nothing or a scratch folder; move "
        f"it away to write {path.name}"
    )


def _unlock(own: Path, descriptor: int) -> None:
    """Remove lock and folder, or keep the lock if other files are left in the folder."""
    if sys.platform != "win32" and _names_in(own) == [_LOCK]:  # Windows removes no open file
        with suppress(OSError):  # a disk that cannot flush has raised before
            _flush_folder(own)  # so that the lock is the last to go on the disk too
        (own / _LOCK).unlink()
        with suppress(OSError):  # another process has a lock there since
            own.rmdir()
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
        content = b"" if sys.platform == "win32" else os.read(descriptor, 40)
        process = content.removeprefix(_MARK).decode("ascii", "replace")
        raise ArtifactError(
            f"{path}: is being written by another process ({process or 'of unknown number'}); "
            "wait until it has ended, or end it, and run this again"
        ) from error


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _advice(path: Path, error: OSError) -> str:
    """Advice for an error message: the free or allowed space, and what to do."""
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


def _make_folder(path: Path) -> None:
    """Make a folder and its missing parents, each flushed to the disk."""
    if not path.is_dir():
        _make_folder(path.parent)
        path.mkdir(exist_ok=True)
        _flush_folder(path.parent)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    """Flush files to the disk before the rename, so that a power cut leaves no empty ones."""
    for file in (*path.rglob("*"), path):
        if file.is_dir():
            _flush_folder(file)
        elif file.is_file():
            with file.open("rb+") as stream:
                os.fsync(stream.fileno())


def _flush_folder(path: Path) -> None:
    """Flush a folder's entries to the disk, where the operating system can."""
    if sys.platform == "win32":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_FLUSH:
            raise
    finally:
        os.close(descriptor)
