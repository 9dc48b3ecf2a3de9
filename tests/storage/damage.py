"""Ways to damage files."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path


def flip_every_byte(file: Path) -> Iterator[int]:
    """Flip one random bit of every byte in turn, yield the byte's offset, and put it back."""
    choose = random.Random(0)
    with file.open("rb+", buffering=0) as stream:
        for offset, byte in enumerate(stream.read()):
            for value in (byte ^ (1 << choose.randrange(8)), byte):
                stream.seek(offset)
                stream.write(bytes([value]))
                if value != byte:
                    yield offset


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def extend(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"\0")


def empty(file: Path) -> None:
    file.write_bytes(b"")


DAMAGES: tuple[Callable[[Path], None], ...] = (cut, extend, empty)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }
