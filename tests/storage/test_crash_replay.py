"""A power cut between any two calls of a write: the old one, the new one, or none and a rerun."""

import os

import numpy as np
import pytest

from geonode.errors import MissingArtifactError
from geonode.storage.artifact import artifact_writer, open_artifact
from geonode.storage.atomic import kept_of, remove, replacing, scratch_folder
from geonode.storage.document import read_document, write_document
from tests.storage.crash import Recorder, build, states
from tests.storage.damage import contents


def write_arrays(path, value):
    with artifact_writer(path, {"value": value}) as writer:
        writer.stored("stored", ("x",), np.full(3, value), units="1", long_name="stored")
        writer.mapped("mapped", ("x",), (3,), float, units="1", long_name="mapped")[:] = value


def read_arrays(path):
    artifact = open_artifact(path)
    read = {artifact.attributes["value"], *artifact["stored"], *artifact["mapped"]}
    (value,) = read
    return value


def write_json(path, value):
    write_document(path, {"value": value})


def read_json(path):
    return read_document(path)["value"]


KINDS = {"a.json": (write_json, read_json), "a.zarr": (write_arrays, read_arrays)}


def rewrite(path, value):
    """Write a text in the way of the kind that is there: a file, or a folder."""
    with replacing(path) as temporary:
        if path.suffix == ".json":
            temporary.write_text(value)
        else:
            temporary.mkdir()
            (temporary / "file").write_text(value)


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
        recorder = Recorder(root).start(patched)
        act(root)
        last = len(recorder.stop())
    seen = {}
    for count, tree in states(recorder):
        key = frozenset(item for item in tree.items() if not _is_scrap(item[0], tree))
        done, _ = seen.get(key, (False, tree))
        seen[key] = done or count == last, tree
    for number, (done, tree) in enumerate(seen.values()):
        at = folder / str(number)
        at.mkdir()
        build(tree, at)
        yield done, at


def _is_scrap(path, tree):
    """Whether nobody reads it: it is in what is half written, or in what was replaced."""
    place, scratch, part = path.rpartition(".geonode/")
    whose = place.rpartition(".")
    replaced = part.startswith("old/") and f"{whose[0]}{whose[2]}" in tree
    return bool(scratch) and (part.startswith("new/") or replaced)


@pytest.fixture(autouse=True)
def _unflushed(monkeypatch):
    """Nothing here waits for a disk: what is flushed is noted, and the disk is rebuilt."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def flush(path):
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def found(read, path):
    """What a reader finds; None for nothing. That something is damaged is an error."""
    try:
        return read(path)
    except MissingArtifactError:
        return None


def require_recovery(path, read, values):
    """A run that fails brings back one of these values, one that ends leaves nothing but its own.

    Args:
        path: of a state.
        read: reads a value.
        values: None for nothing.
    """
    with pytest.raises(ZeroDivisionError), replacing(path):
        raise ZeroDivisionError
    assert found(read, path) in values
    rewrite(path, "rerun")
    (kept,) = contents(path.parent).values()
    assert kept == b"rerun"
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("old", [None, 1.0])
def test_a_power_cut_between_any_two_calls_leaves_the_old_or_the_new_one(tmp_path, name, old):
    write, read = KINDS[name]
    place = f"deep/er/{name}"

    def before(root):
        if old is not None:
            write(root / place, old)

    count = 0
    for done, folder in replayed(tmp_path, lambda root: write(root / place, 2.0), before):
        value = found(read, folder / place)
        assert value in ({2.0} if done else {None, old, 2.0}), folder
        require_recovery(folder / place, read, {2.0} if done else {old, 2.0})
        count += 1
    assert count > 10


def killed_after(renames):
    """What a process does that is killed after so many of the two renames, and flushed neither."""

    def act(root):
        path = root / "arrays.zarr"
        own = path.with_name(f".{path.name}.geonode")
        own.mkdir()
        (own / "lock").write_text("geonode 1")
        for kept in (own / "lock", own, root):
            flush(kept)
        write_arrays(root / "second.zarr", 2.0)
        (root / "second.zarr").rename(own / "new")
        path.rename(own / "old")
        if renames == 2:
            (own / "new").rename(path)

    return act


@pytest.mark.parametrize("renames", [1, 2])
def test_a_run_after_a_killed_one_may_be_cut_off_as_well(tmp_path, renames):
    def act(root):
        killed_after(renames)(root)
        write_arrays(root / "arrays.zarr", 3.0)

    for done, folder in replayed(
        tmp_path, act, lambda root: write_arrays(root / "arrays.zarr", 1.0)
    ):
        value = found(read_arrays, folder / "arrays.zarr")
        assert value in ({3.0} if done else {None, 1.0, 2.0, 3.0}), folder


def keep(path, value):
    with pytest.raises(ZeroDivisionError), replacing(path):
        write_json(kept_of(path) / "part", value)
        raise ZeroDivisionError


def test_what_is_kept_is_whole_or_absent_and_no_run_is_refused(tmp_path):
    for done, folder in replayed(tmp_path, lambda root: keep(root / "map.json", 2.0)):
        path = folder / "map.json"
        assert found(read_json, kept_of(path) / "part") in ({2.0} if done else {None, 2.0})
        keep(path, 3.0)
        assert read_json(kept_of(path) / "part") == 3.0
        require_recovery(path, read_json, {None})


def test_a_scratch_folder_that_is_cut_off_refuses_no_run(tmp_path):
    def act(root):
        with scratch_folder(root / "tiles.json") as folder:
            write_json(folder / "tile", 2.0)

    for _, folder in replayed(tmp_path, act):
        require_recovery(folder / "tiles.json", read_json, {None})


def test_what_is_removed_is_whole_or_gone(tmp_path):
    for _, folder in replayed(
        tmp_path,
        lambda root: remove(root / "state.json"),
        lambda root: write_json(root / "state.json", 1.0),
    ):
        assert found(read_json, folder / "state.json") in {None, 1.0}
        require_recovery(folder / "state.json", read_json, {None, 1.0})
