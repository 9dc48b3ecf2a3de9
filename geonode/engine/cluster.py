"""The engine that works in the processes of a cluster, by Dask.

Client and scheduler see small things alone: a recipe once, tiles, and what there is to say of them.
Arrays are on a disk that all processes share.
"""

import asyncio
import os
import platform
import signal
import socket
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager
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
from distributed import Client, Future, LocalCluster, as_completed, get_worker, wait
from distributed.comm import connect
from distributed.scheduler import KilledWorker
from distributed.security import Security
from jaxtyping import Shaped

from geonode.devices.device import one_thread
from geonode.engine.local import Found, Open, Recipe, Tile
from geonode.errors import EngineError
from geonode.progress import Progress, silent
from geonode.storage.atomic import scratch_folder

ANSWER_SECONDS = 30
"""After which a scheduler that does not answer, or has no worker, is given up."""

BEGUN_PER_WORKER = 2
"""Tiles that a worker has at hand: the one that it works on, and the next."""

BEGUN_AGAIN = ("lost", "pending")
"""Status of a tile that was done, but whose worker died with the result."""

ENVIRON = "distributed.nanny.pre-spawn-environ"
OF_WORKERS = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), 1)
"""Environment of the workers of a cluster of one's own: what Dask sets, but for its
MALLOC_TRIM_THRESHOLD_, with which every large array is new memory from the system."""

NO_PAGES: dict[str, list[str]] = {
    f"distributed.{who}.http.routes": [] for who in ("scheduler", "worker")
}
"""Dask opens a port for pages of a cluster, which knows no certificates: none are shown there."""

PACKAGES = ("numpy", "torch", "zarr")  # that decide the bytes of a result


def _versions() -> dict[str, str]:
    """What decides the bytes of a result: Python, packages, and the code of this one."""
    root, code = Path(__file__).parents[1], 0
    for file in sorted(root.rglob("*.py")):
        code = zlib.crc32(file.relative_to(root).as_posix().encode() + file.read_bytes(), code)
    return {
        "Python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
        "geonode": f"of checksum {code:08x}",
    }


VERSIONS = _versions()
"""Of this process: found when it imports the code, which may change on the disk later."""


class Session(NamedTuple):
    """What a worker must have in common with the client.

    Attributes:
        token: of one recipe of one client.
        folder: working folder.
        mark: a file in it.
        versions: of what decides the bytes of a result, by name.
    """

    token: str
    folder: Path
    mark: Path
    versions: dict[str, str]

    def require(self) -> None:
        """Refuse to do other work than the client would.

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
    """Works in the processes of a Dask cluster; `open_cluster` makes it.

    Args:
        client: of the cluster.
        scratch: folder, on a disk that all processes share, for what recipes share.
        versions: that workers must have.
        abandon: what to do with tiles that are being worked on when the client is interrupted.
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
        cores: int | None = None,  # noqa: ARG002 - a worker works on one tile at a time
    ) -> None:
        """Work on every tile, as every `Engine` does; again if a worker dies over it."""
        session = Session(uuid4().hex, Path.cwd(), self._mark, self._versions)
        # A task of its own: what a worker loses is made again, which scattered data are not.
        given = self._client.submit(_itself, recipe, pure=False)
        follow = partial(self._client.submit, _on_worker, session, given, pure=False)
        left, begun = iter(enumerate(tiles)), dict[Future, int]()
        running = as_completed(loop=self._client.loop)
        orderly = _Orderly(tiles, take, report)

        def begin() -> None:
            most = BEGUN_PER_WORKER * max(1, len(self._client.nthreads()))
            for index, tile in islice(left, max(0, most - len(begun))):
                begun[future := follow(tile, priority=-index)] = index
                running.add(future)

        try:
            begin()
            # What was begun is waited for after an error too: when the caller then removes what is
            # half written, no worker may be writing any more.
            for future in running:
                if future.status in BEGUN_AGAIN:
                    running.add(future)
                    continue
                orderly.add(begun.pop(future), future)
                if orderly.goes_on:
                    begin()
        except BaseException:
            self._abandon(list(begun))
            raise
        orderly.require_done()

    def shared(self, array: Shaped[np.ndarray, "..."]) -> Open:
        """A file that every process maps into its memory."""
        path = self._scratch / f"{uuid4().hex}.npy"
        np.save(path, array, allow_pickle=False)
        return partial(_mapped, path)


class _Orderly:
    """Hands over results in the order of the tiles, up to the first error in that order."""

    def __init__(
        self, tiles: Sequence[Any], take: Callable[[Any, Any], object], report: Progress
    ) -> None:
        self._tiles, self._take, self._report = tiles, take, report
        self._waiting: dict[int, tuple[Any, int]] = {}
        self._failed: dict[int, Future] = {}
        self._error: Exception | None = None
        self._next = 0

    @property
    def goes_on(self) -> bool:
        """Whether nothing has failed."""
        return not self._failed and self._error is None

    def add(self, index: int, future: Future) -> None:
        """One tile that is done, one way or the other."""
        if future.status in ("error", "cancelled"):
            self._failed[index] = future
            return
        self._waiting[index] = future.result()  # waits if it was lost just now
        while self._next in self._waiting and self._error is None:
            found, units = self._waiting.pop(self._next)
            try:
                self._take(self._tiles[self._next], found)
                self._report(units)
            except Exception as error:  # raised when the other tiles have ended
                self._error = error
            self._next += 1

    def require_done(self) -> None:
        """Raise what went wrong first.

        Raises:
            EngineError: a tile was given up.
            Exception: what a tile or `take` raised.
        """
        if self._error is not None:
            raise self._error
        if not self._failed:
            return
        index = min(self._failed)
        future, where = self._failed[index], f"tile {index + 1} of {len(self._tiles)}"
        if future.status != "error":
            raise EngineError(f"{where}: the connection to the scheduler was lost; run it again")
        error = future.exception()
        if isinstance(error, KilledWorker):
            raise EngineError(
                f"{where}: found no worker that survives it, expected one; look at its memory"
            ) from error
        raise error.with_traceback(future.traceback())


@contextmanager
def open_cluster(address: str | None, workers: int, scratch: Path) -> Iterator[Cluster]:
    """Work in a cluster inside the body.

    Args:
        address: of its scheduler; None: one of its own on this machine, closed at the end.
        workers: processes of a cluster of its own.
        scratch: on a disk that all processes share, where a folder is made beside and removed.

    Raises:
        EngineError: the scheduler does not answer, or has no worker.
        ArtifactError: the folder cannot be made, or another process has it.
    """
    with scratch_folder(scratch) as folder, _joined(address, workers) as (client, abandon):
        yield Cluster(client, folder, {} if address is None else VERSIONS, abandon)


@contextmanager
def _joined(
    address: str | None, workers: int
) -> Iterator[tuple[Client, Callable[[list[Future]], object]]]:
    """A client, and what to do with its tiles when it is interrupted."""
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
            security=True,  # certificates of this cluster alone: whoever has none is not let in
            local_directory=folder,  # which no other user may read or make first
            dashboard_address=None,
            # a port is opened all the same: not the usual one, which may be taken
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
            memory_limit=0,  # tiles are as large as the parameters say
            silence_logs=CRITICAL,  # what fails is raised here
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client, lambda _: _kill(cluster)


def _client_of(address: str) -> Client:
    """A client of a cluster that is there.

    Raises:
        EngineError: there is no scheduler, or it lets nobody in without certificates.
    """
    connection = Security().get_connection_args("client")
    if address.startswith("tls://") and connection["ssl_context"] is None:
        raise EngineError(
            f"engine.scheduler: found {address} and no certificates, expected those of the client; "
            "name ca-file, client.cert and client.key under distributed.comm.tls in the "
            "configuration of Dask"
        )
    try:
        # The client itself would wait for ever for what listens there and is no scheduler.
        asyncio.run(_answered(address, connection))
        return Client(address, timeout=ANSWER_SECONDS, set_as_default=False)
    except Exception as error:  # of whatever it answered
        raise EngineError(
            f"engine.scheduler: found no answer of {address} in {ANSWER_SECONDS} s, expected "
            "a scheduler of Dask; look whether it runs and can be reached from here"
        ) from error


async def _answered(address: str, connection: dict[str, Any]) -> None:
    """Wait until a scheduler says that it is one.

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
    """Dask changes that of this process, which its workers inherit, and leaves it so."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _kill(cluster: LocalCluster) -> None:
    """End the workers of a cluster of one's own, whatever they are at."""
    for nanny in cluster.workers.values():
        nanny.auto_restart = False
        if nanny.pid is not None:
            os.kill(nanny.pid, signal.SIGKILL)


_WORK: dict[str, Callable[[Any, Progress], Any]] = {}  # of this worker, by token: one at a time


def _on_worker(session: Session, recipe: Recipe[Any, Any], tile: Any) -> tuple[Any, int]:
    """Result of a tile, and the units of work that it told of."""
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


def _mapped(path: Path) -> Shaped[np.ndarray, "..."]:
    return np.load(path, mmap_mode="r", allow_pickle=False)
