"""Engine that runs tiles in the processes of a Dask cluster.

Client and scheduler handle small objects only: a recipe once, tiles, and their summaries. Arrays
are on a disk that all processes share.
"""

import asyncio
import os
import platform
import signal
import socket
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager, suppress
from importlib.metadata import version
from itertools import islice
from logging import CRITICAL
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from uuid import uuid4

from dask import config
from distributed import CancelledError, Client, Future, LocalCluster, get_worker, wait
from distributed.comm import connect
from distributed.scheduler import KilledWorker
from distributed.security import Security

from geonode.compute.engine import Engine, Found, Recipe, Tile, itself
from geonode.compute.threads import one_thread
from geonode.errors import EngineError
from geonode.progress import Progress, silent
from geonode.storage.atomic import scratch_folder
from geonode.storage.lineage import code_digest

ANSWER_SECONDS = 30
"""Time limit for an answer of the scheduler, and for a first worker."""

BEGUN_PER_WORKER = 3
"""Tiles that were begun and not taken yet, per worker: some wait for an earlier one to end."""

ENVIRON = "distributed.nanny.pre-spawn-environ"
OF_WORKERS = {"OMP_NUM_THREADS": 1}
"""Environment of the workers of a local cluster: that of Dask without MALLOC_TRIM_THRESHOLD_, with
which every large array takes new memory from the system."""

NO_PAGES: dict[str, list[str]] = {
    f"distributed.{who}.http.routes": [] for who in ("scheduler", "worker")
}
"""No pages on the HTTP port of Dask, which does not check certificates."""


VERSIONS = {
    "Python": platform.python_version(),
    **{name: version(name) for name in ("numpy", "torch", "zarr")},
    "geonode": f"of checksum {code_digest()[:8]}",
}
"""What affects the bytes of a result, at import time, as the code may change on the disk later."""


class Session(NamedTuple):
    """Expectations of a client of its workers."""

    token: str  # identity of one recipe of one client
    folder: Path  # working folder
    mark: Path  # a file in it, which proves that the disk is shared
    versions: dict[str, str]  # versions that affect the bytes of a result, by name

    def require(self) -> None:
        """Refuse a worker whose results could differ from those of the client.

        Raises:
            EngineError: this worker has other versions, several threads, or another disk.
        """
        worker, mark = get_worker(), self.folder / self.mark
        wrong = None
        if (threads := worker.state.nthreads) != 1:
            wrong = (
                f"found {threads} threads, expected 1; start it with --nthreads 1, and as many "
                "workers as there are cores to use"
            )
        if not mark.exists():
            wrong = f"found no {mark}, expected the disk of the client; mount it at the same place"
        for name, expected in self.versions.items():
            if (found := VERSIONS[name]) != expected:
                wrong = f"found {name} {found}, expected {expected} as at the client; install that"
        if wrong is not None:
            raise EngineError(f"worker {worker.address} on {socket.gethostname()}: {wrong}")


class Cluster(Engine):
    """Engine that runs tiles on a Dask cluster, opened by `open_cluster`.

    Args:
        client: client of the cluster.
        scratch: folder for shared arrays, on a disk that all processes share.
        own: the cluster, if it is one of this process, whose workers end when it is interrupted;
            None: workers are looked at for versions.
    """

    def __init__(self, client: Client, scratch: Path, own: LocalCluster | None) -> None:
        super().__init__(scratch)
        self._client, self._own = client, own
        self._versions = VERSIONS if own is None else {}
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
        given = self._client.submit(itself, recipe, pure=False)
        left, begun = iter(enumerate(tiles)), deque[Future]()
        with self._client.as_current():
            try:
                for number, tile in enumerate(tiles):
                    room = BEGUN_PER_WORKER * max(1, len(self._client.nthreads())) - len(begun)
                    for later, one in islice(left, max(0, room)):
                        begun.append(
                            self._client.submit(
                                _on_worker, session, given, one, pure=False, priority=-later
                            )
                        )
                    found, units = _result(begun[0], f"tile {number + 1} of {len(tiles)}")
                    begun.popleft()
                    take(tile, found)
                    report(units)
            except BaseException as error:
                if isinstance(error, Exception) or self._own is None:
                    # No worker may still be writing when the caller removes unfinished files.
                    with suppress(CancelledError):
                        wait(list(begun))
                else:
                    _kill(self._own)
                raise


def _result(future: Future, where: str) -> Any:
    try:
        return future.result()
    except CancelledError as error:
        raise EngineError(
            f"{where}: the connection to the scheduler was lost; run it again"
        ) from error
    except KilledWorker as error:
        raise EngineError(
            f"{where}: found no worker that survives it, expected one; look at its memory"
        ) from error


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
    with scratch_folder(scratch) as folder:
        if address is not None:
            with _client_of(address) as client:
                yield Cluster(client, folder, None)
            return
        with (
            TemporaryDirectory(prefix="geonode-") as private,
            config.set({ENVIRON: OF_WORKERS, **NO_PAGES}),
            LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                security=True,  # temporary certificates, without which nobody can connect
                local_directory=private,  # which no other user can read or create first
                dashboard_address=None,
                # a port is opened all the same: not the default one, which may be in use
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
                memory_limit=0,  # the parameters limit the memory of tiles
                silence_logs=CRITICAL,  # errors are raised here
            ) as cluster,
            Client(cluster, set_as_default=False) as client,
        ):
            yield Cluster(client, folder, cluster)


def _client_of(address: str) -> Client:
    try:
        # The client itself would wait forever for a listener that is no scheduler.
        asyncio.run(asyncio.wait_for(_require_scheduler(address), ANSWER_SECONDS))
        client = Client(address, timeout=ANSWER_SECONDS, set_as_default=False)
    except Exception as error:  # the answer may be anything
        raise EngineError(
            f"engine.scheduler: found no answer of {address} in {ANSWER_SECONDS} s, expected a "
            f"scheduler of Dask; look whether it runs and can be reached from here, by tls:// with "
            f"certificates under distributed.comm.tls in the configuration of Dask ({error!r:.80})"
        ) from error
    try:
        client.wait_for_workers(1, timeout=ANSWER_SECONDS)
    except TimeoutError as error:
        client.close()
        raise EngineError(
            f"engine.scheduler: found no worker of {address} in {ANSWER_SECONDS} s, expected one "
            "at least; start it with dask worker"
        ) from error
    return client


async def _require_scheduler(address: str) -> None:
    """Wait until a scheduler identifies itself; an error where something else answers."""
    certificates = Security().get_connection_args("client")
    comm = await connect(address, timeout=ANSWER_SECONDS, **certificates)
    try:
        await comm.write({"op": "identity", "reply": True})
        answer = await comm.read()
    finally:
        comm.abort()
    if answer["type"] != "Scheduler":
        raise ValueError(f"found a {answer['type']}")


def _kill(cluster: LocalCluster) -> None:
    """Kill the workers of a local cluster, whose tiles may take long."""
    for nanny in cluster.workers.values():
        nanny.auto_restart = False
        if nanny.pid is not None:
            os.kill(nanny.pid, signal.SIGKILL)


_RECIPES: dict[str, Callable[[Any, Progress], Any]] = {}  # of this worker, by token; one at a time


def _on_worker(session: Session, recipe: Recipe[Any, Any], tile: Any) -> tuple[Any, int]:
    """Result of a tile, and its units of work."""
    units = 0

    def count(done: int) -> None:
        nonlocal units
        units += done

    if session.token not in _RECIPES:
        session.require()
    with chdir(session.folder), one_thread():
        if session.token not in _RECIPES:
            _RECIPES.clear()
            _RECIPES[session.token] = recipe()
        found = _RECIPES[session.token](tile, count)
    return found, units
