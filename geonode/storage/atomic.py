"""Writes that happen completely or not at all, and by one process at a time.

What is being written to `NAME` is in a scratch folder beside it, `.NAME.geonode`, with the lock of
the process that writes. Nothing is removed but what is in there, and nothing in there unless the
lock proves that the folder was made here: by what stands in it, or as the folder was empty. No link
is followed.
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
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)  # what some network disks answer
_NO_FLUSH = (errno.EINVAL, errno.EBADF)  # what some network disks answer of a folder
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_MARK = b"geonode "
_LOCK, _NEW, _OLD, _KEPT = "lock", "new", "old", "kept"
_LOG = logging.getLogger(__name__)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a place in a scratch folder, for the body to fill, that then takes the place of `path`.

    Either is a file or a folder. Parents are created. If the body raises, what it made is removed
    and `path` is as it was. What a killed run left behind is removed, or put back where that run
    had moved the old folder away and not yet moved the new one in. What `kept_of` names is gone
    once `path` is replaced.

    Raises:
        ArtifactError: the operating system refuses (disk full, no permission, a file where a folder
            should be, a folder where a file should be), in the body or here; or another process
            or thread is writing `path`; or the scratch folder is somebody else's.
    """
    try:
        _make_folder(path.parent)
        with file_lock(path) as own:
            temporary, aside = own / _NEW, own / _OLD
            if os.path.lexists(aside) and not os.path.lexists(path):
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
                else:
                    temporary.replace(path)
                _flush_folder(path.parent)
                _remove(aside)
                _remove(own / _KEPT)
            finally:
                _remove(temporary)
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be written: {error}{_advice(path, error)}") from error


def kept_of(path: Path) -> Path:
    """Folder in which a run that `replacing` ends early keeps what the next one goes on from."""
    return _scratch_of(path) / _KEPT


@contextmanager
def scratch_folder(path: Path) -> Iterator[Path]:
    """A folder beside `path` that is empty at first, this process's alone, and gone at the end.

    Raises:
        ArtifactError: as `replacing`.
    """
    try:
        _make_folder(path.parent)
        with file_lock(path) as own:
            folder = own / _NEW
            _remove(folder)
            folder.mkdir()
            try:
                yield folder
            finally:
                _remove(folder)
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
    """Remove what `replacing` wrote, and what a killed run left of it.

    Raises:
        ArtifactError: as `replacing`.
    """
    with file_lock(path) as own:
        for left in (own / _NEW, own / _OLD, own / _KEPT, path):
            _remove(left)


@contextmanager
def file_lock(path: Path) -> Iterator[Path]:
    """Keep others from writing `path`, by a lock of the operating system.

    It ends with its process, however that ends. Its file, which holds the number of the process, is
    then left behind and taken by the next one.

    Yields:
        The scratch folder of `path`, in which the file of the lock is.

    Raises:
        ArtifactError: another process or thread has the lock, the scratch folder is somebody
            else's, or the operating system refuses.
    """
    own = _scratch_of(path)
    try:
        while (descriptor := _locked(own, path)) is None:
            pass  # another has removed the file or its folder meanwhile
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be written: {error}{_advice(path, error)}") from error
    try:
        yield own
    finally:
        _unlock(own, descriptor)


def _scratch_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.geonode")


def _locked(own: Path, path: Path) -> int | None:
    """An open file that is locked and says by whom; None if it is not the one at its path."""
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
        # Never empty from here on: what stands in it proves whose folder this is.
        said = _MARK + str(os.getpid()).encode()
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, said)
        os.ftruncate(descriptor, len(said))
        # On the disk before anything else is in the folder; so is the folder, and what a killed
        # process has renamed, before an older one is removed.
        os.fsync(descriptor)
        _flush_folder(own)
        _flush_folder(own.parent)
    except BaseException:
        _unlock(own, descriptor)
        raise
    return descriptor


def _is_ours(own: Path, descriptor: int) -> bool:
    """Whether a scratch folder was made here: by its lock, or as there is nothing else in it."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        return False
    said = os.read(descriptor, len(_MARK))
    if said == _MARK:
        return True
    cut_off = _MARK.startswith(said.rstrip(b"\0"))  # by a kill or the power, before it was flushed
    return cut_off and _names_in(own) == [_LOCK]


def _names_in(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()]


def _not_ours(own: Path, path: Path) -> ArtifactError:
    return ArtifactError(
        f"{own}: found what geonode has not made, expected nothing or its scratch folder; move it "
        f"away to write {path.name}"
    )


def _unlock(own: Path, descriptor: int) -> None:
    """Remove lock and folder, unless there is something left, which the lock proves to be ours."""
    if sys.platform != "win32" and _names_in(own) == [_LOCK]:  # Windows removes no open file
        with suppress(OSError):  # a disk that flushes nothing has said so before
            _flush_folder(own)  # so that on the disk too the lock is the last to go
        (own / _LOCK).unlink()
        with suppress(OSError):  # another has a lock there since
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
        said = b"" if sys.platform == "win32" else os.read(descriptor, 40)
        process = said.removeprefix(_MARK).decode("ascii", "replace")
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


def _make_folder(path: Path) -> None:
    """Make a folder and those above it that are not there, each safe on the disk."""
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
    """Bring files to the disk before the rename, so that a power cut leaves no empty ones."""
    for file in (*path.rglob("*"), path):
        if file.is_dir():
            _flush_folder(file)
        elif file.is_file():
            with file.open("rb+") as stream:
                os.fsync(stream.fileno())


def _flush_folder(path: Path) -> None:
    """Bring the names in a folder to the disk, where the operating system can."""
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
