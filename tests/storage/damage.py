"""Ways to damage files."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from geonode.errors import CorruptArtifactError


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


def flip(file: Path) -> None:
    """Flip a bit in the middle."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0x10
    file.write_bytes(content)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def extend(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"\0")


def empty(file: Path) -> None:
    file.write_bytes(b"")


DAMAGES: tuple[Callable[[Path], None], ...] = (cut, extend, empty)


def assert_damage_is_found(file: Path, read: Callable[[Path], object]) -> None:
    """A flipped bit in any byte of a file, and another length, are errors of reading it."""
    for offset in flip_every_byte(file):
        with pytest.raises(CorruptArtifactError):
            read(file)
            pytest.fail(f"byte {offset}")
    kept = file.read_bytes()
    for damage in DAMAGES:
        damage(file)
        with pytest.raises(CorruptArtifactError, match=f"{file.name}: the file fails its checksum"):
            read(file)
        file.write_bytes(kept)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }
