"""All (pair, wavelength) rows of a batch, which are counted and cut but never listed.

Rows are numbered with wavelengths fastest. A tile is a rectangle of them that fits into memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from geonode.arguments import require_above
from geonode.errors import GeometryError


class Tile(NamedTuple):
    """Every one of some neighbouring pairs at every one of some neighbouring wavelengths."""

    pairs: slice
    wavelengths: slice

    @property
    def rows(self) -> int:
        """How many there are."""
        return _length(self.pairs) * _length(self.wavelengths)


@dataclass(frozen=True)
class Product:
    """Every pair at every wavelength; its length is the number of rows.

    Attributes:
        pairs: how many.
        wavelengths: how many.
    """

    pairs: int
    wavelengths: int

    def __post_init__(self) -> None:
        """Refuse a product without rows.

        Raises:
            GeometryError: naming what there is none of.
        """
        require_above("pairs", self.pairs, 0)
        require_above("wavelengths", self.wavelengths, 0)

    def __len__(self) -> int:
        return self.pairs * self.wavelengths

    def row(self, index: int) -> tuple[int, int]:
        """Pair and wavelength of a row.

        Raises:
            GeometryError: there is no such row.
        """
        _require_inside("index", index, len(self))
        return divmod(index, self.wavelengths)

    def index(self, pair: int, wavelength: int) -> int:
        """Number of the row of a pair and a wavelength.

        Raises:
            GeometryError: there is no such pair or wavelength.
        """
        _require_inside("pair", pair, self.pairs)
        _require_inside("wavelength", wavelength, self.wavelengths)
        return pair * self.wavelengths + wavelength

    def tiles(self, rows: int) -> Iterator[Tile]:
        """Tiles that hold every row once, made one at a time, in the order of their first rows.

        A tile is as many whole pairs as fit, or a part of one pair if none does. There are as
        few tiles as that allows, and they differ by at most one pair, or by one wavelength.

        Args:
            rows: most rows of a tile.

        Raises:
            GeometryError: a tile would have no rows.
        """
        require_above("rows", rows, 0)
        most_pairs = max(rows // self.wavelengths, 1)
        return (
            Tile(pairs, wavelengths)
            for pairs in _parts(self.pairs, most_pairs)
            for wavelengths in _parts(self.wavelengths, rows)
        )


def rows_within(memory: int, bytes_per_row: int) -> int:
    """Rows of a tile that fit into some memory.

    Args:
        memory: bytes.
        bytes_per_row: what a row needs while it is worked on.

    Raises:
        GeometryError: not even one fits.
    """
    require_above("bytes_per_row", bytes_per_row, 0)
    if memory < bytes_per_row:
        raise GeometryError(
            f"memory: found {memory} bytes, expected at least the {bytes_per_row} of one row; "
            "allow more memory, or ask for less per row"
        )
    return memory // bytes_per_row


def _parts(count: int, most: int) -> Iterator[slice]:
    """The fewest slices of 0 to count with at most so many items; they differ by at most one."""
    parts = -(-count // most)
    # the first items are rounded up, so that the first part is one of the largest
    return (slice(-(-i * count // parts), -(-(i + 1) * count // parts)) for i in range(parts))


def _length(part: slice) -> int:
    """Items of a slice."""
    return int(part.stop - part.start)


def _require_inside(name: str, value: int, count: int) -> None:
    """Refuse a number of something that there is not, negative ones included."""
    if not 0 <= value < count:
        raise GeometryError(f"{name}: found {value}, expected 0 to {count - 1}")
