import io
import sys

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
