"""Protocol of an engine, the engine that runs tiles in this process, and the choice of one.

A tile is an independent part of the work, such as an index or models to train. A recipe returns the
function of a tile. It is called once in every working process, which opens the common inputs there
instead of receiving them. Large results are not returned either: a tile writes its own part of an
artifact and returns a summary.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Protocol, TypeVar, runtime_checkable
from uuid import uuid4

import numpy as np
from jaxtyping import Shaped

from geonode.config import EngineParameters
from geonode.errors import EngineError
from geonode.progress import Progress, silent
from geonode.storage.atomic import scratch_folder

Tile = TypeVar("Tile")
Found = TypeVar("Found")

Recipe = Callable[[], Callable[[Tile, Progress], Found]]
"""Function that returns the function of a tile, which reports progress by its second argument.

To run in another process, recipe, tiles and results must be picklable: no nested functions.
"""

Open = Callable[[], Shaped[np.ndarray, "..."]]
"""Function that opens an array in the process that calls it."""


@runtime_checkable
class Engine(Protocol):
    """Runs tiles."""

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
            cores: number of tiles to run at the same time in this process or in others of this
                machine, each with one thread; None: this thread alone. The workers of a cluster
                run one tile at a time.

        Raises:
            EngineError: the tiles cannot be run.
            Exception: raised by a tile or by `take`; of several tiles, by the first.
        """

    def shared(self, array: Shaped[np.ndarray, "..."]) -> Open:
        """Small handle of an array, for recipes."""


class Local:
    """Engine that runs tiles in this process."""

    def work(
        self,
        recipe: Recipe[Tile, Found],
        tiles: Sequence[Tile],
        take: Callable[[Tile, Found], object],
        report: Progress = silent,
        cores: int | None = None,
    ) -> None:
        """Run every tile; see `Engine`."""
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


def mapped(array: Shaped[np.ndarray, "..."], folder: Path) -> Open:
    """Handle of an array in a new file, which every process maps into its memory."""
    path = folder / f"{uuid4().hex}.npy"
    np.save(path, array, allow_pickle=False)
    return partial(np.load, path, mmap_mode="r", allow_pickle=False)


@contextmanager
def open_engine(
    parameters: EngineParameters, scratch: Path, processes: BaseContext | None = None
) -> Iterator[Engine]:
    """Context with the engine of the block `engine`.

    Args:
        parameters: the block `engine` of the parameters.
        scratch: path for `scratch_folder`, for files shared by several processes.
        processes: starts the processes of a local engine, from `processes_for_tiles`; None: it has
            threads.

    Raises:
        EngineError: Dask is not installed, or the cluster does not answer.
        ArtifactError: the folder cannot be made, or another process uses it.
    """
    if parameters.kind == "local":
        if processes is None:
            yield LOCAL
            return
        from geonode.compute.processes import Processes  # noqa: PLC0415 - it needs this module

        with scratch_folder(scratch) as folder:
            yield Processes(processes, folder)
        return
    if find_spec("distributed") is None:
        raise EngineError(
            'engine.kind dask: found no package distributed; pip install "geonode-spectra[cluster]"'
        )
    from geonode.compute.cluster import open_cluster  # noqa: PLC0415 - it needs Dask

    with open_cluster(parameters.scheduler, parameters.workers, scratch) as engine:
        yield engine
