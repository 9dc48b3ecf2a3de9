import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np
import pytest
import torch

from geonode.config import AugmentationParameters, EngineParameters
from geonode.decoders.kinds import KINDS
from geonode.devices import profile
from geonode.engine import cluster as module
from geonode.engine.choice import open_engine
from geonode.engine.cluster import open_cluster
from geonode.engine.local import LOCAL, Engine
from geonode.errors import EngineError, GeometryError, TrainingError
from geonode.geodesics.solved import solve_all
from geonode.geometry.sources import DirectSource
from geonode.geometry.stored import StoredGrids, write_grids
from geonode.metrics.end_to_end import fit_metric
from geonode.training.context import TrainingRun
from geonode.training.folds import leave_two_out
from tests.engine import tiles
from tests.geodesics.test_solved import DOUBLE, parameters
from tests.geometry.closed_forms import CPU, nodes
from tests.geometry.small_series import small_metrics, small_series
from tests.training.series import (
    cpu,
    decoder_parameters,
    flat_features,
    metric_parameters,
    positions,
    series,
)

distributed = pytest.importorskip("distributed")

SERIES = small_series()
LEARNED = small_metrics(SERIES)
WAVELENGTHS = torch.from_numpy(SERIES.wavelengths)
DASK = EngineParameters(kind="dask", scheduler=None, workers=1)

pytestmark = pytest.mark.slow


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
def address():
    """Of a cluster of two workers."""
    with local_cluster(n_workers=2, threads_per_worker=1) as cluster:
        yield cluster.scheduler_address


@pytest.fixture(params=[1, 2], scope="module")
def engine(request, tmp_path_factory):
    """One worker of a cluster of its own, or two of another's."""
    scratch = tmp_path_factory.mktemp("engine") / "shared"
    given = request.getfixturevalue("address") if request.param == 2 else None
    with open_cluster(given, request.param, scratch) as engine:
        yield engine
    assert not scratch.exists()


@pytest.fixture
def pair(address, tmp_path):
    with open_cluster(address, 2, tmp_path / "shared") as engine:
        yield engine


def files(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def grids(path, engine, source=None, check=lambda *_: None):
    source = source or DirectSource(LEARNED.metric(CPU), WAVELENGTHS)
    options = {"storage": "float32", "check": check, "engine": engine}
    write_grids(path, source, nodes(60), LEARNED, SERIES, **options)
    return StoredGrids(path, LEARNED, SERIES)


def test_results_come_in_order_from_other_processes_with_one_thread(engine):
    assert isinstance(engine, Engine)
    taken, reported = [], []
    engine.work(tiles.squares, range(9), lambda *one: taken.append(one), reported.append)
    assert [(tile, square) for tile, (square, _) in taken] == [(n, n * n) for n in range(9)]
    assert os.getpid() not in {process for _, (_, process) in taken}
    assert reported == list(range(9))
    around = []
    engine.work(tiles.surroundings, [0], lambda _, found: around.append(found[:2]))
    assert around == [(1, Path.cwd())]
    engine.work(tiles.squares, [], taken.append)  # nothing to do


def test_arrays_are_mapped_and_not_sent(engine):
    array, found = np.arange(12.0).reshape(3, 4), []
    recipe = partial(tiles.sums, engine.shared(array))
    engine.work(recipe, range(3), lambda _, row: found.append(row))
    assert found == [(6.0, "memmap"), (22.0, "memmap"), (38.0, "memmap")]


def test_grids_and_geodesics_have_the_bytes_of_one_process(engine, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # artifacts have relative paths in the stages
    checked, summaries = {}, {}
    for name, one in (("here", LOCAL), ("there", engine)):
        seen = checked.setdefault(name, [])
        stored = grids(Path(name), one, check=lambda *at, seen=seen: seen.append(at))
        summaries[name] = solve_all(
            Path(f"{name}-solved"), stored, LEARNED, SERIES, parameters(), DOUBLE, engine=one
        )
    assert files(tmp_path / "here") == files(tmp_path / "there")
    assert len(files(tmp_path / "here")) > 20
    assert files(tmp_path / "here-solved") == files(tmp_path / "there-solved")
    assert summaries["here"] == summaries["there"]
    for (model, grid), (same, other) in zip(*checked.values(), strict=True):
        assert model == same
        assert torch.equal(grid.log_sqrt, other.log_sqrt)
        assert torch.equal(grid.symbol, other.symbol)


def trained(engine, reported=None):
    """All that trains in batches, as tensors."""
    measured, folds = series(4, 9), leave_two_out(4, None)
    run = TrainingRun(folds, 2, cpu(), engine=engine, report=reported or (lambda _: None))
    features = flat_features(4, 9, folds=len(folds))
    disturbed = {
        "augmentation": AugmentationParameters(
            shift=0.5, scatter=0.01, offset=0.01, slope=0.01, detector=0.01
        )
    }
    metric, decoder = metric_parameters(members=2), decoder_parameters(epochs=12, **disturbed)
    network, terms = fit_metric(measured, positions(4, len(folds)), metric, run)
    decoders, history = KINDS["path"].fit(measured, features, decoder, run)
    return [*network.parameters, terms, *decoders.tensors().values(), history]


def test_trained_models_have_the_bits_of_one_process(engine, monkeypatch):
    monkeypatch.setattr(profile, "CPU_BATCH_ROWS", 100)  # so that there is work for several
    units = {"here": [], "there": []}
    here, there = trained(LOCAL, units["here"].append), trained(engine, units["there"].append)
    assert len(here) == len(there) > 15
    assert all(torch.equal(*pair) for pair in zip(here, there, strict=True))
    assert sum(units["here"]) == sum(units["there"])


def test_a_tile_whose_worker_is_killed_is_done_by_another(pair, tmp_path):
    grids(tmp_path / "here", LOCAL)
    marker = tmp_path / "killed"
    source = tiles.Dying(LEARNED.metric(CPU), WAVELENGTHS, marker=marker)
    grids(tmp_path / "there", pair, source)
    assert marker.exists()
    assert files(tmp_path / "here") == files(tmp_path / "there")


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


def test_a_tile_that_kills_every_worker_is_given_up(pair):
    with pytest.raises(EngineError, match=r"tile 1 of 1: found no worker that survives"):
        pair.work(tiles.deadly, [0], print)


def test_the_error_is_that_of_the_first_tile(pair, tmp_path):
    taken, recipe = [], partial(tiles.failing, {3, 4, 5}, tmp_path)
    with pytest.raises(GeometryError, match=r"^tile 3 is not well posed$"):
        pair.work(recipe, range(40), lambda *one: taken.append(one))
    assert taken == [(tile, tile) for tile in range(3)]
    assert len(files(tmp_path)) < 20


def test_no_tile_is_worked_on_after_an_error(pair, tmp_path):
    with pytest.raises(GeometryError, match=r"^tile 0 is not well posed$"):
        pair.work(partial(tiles.failing, {0}, tmp_path, 0.5), range(40), print)
    left = files(tmp_path)
    time.sleep(1)
    assert files(tmp_path) == left
    assert 2 <= len(left) < 20


def test_errors_are_those_of_one_process_and_leave_the_older_artifact(pair, tmp_path):
    stored = grids(tmp_path / "grids", LOCAL)
    path = tmp_path / "solved"
    solve_all(path, stored, LEARNED, SERIES, parameters(), DOUBLE)
    before = files(tmp_path)
    impossible = (
        (parameters(time_points=60_000), replace(DOUBLE, memory_mb=1)),  # in a tile
        (parameters(1e-300), DOUBLE),  # in what is made of all of them
    )
    for block, device in impossible:
        messages = []
        for one in (LOCAL, pair):
            with pytest.raises(GeometryError) as caught:
                solve_all(path, stored, LEARNED, SERIES, block, device, engine=one)
            messages.append(str(caught.value))
            assert {k: v for k, v in files(tmp_path).items() if k.parts[0] != "shared"} == {
                k: v for k, v in before.items() if k.parts[0] != "shared"
            }
        assert messages[0] == messages[1]


def test_a_loss_that_is_not_finite_is_named_as_in_one_process(pair):
    measured, metric = series(5, 9), metric_parameters()
    measured.signal[2, 3] = np.nan
    messages = []
    for one in (LOCAL, pair):
        run = TrainingRun(leave_two_out(5, None), 1, cpu(), engine=one)
        with pytest.raises(TrainingError) as caught:
            fit_metric(measured, positions(5, 10), metric, run)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert "not finite" in messages[0]


def test_what_takes_the_results_may_fail(pair, tmp_path):
    def take(tile, found):
        raise ZeroDivisionError(tile)

    with pytest.raises(ZeroDivisionError, match=r"^0$"):
        pair.work(partial(tiles.failing, {39}, tmp_path), range(40), take)
    assert len(list(tmp_path.iterdir())) < 20


@pytest.mark.parametrize("name", ["Python", "numpy", "torch", "zarr", "geonode"])
def test_workers_of_other_versions_are_refused(address, tmp_path, monkeypatch, name):
    monkeypatch.setattr(module, "VERSIONS", {name: "0.1"})
    with (
        open_cluster(address, 2, tmp_path / "shared") as engine,
        pytest.raises(EngineError, match=rf"worker tcp.*found {name} .*, expected 0\.1"),
    ):
        engine.work(tiles.squares, [1], print)


def test_workers_with_another_disk_are_refused(pair, tmp_path):
    (tmp_path / ".shared.geonode/new/mark").unlink()
    with pytest.raises(EngineError, match=r"found no .*/mark, expected the disk"):
        pair.work(tiles.squares, [1], print)


def test_workers_with_several_threads_are_refused(tmp_path):
    with (
        local_cluster(n_workers=1, threads_per_worker=2, processes=False) as cluster,
        open_cluster(cluster.scheduler_address, 1, tmp_path / "shared") as engine,
        pytest.raises(EngineError, match="found 2 threads, expected 1"),
    ):
        engine.work(tiles.squares, [1], print)


def test_a_scheduler_that_is_not_there_or_has_no_worker_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "ANSWER_SECONDS", 1)
    nobody = EngineParameters(kind="dask", scheduler="tcp://127.0.0.1:9", workers=1)
    with (
        pytest.raises(EngineError, match=r"no answer of tcp://127\.0\.0\.1:9 in 1 s"),
        open_engine(nobody, tmp_path / "shared"),
    ):
        pass
    with (
        local_cluster(n_workers=0, processes=False) as cluster,
        pytest.raises(EngineError, match=f"no worker of {cluster.scheduler_address} in 1 s"),
        open_cluster(cluster.scheduler_address, 1, tmp_path / "shared"),
    ):
        pass
    assert not list(tmp_path.glob("*shared*"))


def test_an_interrupt_ends_a_cluster_of_ones_own_at_once(tmp_path, monkeypatch):
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)  # of the other cluster
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    seen = tmp_path / "seen"
    seen.mkdir()

    def interrupt(tile, found):
        while not list(seen.glob("slow-*")):
            time.sleep(0.01)
        raise KeyboardInterrupt

    around, began = [], time.perf_counter()
    with pytest.raises(KeyboardInterrupt), open_engine(DASK, tmp_path / "shared") as engine:
        engine.work(tiles.surroundings, [0], lambda _, found: around.append(found))
        engine.work(partial(tiles.slow, seen), range(9), interrupt)
    assert around == [(1, Path.cwd(), None)]
    assert time.perf_counter() - began < 30  # of the minute that a tile takes
    (process,) = (int(path.name.split("-")[1]) for path in seen.glob("slow-*"))
    assert not Path(f"/proc/{process}").exists()
    assert not list(tmp_path.glob("*shared*"))
    assert "OMP_NUM_THREADS" not in os.environ  # of the workers alone


# who may reach it

STRANGER = """\
import asyncio, sys
from distributed.comm import connect
from distributed.security import Security

async def reach(address, **connection):
    comm = await asyncio.wait_for(connect(address, timeout=3, **connection), 3)
    await comm.write({"op": "identity", "reply": True})
    return await asyncio.wait_for(comm.read(), 3)

other = Security.temporary().get_connection_args("client")
for address in sys.argv[1:]:
    for tried, connection in (("tcp", {}), ("tls", other)):
        try:
            found = asyncio.run(reach(f"{tried}://{address.partition('://')[2]}", **connection))
            print("let in", address, tried, found["type"])
        except Exception as error:
            print("refused", address, tried)
"""


def addresses(client):
    said = client.scheduler_info()["workers"]
    workers = [*said, *(worker["nanny"] for worker in said.values())]
    return [client.scheduler.address, *workers]


def test_a_cluster_of_ones_own_lets_nobody_in(tmp_path):
    with open_engine(DASK, tmp_path / "shared") as engine:
        found = addresses(engine._client)
        done = subprocess.run(
            [sys.executable, "-c", STRANGER, *found], capture_output=True, text=True, check=True
        )
        ports = [
            worker["services"].get("dashboard")
            for worker in engine._client.scheduler_info()["workers"].values()
        ] + [engine._client.scheduler_info()["services"].get("dashboard")]
        for port in filter(None, ports):
            for page in ("info/main/workers.html", "json/identity.json", "metrics", "health"):
                with pytest.raises(HTTPError, match="404"):
                    urlopen(f"http://127.0.0.1:{port}/{page}", timeout=5)
        taken = []
        engine.work(tiles.squares, [3], lambda _, got: taken.append(got[0]))
    assert len(found) == 3
    assert len(done.stdout.splitlines()) == 6
    assert "let in" not in done.stdout
    assert taken == [9]


class Silent(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(params=["http", "silent"])
def no_scheduler(request):
    """A port at which something else listens."""
    if request.param == "silent":
        with socket.create_server(("127.0.0.1", 0)) as server:
            yield server.getsockname()[1]
        return
    with ThreadingHTTPServer(("127.0.0.1", 0), Silent) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def test_what_is_no_scheduler_is_given_up(tmp_path, monkeypatch, no_scheduler):
    monkeypatch.setattr(module, "ANSWER_SECONDS", 2)
    began = time.perf_counter()
    with (
        pytest.raises(EngineError, match=rf"no answer of tcp://127\.0\.0\.1:{no_scheduler} in 2 s"),
        open_cluster(f"tcp://127.0.0.1:{no_scheduler}", 1, tmp_path / "shared"),
    ):
        pass
    assert time.perf_counter() - began < 10


def test_a_worker_in_place_of_a_scheduler_is_refused(tmp_path, monkeypatch, address):
    monkeypatch.setattr(module, "ANSWER_SECONDS", 5)
    with distributed.Client(address, set_as_default=False) as client:
        worker = next(iter(client.scheduler_info()["workers"]))
    with (
        pytest.raises(EngineError, match=f"found no answer of {worker} in 5 s, expected"),
        open_cluster(worker, 1, tmp_path / "shared"),
    ):
        pass


def test_tls_without_certificates_is_one_line(tmp_path):
    with (
        pytest.raises(EngineError, match=r"found tls://127\.0\.0\.1:9 and no certificates, expec"),
        open_cluster("tls://127.0.0.1:9", 1, tmp_path / "shared"),
    ):
        pass


def test_a_cluster_with_certificates_is_joined(tmp_path):
    security = distributed.Security.temporary()
    files = {
        f"distributed.comm.tls.{key}": getattr(security, f"tls_{name}")
        for key, name in (
            ("ca-file", "ca_file"),
            ("client.cert", "client_cert"),
            ("client.key", "client_key"),
        )
    }
    with (
        local_cluster(n_workers=1, threads_per_worker=1, security=security) as cluster,
        module.config.set(files),
        open_cluster(cluster.scheduler_address, 1, tmp_path / "shared") as engine,
    ):
        taken = []
        engine.work(tiles.squares, [3], lambda _, got: taken.append(got[0]))
    assert cluster.scheduler_address.startswith("tls://")
    assert taken == [9]
