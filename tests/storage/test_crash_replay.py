"""A kill before any call of a write leaves the old one, the new one or none, and power cuts too."""

import itertools
import os
from pathlib import Path

import pytest

from geonode.storage.atomic import kept_of, remove, replacing, scratch_folder, write_bytes
from tests.storage.damage import contents

CALLS = ("mkdir", "rename", "replace", "unlink", "rmdir", "open", "write", "ftruncate", "fsync")


def write_file(path, value):
    write_bytes(path, 100 * value)


def write_folder(path, value):
    with replacing(path) as temporary:
        (temporary / "deep").mkdir(parents=True)
        for name in ("first", "deep/second"):
            (temporary / name).write_bytes(100 * value)


def keep(path, value):
    with pytest.raises(ZeroDivisionError), replacing(path):
        write_file(kept_of(path) / "part", value)
        raise ZeroDivisionError


def scratch(path, value):
    with scratch_folder(path) as folder:
        write_file(folder / "tile", value)


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


def killed(act, at):
    """Whether a process that acts ended before a call of some number; its cleaning does not run."""
    process = os.fork()
    if process == 0:
        count = itertools.count()

        def ending(call):
            return lambda *given, **named: (
                os._exit(9) if next(count) == at else call(*given, **named)
            )

        for name in CALLS:
            setattr(os, name, ending(getattr(os, name)))
        act()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 9


@pytest.mark.parametrize(
    ("write", "act", "old"),
    [
        (write_file, write_file, b"1"),
        (write_folder, write_folder, None),
        (write_folder, write_folder, b"1"),
        (write_file, keep, None),
        (write_file, scratch, b"1"),
        (write_file, lambda path, value: remove(path), b"1"),
    ],
)
def test_a_kill_before_any_call_loses_nothing_and_refuses_no_run(tmp_path, write, act, old):
    for at in itertools.count():
        path = tmp_path / str(at) / "deep/er/a"
        if old is not None:
            write(path, old)
        ended = killed(lambda path=path: act(path, b"2"), at)
        assert value_of(path) in {None, old, b"2"}, at
        if act is keep:
            assert value_of(kept_of(path) / "part") in ({None, b"2"} if ended else {b"2"})
        # A run that fails brings back what was moved away; one that ends leaves its own alone.
        with pytest.raises(ZeroDivisionError), replacing(path):
            raise ZeroDivisionError
        gone = None if old is None or act not in (write_file, write_folder, scratch) else old
        assert value_of(path) in {gone, old, b"2"}, at
        write(path, b"r")
        assert value_of(path) == b"r"
        assert [entry.name for entry in path.parent.iterdir()] == [path.name]
        if not ended:
            break
    assert at > 5


@pytest.mark.parametrize("write", [write_file, write_folder])
def test_what_is_new_is_flushed_before_it_moves_and_the_move_before_the_old_goes(
    tmp_path, monkeypatch, write
):
    """So that a power cut after any call finds one of them whole."""
    path, events = tmp_path / "a", []
    write(path, b"1")

    def note(name):
        call = getattr(os, name)

        def noted(what, *given, **named):
            at = Path(f"/proc/self/fd/{what}").readlink() if name == "fsync" else what
            events.append((name.replace("replace", "rename"), os.fspath(at)))
            return call(what, *given, **named)

        monkeypatch.setattr(os, name, noted)

    for name in ("fsync", "rename", "replace", "rmdir"):
        note(name)
    write(path, b"2")
    new = tmp_path / ".a.geonode" / "new"
    names = [""] if write is write_file else ["", "first", "deep", "deep/second"]
    moved = events.index(("rename", str(new)))
    assert {("fsync", str(new / name)) for name in names} <= {*events[:moved]}
    after = events.index(("fsync", str(tmp_path)), moved)
    assert all(place > after for place, (name, _) in enumerate(events) if name == "rmdir")
    assert value_of(path) == b"2"
