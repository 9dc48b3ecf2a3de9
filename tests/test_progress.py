import io
import logging
import subprocess
import sys
from contextlib import nullcontext

import pytest

from geonode.progress import bar, is_quiet, quietly


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown(monkeypatch, stream):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stream)
    with bar("my series", 4) as report:
        report(1)
        report(2)
    text = stream.getvalue()
    assert ("my series" in text) == ("75%" in text)
    return "my series" in text


def test_how_far_it_is_shows_on_a_terminal_alone(monkeypatch):
    assert shown(monkeypatch, Terminal())
    assert not shown(monkeypatch, io.StringIO())


def test_quiet_is_silent_and_ends(monkeypatch):
    with quietly():
        assert is_quiet()
        assert not shown(monkeypatch, Terminal())
        with quietly():
            pass
        assert is_quiet()
    assert not is_quiet()
    with pytest.raises(KeyError), quietly():
        raise KeyError
    assert shown(monkeypatch, Terminal())


@pytest.mark.parametrize("quiet", [False, True])
def test_units_are_counted_for_the_log_whether_shown_or_not(quiet, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG, logger="geonode")
    with quietly() if quiet else nullcontext():
        assert shown(monkeypatch, Terminal()) != quiet
    with pytest.raises(KeyError), bar("other series", 4) as report:
        report(2)
        raise KeyError
    first, second = (record.getMessage() for record in caplog.records)
    assert first.startswith("my series: 3 units in ")
    assert second.startswith("other series: 2 units in ")


WORK = """\
import logging, sys
from geonode.progress import bar
every, late = int(sys.argv[1]), int(sys.argv[2])
logging.basicConfig(level=logging.DEBUG)
kept = []
with bar("my work", 100, steady=True) as report:
    for unit in range(100):
        kept.append(b"x" * every)
        if unit == 50:
            kept.append(b"x" * late)
        report(1)
sys.exit("torch" in sys.modules)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="not reported elsewhere")
@pytest.mark.parametrize(
    ("every", "late", "warned"), [(2_000_000, 0, True), (1_000, 60_000_000, False)]
)
def test_work_that_keeps_what_it_makes_is_told_and_a_late_start_up_is_not(every, late, warned):
    """In a process that imports no torch for the log."""
    command = [sys.executable, "-c", WORK, str(every), str(late)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "my work: 100 units" in run.stderr
    assert ("my work: memory grew from " in run.stderr) == warned
