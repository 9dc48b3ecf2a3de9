import asyncio
import importlib
import logging
import os
import signal
import socket
import time
from functools import partial
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from geonode.compute import cluster as module
from geonode.compute.cluster import VERSIONS, open_cluster
from geonode.compute.engine import Engine
from geonode.compute.processes import open_engine
from geonode.config import EngineParameters
from geonode.errors import EngineError
from tests.compute import tiles
from tests.storage.damage import contents

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
connect = importlib.import_module("distributed.comm").connect

DASK = EngineParameters(kind="dask", scheduler=None, workers=1)


@pytest.fixture(scope="module", autouse=True)
def whoever_edits_the_code_may_test_it():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "VERSIONS", {})
        yield


def local_cluster(**options):
    """A cluster that gives a tile up when a second worker dies over it."""
    scheduler = {"dashboard_address": "127.0.0.1:0", "allowed_failures": 1}
    return distributed.LocalCluster(
        dashboard_address=None, scheduler_kwargs=scheduler, silence_logs=logging.CRITICAL, **options
    )


@pytest.fixture(scope="module")
def near():
    """Address of a cluster whose worker is a thread of this process."""
    with local_cluster(n_workers=1, threads_per_worker=1, processes=False) as cluster:
        yield cluster.scheduler_address


@pytest.fixture(scope="module")
def address():
    """Of a cluster of two workers, whose successors set no threshold of memory in this process."""
    with (
        dask.config.set({module.ENVIRON: module.OF_WORKERS}),
        local_cluster(n_workers=2, threads_per_worker=1) as cluster,
    ):
        yield cluster.scheduler_address


@pytest.fixture
def pair(address, tmp_path):
    with open_cluster(address, 2, tmp_path / "shared") as engine:
        yield engine


def refused(address, folder, match):
    """The cluster is not joined, or runs no tile."""
    with (
        pytest.raises(EngineError, match=match),
        open_cluster(address, 1, folder / "shared") as engine,
    ):
        engine.work(tiles.squares, [1], print)
    assert not list(folder.glob("*shared*"))


# a worker in this process


def test_results_come_in_order_and_arrays_are_mapped(near, tmp_path):
    with open_cluster(near, 1, tmp_path / "shared") as engine:
        assert isinstance(engine, Engine)
        tiles.assert_results_in_order_and_arrays_mapped(engine)
    assert not list(tmp_path.iterdir())


def test_begun_tiles_have_ended_when_the_client_is_interrupted(near, tmp_path):
    done = tmp_path / "done"
    done.mkdir()

    def take(tile, found):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), open_cluster(near, 1, tmp_path / "shared") as engine:
        engine.work(partial(tiles.failing, {39}, done), range(40), take)
    left = contents(done)
    time.sleep(0.3)
    assert contents(done) == left
    assert 1 <= len(left) < 10


def test_workers_that_could_give_other_results_are_refused(near, tmp_path, monkeypatch):
    for name in ("Python", "numpy", "torch", "zarr", "geonode"):
        monkeypatch.setattr(module, "VERSIONS", {name: "0.1"})
        with (
            pytest.raises(EngineError, match=rf"worker .*found {name} .*, expected 0\.1"),
            open_cluster(near, 1, tmp_path / "shared") as engine,
        ):
            monkeypatch.setattr(module, "VERSIONS", VERSIONS)
            engine.work(tiles.squares, [1], print)


def test_workers_with_another_disk_or_several_threads_are_refused(near, tmp_path):
    with (
        pytest.raises(EngineError, match=r"found no .*/mark, expected the disk"),
        open_cluster(near, 1, tmp_path / "shared") as engine,
    ):
        (tmp_path / ".shared.geonode/new/mark").unlink()
        engine.work(tiles.squares, [1], print)
    with local_cluster(n_workers=1, threads_per_worker=2, processes=False) as cluster:
        refused(cluster.scheduler_address, tmp_path, "found 2 threads, expected 1")


def test_what_is_no_scheduler_is_given_up(near, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.4)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        refused(f"tcp://127.0.0.1:{silent.getsockname()[1]}", tmp_path, r"no answer of .* in 0.4 s")
    refused("tcp://127.0.0.1:9", tmp_path, r"no answer of tcp://127\.0\.0\.1:9 in 0.4 s")
    refused("tls://127.0.0.1:9", tmp_path, r"certificates under distributed.*ssl_context")
    with local_cluster(n_workers=0, processes=False) as cluster:
        refused(cluster.scheduler_address, tmp_path, r"found no worker of .* in 0.4 s")
    with distributed.Client(near, set_as_default=False) as client:
        (worker,) = client.scheduler_info()["workers"]
    monkeypatch.setattr(module, "ANSWER_SECONDS", 5)
    refused(worker, tmp_path, f"found no answer of {worker} in 5 s, expected")


# workers in processes of their own


@pytest.mark.slow
def test_results_that_die_with_their_worker_are_worked_on_again(pair):
    taken = []

    def take(tile, found):
        if not taken:
            time.sleep(1)  # until the other tiles that were begun are done, too
            os.kill(found[1], signal.SIGKILL)
            time.sleep(0.3)  # until it is known that its others are lost, which are begun again
        taken.append((tile, found[0]))

    pair.work(partial(tiles.squares, 0.4), range(9), take)
    assert taken == [(n, n * n) for n in range(9)]
    with pytest.raises(EngineError, match=r"tile 1 of 1: found no worker that survives"):
        pair.work(tiles.deadly, [0], print)


@pytest.mark.slow
def test_an_interrupt_ends_a_cluster_of_ones_own_at_once(tmp_path, monkeypatch):
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)  # of clusters of other tests
    seen = tmp_path / "seen"
    seen.mkdir()

    def interrupt(tile, found):
        while not list(seen.glob("slow-*")):
            time.sleep(0.01)
        raise KeyboardInterrupt

    around = []
    with pytest.raises(KeyboardInterrupt), open_engine(DASK, tmp_path / "shared") as engine:
        engine.work(tiles.surroundings, [0], lambda _, found: around.append(found[:3]))
        engine.work(partial(tiles.slow, seen), range(9), interrupt)
    assert around == [(1, Path.cwd(), None)]
    (process,) = (int(path.name.split("-")[1]) for path in seen.glob("slow-*"))
    assert not Path(f"/proc/{process}").exists()  # though a tile takes a minute
    assert not list(seen.glob("ended-*"))
    assert not list(tmp_path.glob("*shared*"))


async def reach(address):
    comm = await asyncio.wait_for(connect(address, timeout=3), 3)
    await comm.write({"op": "identity", "reply": True})
    return await asyncio.wait_for(comm.read(), 3)


@pytest.mark.slow
def test_a_cluster_of_ones_own_lets_nobody_in_without_its_certificates(tmp_path):
    taken = []
    with open_engine(DASK, tmp_path / "shared") as engine:
        about = engine._client.scheduler_info()
        for address in (engine._client.scheduler.address, *about["workers"]):
            with pytest.raises((OSError, TimeoutError)):
                asyncio.run(reach(address.replace("tls://", "tcp://")))
        for one in (about, *about["workers"].values()):
            for page in ("info/main/workers.html", "json/identity.json", "metrics"):
                with pytest.raises(HTTPError, match="404"):
                    urlopen(f"http://127.0.0.1:{one['services']['dashboard']}/{page}", timeout=5)
        engine.work(tiles.squares, [3], lambda _, got: taken.append(got[0]))
    assert taken == [9]
