"""A power cut or kill between any two calls of a write leaves the old one, the new one or none."""

import os

import pytest

from geonode.storage.atomic import kept_of, remove, replacing, scratch_folder, write_bytes
from tests.storage.crash import Recorder, build, states
from tests.storage.damage import contents


def write_file(path, value):
    write_bytes(path, 100 * value)


def write_folder(path, value):
    with replacing(path) as temporary:
        (temporary / "deep").mkdir(parents=True)
        for name in ("first", "deep/second"):
            (temporary / name).write_bytes(100 * value)


def value_of(path):
    """The one byte of which a file, or both files of a folder, are made; None if nothing is there.

    Anything else is an error.
    """
    if not path.exists():
        return None
    texts = contents(path) if path.is_dir() else {"": path.read_bytes()}
    (text,) = set(texts.values())
    assert len(texts) == (2 if path.is_dir() else 1)
    assert text == 100 * text[:1] != b""
    return text[:1]


KINDS = {"a.json": write_file, "a.zarr": write_folder}


@pytest.fixture(autouse=True)
def unflushed(monkeypatch):
    """Nothing here waits for a disk: what is flushed is noted, and the disk is rebuilt."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def replayed(folder, act, *before):
    """States of the disk that differ in what may be read, each in a folder of its own.

    Yields:
        Whether it may be there when `act` is done, and the folder.
    """
    root = folder / "disk"
    root.mkdir()
    for prepare in before:
        prepare(root)
    with pytest.MonkeyPatch.context() as patched:
        recorder = Recorder(root, patched)
        act(root)
        recorder.look()
    seen = {}
    for count, tree in states(recorder):
        key = frozenset(item for item in tree.items() if not is_scrap(item[0], tree))
        done, _ = seen.get(key, (False, tree))
        seen[key] = done or count == len(recorder.operations), tree
    assert len(seen) > 5
    for number, (done, tree) in enumerate(seen.values()):
        at = folder / str(number)
        at.mkdir()
        build(tree, at)
        yield done, at


def is_scrap(path, tree):
    """Whether nobody reads it: it is in what is half written, or in what was replaced."""
    place, scratch, part = path.rpartition(".geonode/")
    whose = place.rpartition(".")
    replaced = part.startswith("old/") and f"{whose[0]}{whose[2]}" in tree
    return bool(scratch) and (part.startswith("new/") or replaced)


def require_recovery(path, values):
    """A run that fails brings back one of these values, one that ends leaves nothing but its own.

    Args:
        path: of a state.
        values: None for nothing.
    """
    with pytest.raises(ZeroDivisionError), replacing(path):
        raise ZeroDivisionError
    assert value_of(path) in values
    KINDS.get(path.name, write_file)(path, b"r")
    assert value_of(path) == b"r"
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("old", [None, b"1"])
def test_a_power_cut_between_any_two_calls_leaves_the_old_or_the_new_one(tmp_path, name, old):
    write, place = KINDS[name], f"deep/er/{name}"

    def before(root):
        if old is not None:
            write(root / place, old)

    for done, folder in replayed(tmp_path, lambda root: write(root / place, b"2"), before):
        value = value_of(folder / place)
        assert value in ({b"2"} if done else {None, old, b"2"}), folder
        require_recovery(folder / place, {b"2"} if done else {old, b"2"})


@pytest.mark.parametrize("renames", [1, 2])
def test_a_run_after_a_killed_one_may_be_cut_off_as_well(tmp_path, renames):
    """The first is killed after one or both renames of a folder, of which it flushed neither."""

    def act(root):
        path, own = root / "a.zarr", root / ".a.zarr.geonode"
        own.mkdir()
        (own / "lock").write_text("geonode 1")
        for kept in (own / "lock", own, root):
            descriptor = os.open(kept, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)
        write_folder(root / "second.zarr", b"2")
        (root / "second.zarr").rename(own / "new")
        path.rename(own / "old")
        if renames == 2:
            (own / "new").rename(path)
        write_folder(path, b"3")

    for done, folder in replayed(tmp_path, act, lambda root: write_folder(root / "a.zarr", b"1")):
        value = value_of(folder / "a.zarr")
        assert value in ({b"3"} if done else {None, b"1", b"2", b"3"}), folder


def keep(path, value):
    with pytest.raises(ZeroDivisionError), replacing(path):
        write_file(kept_of(path) / "part", value)
        raise ZeroDivisionError


def test_what_is_kept_is_whole_or_absent_and_no_run_is_refused(tmp_path):
    for done, folder in replayed(tmp_path, lambda root: keep(root / "map.json", b"2")):
        path = folder / "map.json"
        assert value_of(kept_of(path) / "part") in ({b"2"} if done else {None, b"2"})
        keep(path, b"3")
        assert value_of(kept_of(path) / "part") == b"3"
        require_recovery(path, {None})


def test_a_scratch_folder_that_is_cut_off_refuses_no_run(tmp_path):
    def act(root):
        with scratch_folder(root / "tiles.json") as folder:
            write_file(folder / "tile", b"2")

    for _, folder in replayed(tmp_path, act):
        require_recovery(folder / "tiles.json", {None})


def test_what_is_removed_is_whole_or_gone(tmp_path):
    def before(root):
        write_file(root / "state.json", b"1")

    for _, folder in replayed(tmp_path, lambda root: remove(root / "state.json"), before):
        assert value_of(folder / "state.json") in {None, b"1"}
        require_recovery(folder / "state.json", {None, b"1"})
