import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from geonode.engine.processes import finished, processes_for
from geonode.errors import EngineError, SpectraError


def square(job, report):
    report(job)
    return job**2, os.getpid(), os.getppid()


def fails(job, report):
    if job == 2:
        raise SpectraError("found 2")
    return job


def waits(job, report):
    print("at work", flush=True)
    time.sleep(600)


def dies(job, report):
    os.kill(os.getpid(), signal.SIGKILL)


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


def test_a_process_that_dies_is_an_error():
    with pytest.raises(EngineError, match="a worker process died"):
        list(finished(dies, [1, 2], 2, print))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_where_the_caller_is_killed_or_its_user_interrupts(how):
    code = "from tests.engine.test_processes import *; list(finished(waits, [1, 2], 2, print))"
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
    code = f"import torch; {refused}; import geonode.scores.panel_scores, geonode.scores.ablation"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_processes_are_at_most_cores_and_jobs_and_few_share_a_card(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64), raising=False)
    found = [processes_for(jobs, device) for jobs in (0, 5, 90) for device in ("cpu", "cuda")]
    assert found == [1, 1, 5, 5, 64, 12]
