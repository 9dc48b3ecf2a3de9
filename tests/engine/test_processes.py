import os
import signal

import pytest

from geonode.engine.processes import finished
from geonode.errors import EngineError, SpectraError
from geonode.progress import silent

pytestmark = pytest.mark.slow  # a process takes seconds to begin


def square(job, report):
    report(job)
    return job**2, os.getpid()


def fails(job, report):
    if job == 2:
        raise SpectraError("found 2")
    return job


def dies(job, report):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("processes", [1, 2])
def test_every_job_comes_back_and_all_units_are_reported(processes):
    units = []
    found = dict(finished(square, [1, 2, 3, 4], processes, units.append))
    assert {job: result for job, (result, _) in found.items()} == {1: 1, 2: 4, 3: 9, 4: 16}
    assert sorted(units) == [1, 2, 3, 4]
    here = {process == os.getpid() for _, process in found.values()}
    assert here == {processes == 1}


def test_an_error_of_a_job_is_raised_here():
    with pytest.raises(SpectraError, match="found 2"):
        list(finished(fails, [1, 2, 3], 2, silent))


def test_a_process_that_dies_is_an_error():
    with pytest.raises(EngineError, match="a worker process died"):
        list(finished(dies, [1, 2], 2, silent))
