import errno
import os
from pathlib import Path

import pytest

from geonode.errors import ArtifactError
from geonode.storage.atomic import replacing, write_bytes
from tests.storage.damage import contents


def write_folder(path, text):
    with replacing(path) as temporary:
        temporary.mkdir()
        (temporary / "file").write_text(text)


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


def test_leftovers_of_a_killed_run_are_removed(tmp_path):
    for name in ("folder", "folder.tmp", "folder.old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    write_folder(tmp_path / "folder", "new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]
    assert contents(tmp_path) == {"folder/file": b"new"}


def test_a_run_killed_between_the_two_renames_loses_nothing(tmp_path):
    (tmp_path / "folder.old").mkdir()
    (tmp_path / "folder.old" / "file").write_text("old")
    with pytest.raises(ValueError), replacing(tmp_path / "folder"):
        raise ValueError
    assert contents(tmp_path) == {"folder/file": b"old"}


def test_a_new_folder_that_cannot_move_in_lets_the_old_one_back(tmp_path, monkeypatch):
    write_folder(tmp_path / "folder", "old")
    rename = Path.rename

    def fail(source, target):
        if source.name == "folder.tmp":
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
