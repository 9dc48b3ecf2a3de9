import errno
import fcntl
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from geonode.errors import ArtifactError
from geonode.storage import atomic
from geonode.storage.atomic import replacing, write_bytes
from tests.storage.damage import contents


def write_file(path, text="new"):
    write_bytes(path, text.encode())


def write_folder(path, text="new"):
    with replacing(path) as temporary:
        temporary.mkdir()
        (temporary / "file").write_text(text)


@pytest.mark.parametrize("write", [write_file, write_folder])
def test_files_of_the_user_beside_a_path_are_left_alone(tmp_path, write):
    names = ["a.tmp", "a.old", "a.lock", "a.tiles", ".a.tmp", ".a", ".a.geonode.old"]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "thesis").write_text("mine")
    for _ in range(2):
        write(tmp_path / "a")
    kept = contents(tmp_path)
    assert {kept[f"{name}/thesis"] for name in names} == {b"mine"}


@pytest.mark.parametrize("linked", [False, True])
def test_a_scratch_folder_with_files_of_others_is_not_touched(tmp_path, linked):
    write_bytes(tmp_path / "a", b"old")
    own = tmp_path / ".a.geonode"
    real = tmp_path / "real" if linked else own
    (real / "new").mkdir(parents=True)
    if linked:
        own.symlink_to(real)
    else:
        (own / "thesis").write_text("mine")
    before = contents(tmp_path)
    with pytest.raises(ArtifactError, match=r"\.a\.geonode: found something not made by geonode"):
        write_bytes(tmp_path / "a", b"new")
    assert contents(tmp_path) == before


def test_a_new_folder_that_cannot_move_in_lets_the_old_one_back(tmp_path, monkeypatch):
    write_folder(tmp_path / "folder", "old")
    rename = Path.rename

    def fail(source, target):
        if source.name == "new":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return rename(source, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(ArtifactError, match=r"folder: cannot be written: .*Input/output error"):
        write_folder(tmp_path / "folder", "new")
    assert contents(tmp_path) == {"folder/file": b"old"}


def test_a_file_never_replaces_a_folder_nor_a_folder_a_file(tmp_path):
    write_folder(tmp_path / "folder", "kept")
    write_file(tmp_path / "file", "kept")
    for write, name in ((write_file, "folder"), (write_folder, "file"), (write_file, "file/below")):
        with pytest.raises(ArtifactError, match=f"^{tmp_path / name}: cannot be written: [^\n]*$"):
            write(tmp_path / name)
    assert contents(tmp_path) == {"file": b"kept", "folder/file": b"kept"}


# what the operating system refuses


@pytest.mark.parametrize(
    ("number", "free", "part"),
    [
        (errno.ENOSPC, 54_321, r"found 12,345 bytes free in {folder}; make room and run"),
        (errno.EDQUOT, 54_321, r"found 12,345 bytes free in {folder}; make room and run"),
        (errno.ENOSPC, 0, r"found 0 bytes free in {temporary}; make room and run"),
        (errno.EFBIG, 0, r"raise `ulimit -f`"),
        (errno.EACCES, 0, r"make {folder} writable"),
        (errno.EROFS, 0, r"make {folder} writable"),
        (errno.EIO, 0, r"{folder}/file: cannot be written: .* Input/output error"),
    ],
)
@pytest.mark.parametrize("call", ["mkdir", "fsync"])
def test_what_the_system_refuses_says_what_to_do(tmp_path, monkeypatch, call, number, free, part):
    """Parts of a workbook are written among temporary files, and the refusal names no file."""

    def fail(*_, **__):
        raise OSError(number, os.strerror(number))

    write_file(tmp_path / "file", "old")
    temporary = Path(tempfile.gettempdir())
    sizes = {tmp_path: SimpleNamespace(free=12_345), temporary: SimpleNamespace(free=free)}
    monkeypatch.setattr(shutil, "disk_usage", sizes.__getitem__)
    monkeypatch.setattr(atomic.Path if call == "mkdir" else os, call, fail)
    with pytest.raises(ArtifactError, match=part.format(folder=tmp_path, temporary=temporary)):
        write_file(tmp_path / "file", "new")
    assert contents(tmp_path) == {"file": b"old"}


# several processes and threads

HOLD = """\
import sys, time
from pathlib import Path
from geonode.storage.atomic import replacing
with replacing(Path(sys.argv[1])) as temporary:
    temporary.write_text("half")
    sys.stdout.write("writing")
    sys.stdout.flush()
    time.sleep(60)
"""


def test_a_second_writer_is_told_and_a_killed_one_holds_nothing(tmp_path):
    path = tmp_path / "file"
    write_bytes(path, b"old")
    with subprocess.Popen([sys.executable, "-c", HOLD, path], stdout=subprocess.PIPE) as holder:
        assert holder.stdout.read(7) == b"writing"
        with pytest.raises(ArtifactError, match=r"being written by another process"):
            write_bytes(path, b"new")
        holder.kill()
    assert path.read_bytes() == b"old"
    assert {entry.name for entry in tmp_path.iterdir()} == {"file", ".file.geonode"}
    write_bytes(path, b"new")
    assert contents(tmp_path) == {"file": b"new"}


@pytest.mark.parametrize(
    ("call", "number", "warning"),
    [
        ("flock", errno.ENOLCK, "file: its disk has no locks"),
        ("flock", errno.EBADF, "file: its disk has no locks"),
        ("fsync", errno.EINVAL, "its disk does not flush folders"),
        ("fsync", errno.EIO, "its disk does not flush folders"),
    ],
)
def test_a_disk_of_a_network_is_written_with_a_warning(
    tmp_path, monkeypatch, caplog, call, number, warning
):
    flush = os.fsync

    def fail(descriptor, *_):
        if call == "fsync" and not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            return flush(descriptor)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl if call == "flock" else os, call, fail)
    write_bytes(tmp_path / "file", b"new")
    assert contents(tmp_path) == {"file": b"new"}
    assert warning in caplog.text


def test_a_folder_of_a_lower_layer_is_copied_aside(tmp_path, monkeypatch):
    """Overlays of containers answer EXDEV to the renaming of folders of an image."""
    write_folder(tmp_path / "folder", "old")
    rename, seen = os.rename, []

    def cross(source, target):
        if source == tmp_path / "folder":
            seen.append(target.name)
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        return rename(source, target)

    monkeypatch.setattr(os, "rename", cross)
    write_folder(tmp_path / "folder", "new")
    assert contents(tmp_path) == {"folder/file": b"new"}
    assert seen == ["old"]
