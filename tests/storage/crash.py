"""What a disk may hold after its power was cut between any two calls of a write.

`Recorder` notes what happens below a folder: names that appear, move and go, contents, and what is
flushed. `states` then rebuilds what the disk may hold after any number of these operations:

- a name is safe when its folder was flushed, the content of a file when the file was;
- of what is not safe anything may be there: operations on the same name reach the disk in their
  order, all others in any, and of a file there may be its old content, a part of its new one, zeros
  of the new length, or all;
- one name moves whole or not at all, as in a file system with a journal.
"""

import os
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_PATCHED = ("rename", "replace", "unlink", "remove", "rmdir", "fsync")

Name = tuple[int, str]
"""A folder, by its number, and a name in it."""


@dataclass(frozen=True)
class Operation:
    """One thing that happened.

    Attributes:
        kind: `link` (a name appears), `move`, `unlink`, `write` or `flush`.
        number: of the file or folder.
        names: that the operation is about, the one it goes to last.
        content: of a `write`.
    """

    kind: str
    number: int
    names: tuple[Name, ...] = ()
    content: bytes = b""


@dataclass
class Recorder:
    """Notes what happens below a folder while it is entered with a pytest `monkeypatch`.

    What was there before is safe. Whoever writes, by whatever call, is seen at the next call that
    moves, removes or flushes something.
    """

    root: Path
    operations: list[Operation] = field(default_factory=list)
    folders: set[int] = field(default_factory=lambda: {0})
    _names: dict[Name, int] = field(default_factory=dict)
    _contents: dict[int, bytes] = field(default_factory=dict)
    _numbers: dict[int, int] = field(default_factory=dict)  # by inode
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _count: int = 0

    def start(self, monkeypatch) -> "Recorder":
        """Note what is there, and all that happens until `monkeypatch` is undone."""
        self._numbers[self.root.stat().st_ino] = 0
        self._look()
        self.operations.extend(Operation("flush", number) for number in {0, *self._names.values()})
        self.before = len(self.operations)
        for call in _PATCHED:
            monkeypatch.setattr(os, call, self._noting(getattr(os, call), call == "fsync"))
        return self

    def stop(self) -> list[Operation]:
        """Everything that happened."""
        self._look()
        return self.operations

    def _noting(self, call, flushes):
        def noted(*args, **kwargs):
            with self._lock:
                self._look()
                if flushes:  # nothing is: the disk is rebuilt, not cut off
                    number = self._numbers.get(os.fstat(args[0]).st_ino)
                    self.operations += [] if number is None else [Operation("flush", number)]
                    return None
                try:
                    return call(*args, **kwargs)
                finally:
                    self._look()

        return noted

    def _look(self):
        """Note what is different from the last look."""
        names, contents = {}, {}
        inodes = dict(self._tree(self.root, 0, names, contents))
        gone = {name: number for name, number in self._names.items() if names.get(name) != number}
        for name, number in names.items():
            if self._names.get(name) == number:
                continue
            old = [was for was, moved in gone.items() if moved == number]
            for was in old:
                del gone[was]
            gone.pop(name, None)
            self._note("move" if old else "link", number, (*old, name))
        for name, number in gone.items():
            self._note("unlink", number, (name,))
        for number, content in contents.items():
            if content != self._contents.get(number, b""):
                self.operations.append(Operation("write", number, content=content))
        self._names, self._contents, self._numbers = names, contents, inodes

    def _note(self, kind, number, names):
        self.operations.append(Operation(kind, number, names))

    def _tree(self, folder, number, names, contents):
        yield folder.stat().st_ino, number
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            inode = entry.inode()
            if inode not in self._numbers:
                self._count += 1
            known = self._numbers.get(inode, self._count)
            names[number, entry.name] = known
            if entry.is_dir(follow_symlinks=False):
                self.folders.add(known)
                yield from self._tree(Path(entry.path), known, names, contents)
            else:
                contents[known] = Path(entry.path).read_bytes()
                yield inode, known


Tree = dict[str, bytes | None]
"""Contents by path; None for a folder."""


def states(recorder: Recorder, seed: int = 0) -> Iterator[tuple[int, Tree]]:
    """What the disk may hold after any number of operations, that number with it."""
    choose = random.Random(seed)
    for count in range(recorder.before, len(recorder.operations) + 1):
        done = recorder.operations[:count]
        names = [at for at, operation in enumerate(done) if operation.names]
        before = {at: _before(at, names, done) for at in names}
        safe = set()
        for at in names:
            if _is_safe(at, done):
                safe |= {at, *before[at]}
        loose = [at for at in names if at not in safe]
        chosen = [safe, set(names)]
        chosen += [{at for at in names if gone not in {at, *before[at]}} for gone in loose]
        chosen += [safe | {at, *before[at]} for at in loose]
        for _ in range(2):
            some = [at for at in loose if choose.random() < 0.5]
            chosen.append(safe.union(some, *(before[at] for at in some)))
        contents = _contents(done)
        for there in {frozenset(one) for one in chosen}:
            linked = _linked(done, there)
            for way in range(4):
                yield count, _tree(recorder, linked, contents, lambda _, way=way: way)
            yield count, _tree(recorder, linked, contents, lambda _: choose.randrange(4))


def build(tree: Tree, folder: Path) -> None:
    """Make the files and folders of a state."""
    for path, content in sorted(tree.items()):
        if content is None:
            (folder / path).mkdir(parents=True)
        else:
            (folder / path).write_bytes(content)


def _before(at: int, names: list[int], done: list[Operation]) -> set[int]:
    """Operations on the same names that reach the disk earlier, and those before them."""
    touched, found = set(done[at].names), set()
    for earlier in reversed([one for one in names if one < at]):
        if touched & set(done[earlier].names):
            found.add(earlier)
            touched |= set(done[earlier].names)
    return found


def _is_safe(at: int, done: list[Operation]) -> bool:
    folder = done[at].names[-1][0]
    return any(later.kind == "flush" and later.number == folder for later in done[at:])


def _contents(done: list[Operation]) -> dict[int, tuple[bytes, ...]]:
    """What every file may hold: what was flushed, half and zeros of the newest, and the newest."""
    newest: dict[int, bytes] = {}
    flushed: dict[int, bytes] = {}
    for operation in done:
        if operation.kind == "write":
            newest[operation.number] = operation.content
        elif operation.kind == "flush":
            flushed[operation.number] = newest.get(operation.number, b"")
    found = {}
    for number, content in newest.items():
        old, half = flushed.get(number, b""), len(content) // 2
        torn = content[:half] + old[half:]
        found[number] = old, torn, old + bytes(max(0, len(content) - len(old))), content
    return found


def _linked(done: list[Operation], there: frozenset[int]) -> dict[Name, int]:
    """Names after the operations that reached the disk."""
    names: dict[Name, int] = {}
    for at in sorted(there):
        operation = done[at]
        for name in operation.names if operation.kind != "link" else ():
            names.pop(name, None)
        if operation.kind != "unlink":
            names[operation.names[-1]] = operation.number
    return names


def _tree(recorder, names, contents, way) -> Tree:
    """Everything below the root that a name leads to."""
    inside: dict[int, list[tuple[str, int]]] = {}
    for (folder, name), number in names.items():
        inside.setdefault(folder, []).append((name, number))
    found: Tree = {}
    open_ = [("", 0)]
    while open_:
        path, folder = open_.pop()
        for name, number in inside.get(folder, ()):
            if number in recorder.folders:
                found[f"{path}{name}"] = None
                open_.append((f"{path}{name}/", number))
            else:
                held = contents.get(number, (b"",) * 4)
                found[f"{path}{name}"] = held[way(number)]
    return found
