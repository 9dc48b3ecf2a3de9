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
from geonode.errors import EngineError, SpectraError
from geonode.usage import WORKERS, resident_memory
from tests.compute import tiles
from tests.compute.jobs import HERE, busy_and_logging, dies, fails, square

IMPORTS = """\
import logging, os, signal
from functools import partial
from pathlib import Path
from geonode.compute.processes import finished, import_early, open_engine
from geonode.errors import EngineError
from tests.compute.jobs import *
"""
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


def test_the_error_of_a_job_is_raised():
    with pytest.raises(SpectraError, match="found 2"):
        list(finished(fails, [1, 2, 3], 1, print))


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
        cwd=Path(__file__).parents[2],
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


def in_a_program(folder, *lines, **environment):
    """A program of its own: what is forked has the surroundings of the first call of `prepare`."""
    root, body = str(Path(__file__).parents[2]), "\n".join(f"    {line}" for line in lines)
    (folder / "main.py").write_text(f"{IMPORTS}\nif __name__ == '__main__':\n{body}\n")
    return subprocess.run(
        [sys.executable, "main.py"],
        cwd=folder,
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join([root, *sys.path]), "OMP_NUM_THREADS": "2"}
        | environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )


def test_results_come_in_order_and_arrays_are_mapped(engine):
    assert os.getpid() not in tiles.assert_results_in_order_and_arrays_mapped(engine, cores=2)


@pytest.mark.parametrize(("count", "cores"), [(0, 2), (1, 2), (3, None), (3, 1)])
def test_without_others_to_work_beside_tiles_are_run_in_this_process(engine, count, cores):
    found = []
    engine.work(tiles.squares, range(count), lambda _, one: found.append(one[1]), cores=cores)
    assert found == [os.getpid()] * count


@pytest.mark.slow
def test_the_error_is_that_of_the_first_tile_and_the_others_have_ended(engine, tmp_path):
    (tmp_path / "done").mkdir()
    check = tiles.assert_the_first_error_is_raised_when_the_others_have_ended
    check(engine, tmp_path / "done", cores=2)


def test_an_error_of_the_recipe_is_its_own(engine):
    with pytest.raises(FileNotFoundError, match="absent"):
        engine.work(partial(tiles.sums, partial(open, "absent")), range(2), print, cores=2)


@LINUX
def test_the_memory_of_workers_counts(engine, monkeypatch):
    monkeypatch.setattr(WORKERS, "_peak", 0)
    processes, size, peak = [], 200_000_000, resident_memory().peak
    busy = partial(busy_and_logging, 0.3, size)
    engine.work(busy, range(2), lambda _, one: processes.append(one), cores=2)
    assert resident_memory().peak - peak > len(set(processes)) * size
    assert not WORKERS.running


@LINUX
def test_workers_log_as_this_process_does(tmp_path):
    done = in_a_program(
        tmp_path,
        "logging.getLogger('geonode').setLevel(logging.INFO)",
        "with open_engine(HERE, Path('shared'), processes=True) as opened:",
        "    opened.work(partial(busy_and_logging, 0), range(2), print, cores=2)",
    )
    assert sorted(done.stderr.splitlines()) == ["geonode.tests: tile 0", "geonode.tests: tile 1"]


@LINUX
def test_workers_are_forked_from_the_process_that_began_early(tmp_path):
    done = in_a_program(
        tmp_path,
        "import_early('tests.compute.jobs')",
        "from multiprocessing.forkserver import _forkserver",
        "found = finished(square, [2, 3], 2, lambda _: None)",
        "print({parent for _, (*_, parent) in found} == {_forkserver._forkserver_pid})",
    )
    assert done.stdout == "True\n"


@LINUX
@pytest.mark.parametrize(
    "call", ["list(finished(square, [2, 3], 2, print))", "import_early('tests.compute.jobs')"]
)
def test_processes_that_cannot_be_started_are_an_error_with_a_remedy(call, tmp_path):
    long = tmp_path / ("long" * 25)  # longer than the path of a socket may be
    long.mkdir()
    lines = (
        "try:",
        f"    {call}",
        "except EngineError as error:",
        "    print(error)",
    )
    done = in_a_program(tmp_path, *lines, TMPDIR=str(long))
    assert "AF_UNIX path too long" in done.stdout
    assert "set TMPDIR to a short path" in done.stdout
