import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from geonode.errors import ArtifactError
from geonode.storage import atomic
from geonode.storage.atomic import file_lock, replacing, scratch_folder, write_bytes
from tests.storage.damage import contents


def write_file(path, text="new"):
    write_bytes(path, text.encode())


def write_folder(path, text="new"):
    with replacing(path) as temporary:
        temporary.mkdir()
        (temporary / "file").write_text(text)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_body_that_raises_leaves_the_older_one(tmp_path, error):
    write_folder(tmp_path / "folder", "old")
    with pytest.raises(error), replacing(tmp_path / "folder") as temporary:
        temporary.mkdir()
        (temporary / "file").write_text("new")
        raise error
    assert contents(tmp_path) == {"folder/file": b"old"}
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def left_behind(path, **files):
    """What a killed run leaves: its scratch folder with these files in folders of these names."""
    own = path.with_name(f".{path.name}.geonode")
    own.mkdir()
    (own / "lock").write_text("geonode 1")
    for name, text in files.items():
        (own / name).mkdir()
        (own / name / "file").write_text(text)


def test_leftovers_of_a_killed_run_are_removed(tmp_path):
    write_folder(tmp_path / "folder", "older")
    left_behind(tmp_path / "folder", new="half", old="older", kept="half")
    write_folder(tmp_path / "folder", "new")
    left_behind(tmp_path / "shared", new="half")
    with scratch_folder(tmp_path / "shared") as folder:
        assert not list(folder.iterdir())
        (folder / "file").touch()
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]
    assert contents(tmp_path) == {"folder/file": b"new"}


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


@pytest.mark.parametrize(
    "there",
    [
        {"": "mine"},
        {"new/thesis": "mine"},
        {"new/thesis": "mine", "lock": "mine"},
        {"new/thesis": "mine", "lock": ""},
        {"lock": None},  # a link to a file of the user
    ],
)
def test_a_scratch_folder_that_is_not_proven_ours_is_not_touched(tmp_path, there):
    path = tmp_path / "a"
    write_bytes(path, b"old")
    (tmp_path / "mine").write_text("mine")
    for name, text in there.items():
        file = tmp_path / ".a.geonode" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(tmp_path / "mine") if text is None else file.write_text(text)
    before = contents(tmp_path)
    with pytest.raises(
        ArtifactError, match=r"\.a\.geonode: found something not made by geonode, .*a$"
    ):
        write_bytes(path, b"new")
    assert contents(tmp_path) == before


def test_a_pipe_is_no_lock_and_a_linked_folder_not_followed(tmp_path):
    (tmp_path / ".a.geonode").mkdir()
    os.mkfifo(tmp_path / ".a.geonode/lock")
    left_behind(tmp_path / "real", new="half")
    (tmp_path / ".b.geonode").symlink_to(tmp_path / ".real.geonode")
    for name in "ab":
        with pytest.raises(ArtifactError, match="found something not made by geonode"):
            write_file(tmp_path / name)
    assert contents(tmp_path / ".real.geonode") == {"lock": b"geonode 1", "new/file": b"half"}


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
    for write, name in (
        (write_file, "folder"),
        (write_folder, "file"),
        (write_file, "file/below"),
    ):
        with pytest.raises(ArtifactError, match=f"^{tmp_path / name}: cannot be written: [^\n]*$"):
            write(tmp_path / name)
    assert contents(tmp_path) == {"file": b"kept", "folder/file": b"kept"}


# what the operating system refuses


@pytest.mark.parametrize(
    ("number", "part"),
    [
        (errno.ENOSPC, r"found 12,345 bytes free in {folder}, expected more; make room"),
        (errno.EDQUOT, r"found 12,345 bytes free in {folder}, expected more; make room"),
        (errno.EFBIG, r"a file may have 1,000 bytes, expected more; raise `ulimit -f`"),
        (errno.EACCES, r"make {folder} writable"),
        (errno.EROFS, r"make {folder} writable"),
        (errno.EIO, r"{folder}/file: cannot be written: .* Input/output error"),
    ],
)
@pytest.mark.parametrize("call", ["mkdir", "fsync"])
def test_what_the_system_refuses_says_what_to_do(tmp_path, monkeypatch, call, number, part):
    def fail(*_, **__):
        raise OSError(number, os.strerror(number))

    write_file(tmp_path / "file", "old")
    usage = type("Usage", (), {"free": 12_345})
    monkeypatch.setattr(atomic.shutil, "disk_usage", {tmp_path: usage}.__getitem__)
    monkeypatch.setattr(atomic.resource, "getrlimit", lambda _: (1000, 1000))
    monkeypatch.setattr(atomic.Path if call == "mkdir" else os, call, fail)
    with pytest.raises(ArtifactError, match=part.format(folder=tmp_path)):
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
        with pytest.raises(ArtifactError, match=rf"being written by another .*\({holder.pid}\)"):
            write_bytes(path, b"new")
        holder.kill()
    assert path.read_bytes() == b"old"
    assert {entry.name for entry in tmp_path.iterdir()} == {"file", ".file.geonode"}
    write_bytes(path, b"new")
    assert contents(tmp_path) == {"file": b"new"}


def test_a_thread_is_told_as_well_and_a_lock_ends_with_an_error(tmp_path):
    with pytest.raises(ZeroDivisionError), file_lock(tmp_path / "file"):
        with pytest.raises(ArtifactError, match=rf"another process \({os.getpid()}\)"):
            write_bytes(tmp_path / "file", b"")
        raise ZeroDivisionError
    write_bytes(tmp_path / "file", b"new")
    assert contents(tmp_path) == {"file": b"new"}


def test_a_lock_whose_file_was_removed_meanwhile_is_taken_again(tmp_path, monkeypatch):
    lock, taken = tmp_path / ".file.geonode/lock", []
    take = fcntl.flock

    def removed(*arguments):
        take(*arguments)
        taken.append(arguments)
        if len(taken) == 1:
            lock.unlink()

    monkeypatch.setattr(fcntl, "flock", removed)
    with file_lock(tmp_path / "file"):
        assert len(taken) == 2
        assert lock.read_text(encoding="utf-8") == f"geonode {os.getpid()}"


def test_a_disk_without_locks_is_written_with_a_warning(tmp_path, monkeypatch, caplog):
    def fail(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", fail)
    write_bytes(tmp_path / "file", b"new")
    assert contents(tmp_path) == {"file": b"new"}
    assert f"{tmp_path}/file: its disk has no locks" in caplog.text
