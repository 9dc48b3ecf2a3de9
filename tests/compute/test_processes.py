import os
import signal
import subprocess
import sys
import time
from functools import partial
from multiprocessing import active_children
from pathlib import Path

import pytest

from geonode.compute.engine import Engine
from geonode.compute.processes import finished, open_engine, processes_for
from geonode.errors import EngineError, GeometryError, SpectraError
from geonode.usage import WORKERS, resident_memory
from tests.compute import tiles
from tests.compute.jobs import HERE, busy, dies, square
from tests.storage.damage import contents

IMPORTS = """\
import signal
from geonode.compute.processes import finished, import_early
from geonode.errors import EngineError
from tests.compute.jobs import *
"""
ROOT = Path(__file__).parents[2]
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="threads elsewhere")


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_every_job_comes_back_and_all_units_are_reported(processes):
    units = []
    found = dict(finished(square, [1, 2, 3, 4], processes, units.append))
    assert {job: result for job, (result, *_) in found.items()} == {1: 1, 2: 4, 3: 9, 4: 16}
    assert sorted(units) == [1, 2, 3, 4]
    here = {process == os.getpid() for _, process, _ in found.values()}
    assert here == {processes == 1}
    if processes > 1 and sys.platform == "linux":  # forked from one that is neither
        assert all(parent != os.getpid() for *_, parent in found.values())


def test_jobs_are_computed_while_others_run_and_their_error_ends_these():
    units = []

    def jobs():
        yield 2
        latest = time.monotonic() + 60
        while not units and time.monotonic() < latest:  # the first one is running
            time.sleep(0.01)
        yield 3
        raise SpectraError(f"found {units}")

    with pytest.raises(SpectraError, match=r"found \[2"):
        list(finished(square, jobs(), 2, units.append))
    assert not active_children()


def test_a_process_that_dies_is_an_error():
    with pytest.raises(EngineError, match="a worker process died"):
        list(finished(dies, [1, 2], 2, print))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_where_the_caller_is_killed_or_its_user_interrupts(how):
    code = (
        f"{IMPORTS}\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background\n"
        "list(finished(waits, [1, 2], 2, print))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as caller:
        try:
            lines = [caller.stdout.readline() for _ in range(2)]
            if how == signal.SIGINT:  # of the terminal, to all processes
                os.killpg(caller.pid, how)
            else:
                caller.kill()
            rest, _ = caller.communicate(timeout=30)  # ends once nobody is left who could write
        finally:
            caller.kill()
    assert lines == ["at work\n"] * 2
    assert rest.count("Traceback") == (how == signal.SIGINT)  # of the caller alone


def test_what_they_import_uses_no_device():
    """For a GPU that was used before a fork is lost after it."""
    refused = "; ".join(f"torch.cuda.{name} = None" for name in ("is_available", "device_count"))
    learning = "geonode.learning.metric_learning, geonode.learning.blend"
    scoring = "geonode.evaluation.panel, research.ablation"
    code = f"import torch; {refused}; import {learning}, {scoring}"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_processes_are_at_most_cores_and_jobs_and_few_share_a_card(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64), raising=False)
    found = [processes_for(jobs, device) for jobs in (0, 5, 90) for device in ("cpu", "cuda")]
    assert found == [1, 1, 5, 5, 64, 12]


# the engine


@pytest.fixture
def engine(tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with open_engine(HERE, tmp_path / "shared", processes=True) as opened:
        assert isinstance(opened, Engine)
        yield opened
    assert not list(tmp_path.glob("shared*"))


def test_results_come_in_order_and_arrays_are_mapped(engine):
    assert os.getpid() not in tiles.assert_results_in_order_and_arrays_mapped(engine, cores=2)


@pytest.mark.parametrize(("count", "cores"), [(0, 2), (1, 2), (3, None), (3, 1)])
def test_without_others_to_work_beside_tiles_are_run_in_this_process(engine, count, cores):
    found = []
    engine.work(tiles.squares, range(count), lambda _, one: found.append(one[1]), cores=cores)
    assert found == [os.getpid()] * count


@pytest.mark.slow
def test_the_error_is_that_of_the_first_tile_and_the_others_have_ended(engine, tmp_path):
    done, taken = tmp_path / "done", []
    done.mkdir()
    with pytest.raises(GeometryError, match=r"^tile 3 is not well posed$"):
        recipe = partial(tiles.failing, {3, 4, 5}, done)
        engine.work(recipe, range(40), lambda *one: taken.append(one), cores=2)
    assert taken == [(tile, tile) for tile in range(3)]
    left = contents(done)
    time.sleep(0.5)
    assert contents(done) == left
    assert 1 <= len(left) < 20


def test_an_error_of_the_recipe_is_its_own(engine):
    with pytest.raises(FileNotFoundError, match="absent"):
        engine.work(partial(tiles.sums, partial(open, "absent")), range(2), print, cores=2)


@LINUX
def test_the_memory_of_workers_counts(engine, monkeypatch):
    monkeypatch.setattr(WORKERS, "_peak", 0)
    processes, size, (_, peak) = [], 200_000_000, resident_memory()
    engine.work(partial(busy, 0.3, size), range(2), lambda _, one: processes.append(one), cores=2)
    assert resident_memory()[1] - peak > len(set(processes)) * size
    assert not WORKERS.running


@LINUX
@pytest.mark.parametrize(
    "call", ["list(finished(square, [2, 3], 2, print))", "import_early('tests.compute.jobs')"]
)
def test_processes_that_cannot_be_started_are_an_error_with_a_remedy(call, tmp_path):
    long = tmp_path / ("long" * 25)  # longer than the path of a socket may be
    long.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", f"{IMPORTS}\n{call}"],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(long), "OMP_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "EngineError: " in done.stderr
    assert "AF_UNIX path too long" in done.stderr
    assert "set TMPDIR to a short path" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="processes are spawned elsewhere")
@pytest.mark.parametrize("recipe", ["job.make", "partial(job.make)", "partial(partial, job.work)"])
def test_processes_are_forked_from_one_that_has_imported_their_work(recipe, tmp_path):
    """Else each of them would import torch again, which takes longer than many a training."""
    (tmp_path / "job.py").write_text(
        "import os\nIMPORTED = os.getpid()\ndef make():\n    return work\n"
        "def work(tile, report):\n    return IMPORTED != os.getpid()\n"
    )
    (tmp_path / "main.py").write_text(
        "from functools import partial\nfrom pathlib import Path\n"
        "from geonode.compute.processes import Processes\n"
        "import job\nfound = {}\nif __name__ == '__main__':\n"
        f"    Processes(Path()).work({recipe}, [1, 2], found.setdefault, cores=2)\n"
        "    print(found)\n"
    )
    path = os.pathsep.join([str(ROOT), str(tmp_path)])
    command, env = [sys.executable, tmp_path / "main.py"], os.environ | {"PYTHONPATH": path}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "{1: True, 2: True}\n"
