"""The engine that runs tiles in this process; those of other processes are derived from it.

A tile is an independent part of the work, such as the index of a grid, or models to train. A recipe
returns the function of a tile. It is called once in every working process, which opens the common
inputs there instead of receiving them. Large results are not returned either: a tile writes its own
part of an artifact and returns a summary.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

import numpy as np
from jaxtyping import Shaped

from geonode.compute.threads import take_one_thread
from geonode.progress import Progress, silent

Tile = TypeVar("Tile")
Found = TypeVar("Found")

Recipe = Callable[[], Callable[[Tile, Progress], Found]]
"""Function that returns the function of a tile, which reports progress by its second argument.

To run in another process, recipe, tiles and results must be picklable: no nested functions.
"""

Open = Callable[[], Shaped[np.ndarray, "..."]]
"""Function that opens an array in the process that calls it."""


class Engine:
    """Runs tiles in this process, in threads if there are several cores.

    Other processes share arrays by files in the folder `scratch`; None: there are no others.
    """

    def __init__(self, scratch: Path | None) -> None:
        self.scratch = scratch

    def work(
        self,
        recipe: Recipe[Tile, Found],
        tiles: Sequence[Tile],
        take: Callable[[Tile, Found], object],
        report: Progress = silent,
        cores: int | None = None,
    ) -> None:
        """Run every tile.

        When this ends, also by an error, no tile is running any more.

        Args:
            recipe: returns the function of a tile.
            tiles: tiles, started in this order.
            take: called here with every tile and its result, in the order of the tiles.
            report: called with units of finished work.
            cores: number of tiles to run at the same time on this machine, each with one thread;
                None: one after the other in this thread. The workers of a cluster run one tile at
                a time, whatever this is.

        Raises:
            EngineError: the tiles cannot be run.
            Exception: raised by a tile or by `take`; of several tiles, by the first.
        """
        work = recipe()
        if cores is None:
            for tile in tiles:
                take(tile, work(tile, report))
            return
        with ThreadPoolExecutor(cores, initializer=take_one_thread) as threads:
            results = threads.map(lambda tile: work(tile, report), tiles)
            for tile, found in zip(tiles, results, strict=True):
                take(tile, found)

    def shared(self, array: Shaped[np.ndarray, "..."]) -> Open:
        """Small handle of an array for recipes: a file that every process maps into its memory."""
        if self.scratch is None:
            return lambda: array
        path = self.scratch / f"{uuid4().hex}.npy"
        np.save(path, array, allow_pickle=False)
        return partial(np.load, path, mmap_mode="r", allow_pickle=False)


LOCAL = Engine(None)


def itself(value: Tile) -> Tile:
    """The value itself; `partial(itself, function)` is the recipe of a function."""
    return value
