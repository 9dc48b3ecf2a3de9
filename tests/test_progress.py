import io
import logging
import subprocess
import sys
import time

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


CLOCKS = ("time", "perf_counter", "process_time", "monotonic", "thread_time")


@pytest.mark.parametrize("level", [logging.NOTSET, logging.INFO, logging.WARNING])
def test_nothing_is_measured_unless_debug_is_asked_for(level, monkeypatch):
    def read(*_):
        raise AssertionError("measured")

    logger = logging.getLogger("geonode")
    monkeypatch.setattr(logger, "level", logger.level)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    logger.setLevel(level)
    with monkeypatch.context() as patch:
        for clock in CLOCKS:
            patch.setattr(time, clock, read)
            patch.setattr(time, f"{clock}_ns", read)
        patch.setitem(sys.modules, "torch", None)
        patch.setitem(sys.modules, "geonode.observation.usage", None)
        with bar("my series", 4) as report:
            report(1)
    logger.setLevel(logging.DEBUG)
    with monkeypatch.context() as patch:
        patch.setattr(time, "perf_counter", read)
        with pytest.raises(AssertionError, match="measured"), bar("my series", 4):
            pass


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
@pytest.mark.parametrize("quiet", [False, True])
def test_units_are_counted_for_the_log_whether_shown_or_not(stream, quiet, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG, logger="geonode")
    if quiet:
        with quietly():
            assert not shown(monkeypatch, stream())
    else:
        assert shown(monkeypatch, stream()) == (stream is Terminal)
    (record,) = caplog.records
    assert record.getMessage().startswith("my series: 3 units in ")


def test_counting_for_the_log_imports_no_torch():
    code = (
        "import logging, sys\n"
        "from geonode.progress import bar\n"
        "logging.basicConfig(level=logging.DEBUG)\n"
        "with bar('my series', 4) as report: report(4)\n"
        "sys.exit('torch' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (run.returncode, "my series: 4 units" in run.stderr) == (0, True)


def test_memory_that_grows_while_steady_work_goes_on_is_a_warning(monkeypatch, caplog):
    for steady in (False, True):
        memory = iter([100_000_000, 230_000_000])
        monkeypatch.setattr("geonode.observation.usage.own_memory", memory.__next__)
        with bar("my series", 4, steady=steady) as report:
            report(1)
            report(3)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage().startswith("my series: memory grew from 100 MB")
