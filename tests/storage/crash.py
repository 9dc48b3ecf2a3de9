"""What a disk may hold after its power was cut between any two calls of a write.

`Recorder` notes what happens below a folder: names that appear, move and go, contents, and what is
flushed. `states` then rebuilds what the disk may hold after any number of these operations:

- a name is safe when its folder was flushed, the content of a file when the file was;
- of what is not safe anything may be there: operations on the same name reach the disk in their
  order, all others in any, and of a file there may be its old content, a part of its new one, zeros
  of the new length, or all;
- one name moves whole or not at all, as in a file system with a journal.

A process that is killed leaves one of these states too: all that was done so far.
"""

import itertools
import os
import random
from pathlib import Path
from typing import NamedTuple

PATCHED = ("rename", "replace", "unlink", "remove", "rmdir", "fsync")


class Operation(NamedTuple):
    """One thing that happened: `link` (a name appears), `move`, `unlink`, `write` or `flush`."""

    kind: str
    number: int  # of the file or folder
    names: tuple[tuple[int, str], ...] = ()  # folder and name; the one it goes to comes last
    content: bytes = b""


class Recorder:
    """Notes what happens below a folder until a pytest `monkeypatch` is undone.

    What was there before is safe. Whoever writes, by whatever call, is seen at the next call that
    moves, removes or flushes something.
    """

    def __init__(self, root: Path, monkeypatch) -> None:
        self.root, self.operations, self.folders = root, [], {0}
        self.names, self.contents = {}, {}
        self.numbers, self.unused = {root.stat().st_ino: 0}, itertools.count(1)  # by inode
        self.look()
        self.operations += [Operation("flush", number) for number in {0, *self.names.values()}]
        self.before = len(self.operations)
        for call in PATCHED:
            monkeypatch.setattr(os, call, self.noting(getattr(os, call), call == "fsync"))

    def noting(self, call, flushes):
        def noted(*args, **kwargs):
            self.look()
            if flushes:  # nothing is: the disk is rebuilt, not cut off
                number = self.numbers.get(os.fstat(args[0]).st_ino)
                self.operations += [] if number is None else [Operation("flush", number)]
                return
            try:
                call(*args, **kwargs)
            finally:
                self.look()

        return noted

    def look(self):
        """Note what is different from the last look."""
        names, contents, inodes = {}, {}, {self.root.stat().st_ino: 0}
        self.walk(self.root, 0, names, contents, inodes)
        gone = {name: number for name, number in self.names.items() if names.get(name) != number}
        for name, number in names.items():
            if self.names.get(name) != number:
                old = [was for was, moved in gone.items() if moved == number]
                for was in [*old, name]:
                    gone.pop(was, None)
                kind = "move" if old else "link"
                self.operations.append(Operation(kind, number, (*old, name)))
        self.operations += [Operation("unlink", number, (name,)) for name, number in gone.items()]
        self.operations += [
            Operation("write", number, content=content)
            for number, content in contents.items()
            if content != self.contents.get(number, b"")
        ]
        self.names, self.contents, self.numbers = names, contents, inodes

    def walk(self, folder, number, names, contents, inodes):
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            if entry.inode() not in self.numbers:
                self.numbers[entry.inode()] = next(self.unused)
            known = self.numbers[entry.inode()]
            names[number, entry.name] = inodes[entry.inode()] = known
            if entry.is_dir(follow_symlinks=False):
                self.folders.add(known)
                self.walk(Path(entry.path), known, names, contents, inodes)
            else:
                contents[known] = Path(entry.path).read_bytes()


def states(recorder, seed=0):
    """What the disk may hold after any number of operations: contents by path, None for folders.

    Yields:
        Number of operations, and the state.
    """
    choose = random.Random(seed)
    for count in range(recorder.before, len(recorder.operations) + 1):
        done = recorder.operations[:count]
        contents = possible_contents(done)
        for there in {frozenset(one) for one in possible_names(done, choose)}:
            linked = {}
            for at in sorted(there):
                operation = done[at]
                for name in operation.names if operation.kind != "link" else ():
                    linked.pop(name, None)
                if operation.kind != "unlink":
                    linked[operation.names[-1]] = operation.number
            for way in (*range(4), None):
                held = {
                    number: ways[choose.randrange(4) if way is None else way]
                    for number, ways in contents.items()
                }
                yield count, tree(recorder, linked, held)


def possible_names(done, choose):
    """Sets of the operations on names that may have reached the disk."""
    names = [at for at, operation in enumerate(done) if operation.names]
    before = {}  # operations on the same names that come first, and those before them
    for at in names:
        touched, before[at] = set(done[at].names), {at}
        for earlier in reversed([one for one in names if one < at]):
            if touched & set(done[earlier].names):
                before[at].add(earlier)
                touched |= set(done[earlier].names)
    flushed = {}  # last flush of every folder
    for at, operation in enumerate(done):
        if operation.kind == "flush":
            flushed[operation.number] = at
    kept = [at for at in names if flushed.get(done[at].names[-1][0], -1) > at]
    safe = set().union(*(before[at] for at in kept))
    loose = [at for at in names if at not in safe]
    yield safe
    yield set(names)
    for lost in loose:
        yield {at for at in names if lost not in before[at]}
        yield safe | before[lost]
    for _ in range(2):
        yield safe.union(*(before[at] for at in loose if choose.random() < 0.5))


def possible_contents(done):
    """What every file may hold: what was flushed, half and zeros of the newest, and the newest."""
    newest, flushed = {}, {}
    for operation in done:
        if operation.kind == "write":
            newest[operation.number] = operation.content
        elif operation.kind == "flush":
            flushed[operation.number] = newest.get(operation.number, b"")
    found = {}
    for number, content in newest.items():
        old, half = flushed.get(number, b""), len(content) // 2
        zeros = old + bytes(max(0, len(content) - len(old)))
        found[number] = old, content[:half] + old[half:], zeros, content
    return found


def tree(recorder, linked, held):
    """Everything below the root that a name leads to."""
    found, waiting = {}, [("", 0)]
    while waiting:
        path, folder = waiting.pop()
        for (above, name), number in linked.items():
            if above == folder:
                is_folder = number in recorder.folders
                found[f"{path}{name}"] = None if is_folder else held.get(number, b"")
                waiting += [(f"{path}{name}/", number)] if is_folder else []
    return found


def build(state, folder: Path) -> None:
    """Make the files and folders of a state."""
    for path, content in sorted(state.items()):
        if content is None:
            (folder / path).mkdir(parents=True)
        else:
            (folder / path).write_bytes(content)
