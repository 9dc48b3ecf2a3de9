"""Damage, full disks, killed writers and several processes at once, on artifacts themselves."""

import errno
import fcntl
import os
import random
import subprocess
import sys
import threading

import numpy as np
import pytest

from geonode.errors import ArtifactError, CorruptArtifactError
from geonode.storage import artifact as artifacts
from geonode.storage import atomic
from geonode.storage.artifact import open_artifact
from geonode.storage.artifact_writer import artifact_writer
from geonode.storage.atomic import file_lock, write_bytes
from geonode.storage.document import read_document
from geonode.storage.integrity import verify
from geonode.storage.weights import read_weights
from tests.storage.damage import contents, cut, empty
from tests.storage.pipelines import write_pipeline

READERS = {
    "data/device.json": read_document,
    "data/spectra.zarr": open_artifact,
    "data/solved.zarr": open_artifact,
    "data/metric.safetensors": read_weights,
}


def flip(file, choose):
    content = bytearray(file.read_bytes())
    content[choose.randrange(len(content))] ^= 1 << choose.randrange(8)
    file.write_bytes(content)


@pytest.mark.slow
def test_one_random_bit_anywhere_is_told_with_file_and_array(tmp_path):
    root, choose = write_pipeline(tmp_path), random.Random(0)
    for trial in range(60):
        name = list(READERS)[trial % len(READERS)]
        files = [file for file in (root / name).rglob("*") if file.is_file()] or [root / name]
        file = choose.choice(sorted(files))
        kept = file.read_bytes()
        flip(file, choose)
        part = file.relative_to(root / name).as_posix().removeprefix(".")
        array = f"array {part.split('/')[0]!r}" if "/" in part else ""
        (finding,) = [found for found in verify(root) if found.path == name]
        with pytest.raises(CorruptArtifactError) as caught:
            READERS[name](root / name)
        for message in (finding.message, str(caught.value)):
            assert all(said in message for said in (str(root / name), part, array))
        file.write_bytes(kept)
    assert not [found for found in verify(root) if found.path != "dvc.lock"]


@pytest.mark.parametrize("damage", [cut, empty])
@pytest.mark.parametrize("name", READERS)
def test_a_cut_or_empty_file_is_told(tmp_path, name, damage):
    root = write_pipeline(tmp_path)
    chunks = [file for file in (root / name).rglob("c/**/*") if file.is_file()]
    for file in chunks or [root / name]:
        damage(file)
    assert {found.path for found in verify(root)} == {"dvc.lock", name}
    with pytest.raises(CorruptArtifactError, match=name):
        READERS[name](root / name)


# several processes

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


def test_many_threads_write_one_after_the_other_or_are_told(tmp_path):
    inside, most, reported, wrong = [], [], [], []

    def work():
        for _ in range(50):
            try:
                with file_lock(tmp_path / "file"):
                    inside.append(1)
                    most.append(len(inside))
                    inside.pop()
            except ArtifactError:
                reported.append(1)
            except OSError as error:
                wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert (max(most), len(most) + len(reported)) == (1, 200)
    assert not contents(tmp_path)


def test_a_disk_without_locks_is_written_with_a_warning(tmp_path, monkeypatch, caplog):
    def fail(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", fail)
    write_bytes(tmp_path / "file", b"new")
    assert contents(tmp_path) == {"file": b"new"}
    assert f"{tmp_path}/file: its disk has no locks" in caplog.text


def write(path, value):
    with artifact_writer(path, {}) as writer:
        about = {"units": "1", "long_name": "number"}
        writer.stored("stored", ("a",), np.full(3, value), **about)
        writer.mapped("mapped", ("a",), (3,), "float64", **about)[...] = value


@pytest.mark.parametrize("name", ["stored", "mapped"])
def test_what_was_replaced_since_it_was_opened_is_not_read(tmp_path, name):
    path = tmp_path / "a.zarr"
    write(path, 1.0)
    opened = open_artifact(path)
    kept = opened[name]
    write(path, 2.0)
    for read in (opened.__getitem__, opened.describe):
        with pytest.raises(ArtifactError, match=r"a\.zarr: was replaced by another"):
            read(name)
    assert (kept == 1).all()  # a map of the old file stays one
    assert (open_artifact(path)[name] == 2).all()


def test_an_artifact_that_is_replaced_while_it_is_opened_is_not_called_damaged(
    tmp_path, monkeypatch
):
    path, original, seen = tmp_path / "a.zarr", artifacts.file_checksum, []
    write(path, 1.0)

    def replace(file):
        if not seen:
            seen.append(file)
            with monkeypatch.context() as inside:
                inside.setattr(artifacts, "file_checksum", original)
                write(path, 2.0)
        return original(file)

    monkeypatch.setattr(artifacts, "file_checksum", replace)
    with pytest.raises(ArtifactError, match="was replaced by another") as caught:
        open_artifact(path)
    assert not isinstance(caught.value, CorruptArtifactError)


# no room, no permission

LIMITED = """\
import resource, sys
from pathlib import Path
from geonode.errors import ArtifactError
from geonode.storage.atomic import write_bytes
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_bytes(Path(sys.argv[1]), bytes(1001))
except ArtifactError as error:
    sys.exit(str(error))
"""


def test_a_limit_of_the_size_of_files_is_told_with_its_number(tmp_path):
    write_bytes(tmp_path / "file", b"old")
    run = subprocess.run(
        [sys.executable, "-c", LIMITED, tmp_path / "file"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    for part in ("file: cannot be written", "have 1,000 bytes", "raise `ulimit -f`"):
        assert part in run.stderr
    assert contents(tmp_path) == {"file": b"old"}


@pytest.mark.parametrize(
    ("number", "part"),
    [
        (errno.ENOSPC, r"found 12,345 bytes free in {folder}, expected more; make room"),
        (errno.EDQUOT, r"found 12,345 bytes free in {folder}, expected more; make room"),
        (errno.EFBIG, r"a file may have what its disk takes"),
        (errno.EACCES, r"make {folder} writable"),
        (errno.EROFS, r"make {folder} writable"),
        (errno.EIO, r"{folder}/new/file: cannot be written: .* Input/output error"),
    ],
)
def test_what_the_system_refuses_says_what_to_do(tmp_path, monkeypatch, number, part):
    def fail(*_, **__):
        raise OSError(number, os.strerror(number))

    usage = type("Usage", (), {"free": 12_345})
    monkeypatch.setattr(atomic.shutil, "disk_usage", {tmp_path: usage}.__getitem__)
    monkeypatch.setattr(atomic.Path, "mkdir", fail)
    with pytest.raises(ArtifactError, match=part.format(folder=tmp_path)):
        write_bytes(tmp_path / "new/file", b"")
