import sys
import time

import numpy as np
import pytest

from geonode.errors import GeonodeError
from geonode.performance.timing import Quartiles, time_calls, time_command

MB = 10**6
ALLOCATE = f"block = bytearray(b'x') * {200 * MB}"


def python(code):
    return [sys.executable, "-S", "-c", code]


def test_memory_of_a_command_is_its_own(tmp_path):
    # Larger than what the command needs, and in use while it runs: it must not be counted.
    ours = np.ones(600 * MB // 8)
    small = time_command(python("pass"), tmp_path, {})
    large = time_command(python(ALLOCATE), tmp_path, {})
    assert ours.sum() > 0
    assert small.peak_mb < 100
    assert 200 <= large.peak_mb <= 400


def test_memory_of_a_command_includes_what_it_starts(tmp_path):
    started = f"import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', {ALLOCATE!r}])"
    assert time_command(python(started), tmp_path, {}).peak_mb >= 200


def test_seconds_of_a_command(tmp_path):
    start = time.perf_counter()
    timing = time_command(python("import time; time.sleep(0.2)"), tmp_path, {})
    # At least what it slept, at most what we waited.
    assert 0.2 <= timing.seconds <= time.perf_counter() - start


def test_a_command_runs_in_its_folder_and_environment(tmp_path):
    code = "import os, pathlib; pathlib.Path('made').write_text(os.environ['WORD'])"
    time_command(python(code), tmp_path, {"WORD": "yes"})
    assert (tmp_path / "made").read_text() == "yes"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import sys; print('one\\ntwo', file=sys.stderr); sys.exit(3)", "failed: two$"),
        ("raise ValueError('bad')", "failed: ValueError: bad$"),
        ("import sys; sys.exit(3)", "failed: exit status 3$"),
        ("import os; os.kill(os.getpid(), 9)", "failed: exit status -9$"),
        ("import os; os.write(2, b'\\xff\\n'); os._exit(1)", "failed: \ufffd$"),
    ],
    ids=["message", "traceback", "silent", "killed", "binary"],
)
def test_a_failing_command_is_an_error_with_its_last_line(tmp_path, code, message):
    with pytest.raises(GeonodeError, match=message) as caught:
        time_command(python(code), tmp_path, {})
    assert sys.executable in str(caught.value)


def test_a_command_that_does_not_exist(tmp_path):
    with pytest.raises(GeonodeError, match=r"no-such-command failed: .*No such file"):
        time_command(["no-such-command"], tmp_path, {})


def test_a_talkative_command_does_not_block(tmp_path):
    code = "import sys; print('x' * 10**6); print('y' * 10**6, file=sys.stderr)"
    assert time_command(python(code), tmp_path, {}).seconds > 0


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([4.0], (4.0, 4.0, 4.0)),
        ([1.0, 3.0], (2.0, 1.5, 2.5)),
        ([5.0, 1.0, 4.0, 2.0, 3.0], (3.0, 2.0, 4.0)),
        ([1.0, 2.0, 3.0, 10.0], (2.5, 1.75, 4.75)),
    ],
)
def test_quartiles(values, expected):
    assert Quartiles.of(values) == pytest.approx(expected)
    # NumPy's linear interpolation is the same definition.
    found = np.percentile(values, [50, 25, 75])
    assert Quartiles.of(values) == pytest.approx(tuple(found))


def test_calls_are_timed_after_a_first_one_and_with_the_device_done(monkeypatch):
    events = []
    clock = iter([0.0, 1.0, 10.0, 12.0, 20.0, 23.0])

    def now():
        events.append("look")
        return next(clock)

    monkeypatch.setattr(time, "perf_counter", now)
    quartiles = time_calls(lambda: events.append("call"), 3, lambda: events.append("wait"))
    assert events == ["call", "wait"] + ["look", "call", "wait", "look"] * 3
    assert quartiles == (2.0, 1.5, 2.5)
