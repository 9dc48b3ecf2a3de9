"""Engine that runs tiles in the processes of a Dask cluster.

Client and scheduler handle small objects only: a recipe once, tiles, and their summaries. Arrays
are on a disk that all processes share.
"""

import asyncio
import os
import platform
import signal
import socket
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager, suppress
from functools import partial
from importlib.metadata import version
from itertools import islice
from logging import CRITICAL
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
from dask import config
from distributed import CancelledError, Client, Future, LocalCluster, get_worker, wait
from distributed.comm import connect
from distributed.scheduler import KilledWorker
from distributed.security import Security
from jaxtyping import Shaped

from geonode.compute.device import one_thread
from geonode.compute.local import Found, Open, Recipe, Tile, mapped
from geonode.errors import EngineError
from geonode.progress import Progress, silent
from geonode.storage.atomic import scratch_folder

ANSWER_SECONDS = 30
"""Time limit for an answer of the scheduler, and for a first worker."""

BEGUN_PER_WORKER = 2
"""Tiles that may run or wait, per worker: the running one and the next."""

ENVIRON = "distributed.nanny.pre-spawn-environ"
OF_WORKERS = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), 1)
"""Environment of the workers of a local cluster: that of Dask without MALLOC_TRIM_THRESHOLD_, with
which every large array takes new memory from the system."""

NO_PAGES: dict[str, list[str]] = {
    f"distributed.{who}.http.routes": [] for who in ("scheduler", "worker")
}
"""No pages on the HTTP port of Dask, which does not check certificates."""

PACKAGES = ("numpy", "torch", "zarr")  # whose versions affect the bytes of a result


def _versions() -> dict[str, str]:
    """Versions that affect the bytes of a result: Python, packages, and the code of this one."""
    root, code = Path(__file__).parents[1], 0
    for file in sorted(root.rglob("*.py")):
        code = zlib.crc32(file.relative_to(root).as_posix().encode() + file.read_bytes(), code)
    return {
        "Python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
        "geonode": f"of checksum {code:08x}",
    }


VERSIONS = _versions()
"""Versions of this process at import time, as the code may change on the disk later."""


class Session(NamedTuple):
    """Requirements of a client on its workers.

    Attributes:
        token: identity of one recipe of one client.
        folder: working folder.
        mark: a file in it, which proves that the disk is shared.
        versions: versions that affect the bytes of a result, by name.
    """

    token: str
    folder: Path
    mark: Path
    versions: dict[str, str]

    def require(self) -> None:
        """Refuse a worker whose results could differ from those of the client.

        Raises:
            EngineError: this worker has other versions, several threads, or another disk.
        """
        worker = get_worker()
        where = f"worker {worker.address} on {socket.gethostname()}"
        if worker.state.nthreads != 1:
            raise EngineError(
                f"{where}: found {worker.state.nthreads} threads, expected 1; start it with "
                "--nthreads 1, and as many workers as there are cores to use"
            )
        if not (self.folder / self.mark).exists():
            raise EngineError(
                f"{where}: found no {self.folder / self.mark}, expected the disk of the client; "
                "mount it at the same place"
            )
        for name, expected in self.versions.items():
            if (found := VERSIONS[name]) != expected:
                raise EngineError(
                    f"{where}: found {name} {found}, expected {expected} as at the client; "
                    "install the same there"
                )


class Cluster:
    """Engine that runs tiles on a Dask cluster, opened by `open_cluster`.

    Args:
        client: client of the cluster.
        scratch: folder for shared arrays, on a disk that all processes share.
        versions: versions that workers must have.
        abandon: called with the running tiles when the client is interrupted.
    """

    def __init__(
        self,
        client: Client,
        scratch: Path,
        versions: dict[str, str],
        abandon: Callable[[list[Future]], object],
    ) -> None:
        self._client, self._scratch = client, scratch
        self._versions, self._abandon = versions, abandon
        self._mark = scratch / "mark"
        self._mark.touch()

    def work(
        self,
        recipe: Recipe[Tile, Found],
        tiles: Sequence[Tile],
        take: Callable[[Tile, Found], object],
        report: Progress = silent,
        cores: int | None = None,  # noqa: ARG002 - a worker runs one tile at a time
    ) -> None:
        """Run every tile, see `Engine`; a tile whose worker dies is run again."""
        session = Session(uuid4().hex, Path.cwd(), self._mark, self._versions)
        # Submitted as a task, as the cluster recomputes lost tasks but not lost scattered data.
        given = self._client.submit(_itself, recipe, pure=False)
        follow = partial(self._client.submit, _on_worker, session, given, pure=False)
        begun = _Begun(follow, tiles)
        with self._client.as_current():
            try:
                for number, tile in enumerate(tiles):
                    most = BEGUN_PER_WORKER * max(1, len(self._client.nthreads()))
                    found, units = begun.result(number, most)
                    take(tile, found)
                    report(units)
            except Exception:
                # No worker may still be writing when the caller removes unfinished files.
                begun.end()
                raise
            except BaseException:
                self._abandon(begun.waiting)
                raise

    def shared(self, array: Shaped[np.ndarray, "..."]) -> Open:
        """Handle of a file that every process maps into its memory."""
        return mapped(array, self._scratch)


class _Begun:
    """Tiles that were submitted and whose results were not taken yet, in their order."""

    def __init__(self, submit: Callable[..., Future], tiles: Sequence[Any]) -> None:
        self._submit, self._tiles = submit, tiles
        self._left = iter(enumerate(tiles))
        self.waiting: list[Future] = []

    def result(self, number: int, most: int) -> Any:
        """Result of the first tile that waits; others are submitted meanwhile, up to a number.

        Raises:
            EngineError: the tile was given up.
            Exception: raised by the tile.
        """
        where = f"tile {number + 1} of {len(self._tiles)}"
        try:
            self._submit_more(most)
            while not self.waiting[0].done():
                wait(self._running(), return_when="FIRST_COMPLETED")
                self._submit_more(most)
            return self.waiting.pop(0).result()  # waits if the result was lost just now
        except CancelledError as error:
            raise EngineError(
                f"{where}: the connection to the scheduler was lost; run it again"
            ) from error
        except KilledWorker as error:
            raise EngineError(
                f"{where}: found no worker that survives it, expected one; look at its memory"
            ) from error

    def _running(self) -> list[Future]:
        return [future for future in self.waiting if not future.done()]

    def _submit_more(self, most: int) -> None:
        """Submit the next tiles, unless one has failed."""
        if all(future.status != "error" for future in self.waiting):
            for index, tile in islice(self._left, max(0, most - len(self._running()))):
                self.waiting.append(self._submit(tile, priority=-index))

    def end(self) -> None:
        """Wait for all tiles that were submitted."""
        with suppress(CancelledError):
            wait(self.waiting)


@contextmanager
def open_cluster(address: str | None, workers: int, scratch: Path) -> Iterator[Cluster]:
    """Context with the engine of a cluster.

    Args:
        address: address of the scheduler; None: a local cluster, closed at the end.
        workers: processes of a local cluster.
        scratch: path for `scratch_folder`, on a disk that all processes share.

    Raises:
        EngineError: the scheduler does not answer, or has no worker.
        ArtifactError: the folder cannot be made, or another process uses it.
    """
    with scratch_folder(scratch) as folder, _joined(address, workers) as (client, abandon):
        yield Cluster(client, folder, {} if address is None else VERSIONS, abandon)


@contextmanager
def _joined(
    address: str | None, workers: int
) -> Iterator[tuple[Client, Callable[[list[Future]], object]]]:
    """Client of a cluster, and the function that abandons its tiles after an interrupt."""
    if address is not None:
        with _client_of(address) as client:
            try:
                client.wait_for_workers(1, timeout=ANSWER_SECONDS)
            except TimeoutError as error:
                raise EngineError(
                    f"engine.scheduler: found no worker of {address} in {ANSWER_SECONDS} s, "
                    "expected one at least; start it with dask worker"
                ) from error
            yield client, wait
        return
    with (
        _environment_kept(),
        TemporaryDirectory(prefix="geonode-") as folder,
        config.set({ENVIRON: OF_WORKERS, **NO_PAGES}),
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            security=True,  # temporary certificates, without which nobody can connect
            local_directory=folder,  # which no other user can read or create first
            dashboard_address=None,
            # a port is opened all the same: not the default one, which may be in use
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
            memory_limit=0,  # the parameters limit the memory of tiles
            silence_logs=CRITICAL,  # errors are raised here
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client, lambda _: _kill(cluster)


def _client_of(address: str) -> Client:
    """Client of a running cluster.

    Raises:
        EngineError: there is no scheduler, or it requires certificates.
    """
    connection = Security().get_connection_args("client")
    if address.startswith("tls://") and connection["ssl_context"] is None:
        raise EngineError(
            f"engine.scheduler: found {address} and no certificates, expected those of the client; "
            "name ca-file, client.cert and client.key under distributed.comm.tls in the "
            "configuration of Dask"
        )
    try:
        # The client itself would wait forever for a listener that is no scheduler.
        asyncio.run(_answered(address, connection))
        return Client(address, timeout=ANSWER_SECONDS, set_as_default=False)
    except Exception as error:  # the answer may be anything
        raise EngineError(
            f"engine.scheduler: found no answer of {address} in {ANSWER_SECONDS} s, expected "
            "a scheduler of Dask; look whether it runs and can be reached from here"
        ) from error


async def _answered(address: str, connection: dict[str, Any]) -> None:
    """Wait until a scheduler identifies itself.

    Raises:
        Exception: nothing answers in time, or something else does.
    """

    async def ask() -> dict[str, Any]:
        comm = await connect(address, timeout=ANSWER_SECONDS, **connection)
        try:
            await comm.write({"op": "identity", "reply": True})
            return await comm.read()
        finally:
            comm.abort()

    answer = await asyncio.wait_for(ask(), ANSWER_SECONDS)
    if answer["type"] != "Scheduler":
        raise ValueError(f"found a {answer['type']}")


@contextmanager
def _environment_kept() -> Iterator[None]:
    """Context that restores the environment, which Dask changes for its workers."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _kill(cluster: LocalCluster) -> None:
    """Kill the workers of a local cluster."""
    for nanny in cluster.workers.values():
        nanny.auto_restart = False
        if nanny.pid is not None:
            os.kill(nanny.pid, signal.SIGKILL)


_WORK: dict[str, Callable[[Any, Progress], Any]] = {}  # of this worker, by token; one at a time


def _on_worker(session: Session, recipe: Recipe[Any, Any], tile: Any) -> tuple[Any, int]:
    """Result of a tile, and its units of work."""
    units = 0

    def count(done: int) -> None:
        nonlocal units
        units += done

    if session.token not in _WORK:
        session.require()
    with chdir(session.folder), one_thread():
        if session.token not in _WORK:
            _WORK.clear()
            _WORK[session.token] = recipe()
        found = _WORK[session.token](tile, count)
    return found, units


def _itself(recipe: Recipe[Any, Any]) -> Recipe[Any, Any]:
    return recipe
