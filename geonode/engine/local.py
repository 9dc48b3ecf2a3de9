"""Work on tiles, and the engine that does it in this process.

A tile is a part of the work that asks nothing of the others: an index, or models to train. A recipe
makes the function of a tile; it is followed once in every process that works, so that what all
tiles read is opened there and not sent about. Large results are not returned either: a tile writes
its part of an artifact, which no other tile touches, and returns what there is to say of it.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Shaped

from geonode.progress import Progress, silent

Tile = TypeVar("Tile")
Found = TypeVar("Found")

Recipe = Callable[[], Callable[[Tile, Progress], Found]]
"""Makes the function of a tile. It is told whom to tell of every unit of work.

To be followed in another process, recipe, tiles and results must be what `pickle` can take: no
functions made inside of functions.
"""

Open = Callable[[], Shaped[np.ndarray, "..."]]
"""Opens an array in whatever process it is called in."""


@runtime_checkable
class Engine(Protocol):
    """Does work on tiles."""

    def work(
        self,
        recipe: Recipe[Tile, Found],
        tiles: Sequence[Tile],
        take: Callable[[Tile, Found], object],
        report: Progress = silent,
        cores: int | None = None,
    ) -> None:
        """Work on every tile.

        When this ends, also by an error, no tile is being worked on any more.

        Args:
            recipe: of the function of a tile.
            tiles: in the order in which they are begun.
            take: called here with every tile and its result, in the order of the tiles.
            report: told of every unit of work.
            cores: tiles that this process may work on at once, each in a thread; None: one, in
                this thread. Other processes work on one at a time.

        Raises:
            EngineError: the tiles cannot be worked on.
            Exception: what a tile or `take` raises; of several tiles the first one's.
        """

    def shared(self, array: Shaped[np.ndarray, "..."]) -> Open:
        """A way to an array for recipes: small, however large the array is."""


class Local:
    """Works in this process."""

    def work(
        self,
        recipe: Recipe[Tile, Found],
        tiles: Sequence[Tile],
        take: Callable[[Tile, Found], object],
        report: Progress = silent,
        cores: int | None = None,
    ) -> None:
        """Work on every tile, as every `Engine` does."""
        work = recipe()
        if cores is None:
            for tile in tiles:
                take(tile, work(tile, report))
            return
        with ThreadPoolExecutor(cores) as threads:
            results = threads.map(lambda tile: work(tile, report), tiles)
            for tile, found in zip(tiles, results, strict=True):
                take(tile, found)

    def shared(self, array: Shaped[np.ndarray, "..."]) -> Open:
        """The array itself."""
        return lambda: array


LOCAL = Local()
