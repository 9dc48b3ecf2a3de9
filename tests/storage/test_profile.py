import gzip
import json
import logging
import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from geonode.errors import ArtifactError
from geonode.storage import atomic, profile
from geonode.storage.profile import profiled
from tests.storage.damage import contents


def events(path):
    """Names and threads of the operations of a trace."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        found = json.load(file)["traceEvents"]
    return [(event["name"], event["tid"]) for event in found if event.get("cat") == "cpu_op"]


def multiply(times):
    matrix = torch.eye(8)
    for _ in range(times):
        matrix = matrix @ matrix


def test_calls_of_all_threads_are_recorded(tmp_path):
    messages, path = [], tmp_path / "folder/stage.json.gz"
    with profiled(path, messages.append):
        multiply(3)
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(multiply, [5, 7]))
    calls = [thread for name, thread in events(path) if name == "aten::mm"]
    assert len(calls) == 15
    assert len(set(calls)) in (2, 3)  # a thread may take both tasks
    assert re.fullmatch(rf"profile of [\d.]+ s -> {path}", messages[0])
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_recording_ends_after_some_processor_time_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(profile, "CPU_SECONDS", 0.05)
    messages = []
    with profiled(tmp_path / "a.gz", messages.append):
        multiply(2)
        deadline = time.process_time() + 0.3
        while time.process_time() < deadline:
            pass
        torch.eye(5).tanh()
    names = {name for name, _ in events(tmp_path / "a.gz")}
    assert "aten::mm" in names
    assert "aten::tanh" not in names
    assert float(re.search(r"without the next ([\d.]+) s", messages[0])[1]) >= 0.15


def test_what_was_done_before_a_failure_is_written_and_hides_no_error(
    tmp_path, monkeypatch, caplog
):
    path = tmp_path / "a.gz"
    with pytest.raises(KeyboardInterrupt), profiled(path, str):
        multiply(4)
        raise KeyboardInterrupt
    assert [name for name, _ in events(path)].count("aten::mm") == 4
    before = contents(tmp_path)

    def full(path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic, "_flush", full)
    with pytest.raises(ArtifactError, match="No space left"), profiled(path, str):
        multiply(2)
    with pytest.raises(KeyError), profiled(path, str):
        raise KeyError
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "No space left" in record.getMessage()
    assert contents(tmp_path) == before
