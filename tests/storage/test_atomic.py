import errno
import os
from pathlib import Path

import pytest

from geonode.errors import ArtifactError
from geonode.storage.atomic import kept_of, replacing, scratch_folder, write_bytes
from tests.storage.damage import contents


def write_folder(path, text):
    with replacing(path) as temporary:
        temporary.mkdir()
        (temporary / "file").write_text(text)


def folder_of_text(path):
    write_folder(path, "new")


def test_a_file_takes_the_place_of_the_older_one(tmp_path):
    for content in (b"old", b"new"):
        write_bytes(tmp_path / "deep" / "er" / "file", content)
    assert contents(tmp_path) == {"deep/er/file": b"new"}


def test_a_folder_takes_the_place_of_the_older_one(tmp_path):
    for text in ("old", "new"):
        write_folder(tmp_path / "deep" / "folder", text)
    assert contents(tmp_path) == {"deep/folder/file": b"new"}


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
    return own


def test_leftovers_of_a_killed_run_are_removed(tmp_path):
    write_folder(tmp_path / "folder", "older")
    left_behind(tmp_path / "folder", new="half", old="older", kept="half")
    write_folder(tmp_path / "folder", "new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]
    assert contents(tmp_path) == {"folder/file": b"new"}


def test_a_run_killed_between_the_two_renames_loses_nothing(tmp_path):
    left_behind(tmp_path / "folder", old="old")
    with pytest.raises(ValueError), replacing(tmp_path / "folder"):
        raise ValueError
    assert contents(tmp_path) == {"folder/file": b"old"}


def test_what_is_kept_stays_until_the_path_is_replaced(tmp_path):
    path = tmp_path / "file"
    with pytest.raises(ValueError), replacing(path):
        write_bytes(kept_of(path) / "part", b"half")
        raise ValueError
    assert (kept_of(path) / "part").read_bytes() == b"half"
    write_bytes(path, b"new")
    assert contents(tmp_path) == {"file": b"new"}
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("write", [lambda path: write_bytes(path, b"new"), folder_of_text])
@pytest.mark.parametrize(
    "name", ["a.tmp", "a.old", "a.lock", "a.tiles", ".a.tmp", ".a", ".a.geonode.old"]
)
def test_files_of_the_user_beside_a_path_are_left_alone(tmp_path, write, name):
    for parent in (tmp_path / "file", tmp_path / "folder"):
        parent.mkdir()
    (tmp_path / "file" / name).write_text("mine")
    (tmp_path / "folder" / name).mkdir()
    (tmp_path / "folder" / name / "thesis").write_text("mine")
    for parent in (tmp_path / "file", tmp_path / "folder"):
        write(parent / "a")
        write(parent / "a")
    kept = contents(tmp_path)
    assert kept[f"file/{name}"] == kept[f"folder/{name}/thesis"] == b"mine"


def in_scratch(own):
    own.mkdir()
    (own / "new").mkdir()
    (own / "new" / "thesis").write_text("mine")


def with_a_lock_of_the_user(own):
    in_scratch(own)
    (own / "lock").write_text("mine")


def with_an_empty_lock(own):
    in_scratch(own)
    (own / "lock").touch()


def a_linked_folder(own):
    target = own.with_name("elsewhere")
    in_scratch(target)
    (target / "lock").write_text("geonode 1")
    own.symlink_to(target)


def a_linked_lock(own):
    own.mkdir()
    target = own.with_name("elsewhere")
    target.write_text("mine")
    (own / "lock").symlink_to(target)


def a_pipe(own):
    own.mkdir()
    os.mkfifo(own / "lock")


@pytest.mark.parametrize(
    "occupied",
    [
        lambda own: own.write_text("mine"),
        in_scratch,
        with_a_lock_of_the_user,
        with_an_empty_lock,
        a_linked_folder,
        a_linked_lock,
        a_pipe,
    ],
)
def test_a_scratch_folder_that_is_not_proven_ours_is_not_touched(tmp_path, occupied):
    path = tmp_path / "a"
    write_bytes(path, b"old")
    occupied(path.with_name(".a.geonode"))
    before = contents(tmp_path)
    with pytest.raises(
        ArtifactError, match=r"\.a\.geonode: found something not made by geonode, .*a$"
    ):
        write_bytes(path, b"new")
    assert contents(tmp_path) == before


def test_a_folder_of_ones_own_is_empty_and_goes(tmp_path):
    left_behind(tmp_path / "shared", new="half")
    with scratch_folder(tmp_path / "shared") as folder:
        assert not list(folder.iterdir())
        (folder / "file").touch()
    assert not list(tmp_path.iterdir())


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


def test_what_the_system_refuses_is_one_line_that_says_what_and_where(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ArtifactError) as caught:
        write_bytes(tmp_path / "file" / "below", b"")
    message = str(caught.value)
    assert message.startswith(f"{tmp_path}/file/below: cannot be written: ")
    assert "\n" not in message


def test_a_full_disk(tmp_path, monkeypatch):
    def fail(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    write_bytes(tmp_path / "file", b"old")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ArtifactError, match=r"file: cannot be written: .*No space left on device"):
        write_bytes(tmp_path / "file", b"new")
    assert contents(tmp_path) == {"file": b"old"}


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root writes anywhere")
def test_a_read_only_folder(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ArtifactError, match="Permission denied"):
        write_bytes(tmp_path / "file", b"")
    tmp_path.chmod(0o700)


def test_a_file_never_replaces_a_folder_nor_a_folder_a_file(tmp_path):
    write_folder(tmp_path / "folder", "kept")
    write_bytes(tmp_path / "file", b"kept")
    with pytest.raises(ArtifactError, match="cannot be written"):
        write_bytes(tmp_path / "folder", b"new")
    with pytest.raises(ArtifactError, match="cannot be written"):
        write_folder(tmp_path / "file", "new")
    assert contents(tmp_path) == {"file": b"kept", "folder/file": b"kept"}
