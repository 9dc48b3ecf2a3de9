import gzip
import json
import logging
import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from geonode.errors import ArtifactError
from geonode.observation import profile
from geonode.observation.profile import operations, profiled, read_events
from geonode.storage import atomic
from tests.storage.damage import contents


def rows(text):
    """Self milliseconds, share, total milliseconds and calls of every operation, by place."""
    found, place = {}, None
    for line in text.splitlines():
        if re.fullmatch(r"\w+, [\d.]+ ms", line):
            place = found.setdefault(line.split(",")[0], {})
        elif place is not None and line and "self ms" not in line:
            own, share, total, calls, name = line.split(maxsplit=4)
            place[name] = (float(own), share, float(total), int(calls.replace(",", "")))
    return found


def event(name, begin, duration, *, cat="cpu_op", tid=1):
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": 7,
        "tid": tid,
        "ts": begin,
        "dur": duration,
        "args": {"External id": 3},
    }


def table(tmp_path, *events):
    trace = tmp_path / "trace.json"
    trace.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), encoding="utf-8")
    return operations(read_events(trace))


def test_self_time_is_without_what_was_called_and_of_every_thread(tmp_path):
    """By hand: outer 1000 holds inner 300 (which holds itself for 100) and a call that overlaps."""
    text = table(
        tmp_path,
        event("inner", 150.0, 100.0),
        event("outer", 0.0, 1000.0),
        event("inner", 100.0, 300.0),
        event("cudaLaunch", 900.0, 150.0, cat="cuda_runtime"),
        event("inner", 1100.0, 20.0),
        event("inner", 1120.0, 30.0),  # which the one before did not call
        event("inner", 0.0, 650.0, tid=2),
        event("some kernel", 10.0, 20.0, cat="kernel"),
        event("some kernel", 29.0, 20.0, cat="kernel"),
        event("PyTorch Profiler", 0.0, 9e9, cat="Trace"),
        {"ph": "M", "name": "process_name", "pid": 7, "tid": 1, "args": {"name": "python"}},
    )
    assert rows(text) == {
        "host": {
            "inner": (1.0, "57.1%", 1.0, 5),
            "outer": (0.6, "34.3%", 1.0, 1),
            "cudaLaunch": (0.15, "8.6%", 0.15, 1),
        },
        "device": {"some kernel": (0.04, "100.0%", 0.04, 2)},
    }


def test_the_ten_costliest_are_shown_and_share_the_whole(tmp_path):
    text = table(tmp_path, *(event(f"op{n}", 1000.0 * n, 1.0 * n) for n in range(1, 16)))
    assert list(rows(text)["host"]) == [f"op{n}" for n in range(15, 5, -1)]
    assert rows(text)["host"]["op15"][1] == "12.5%"  # of 120
    assert len(table(tmp_path, event("k" * 1000, 0.0, 1.0, cat="kernel")).split("k")) == 121


def multiply(times):
    matrix = torch.eye(8)
    for _ in range(times):
        matrix = matrix @ matrix


def test_calls_of_all_threads_are_recorded(tmp_path):
    messages = []
    with profiled(tmp_path / "stage", messages.append):
        multiply(3)
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(multiply, [5, 7]))
    text = (tmp_path / "stage/operations.txt").read_text(encoding="utf-8")
    host = rows(text)["host"]
    assert host["aten::mm"][3] == 15
    assert host["aten::matmul"][2] >= host["aten::mm"][2] > 0
    content = json.loads((tmp_path / "stage/trace.json").read_text(encoding="utf-8"))
    calls = [e for e in content["traceEvents"] if e.get("name") == "aten::mm"]
    assert len({e["tid"] for e in calls}) in (2, 3)  # a thread may take both tasks
    (line,) = messages
    assert f"{tmp_path / 'stage/operations.txt'}, trace.json" in line
    assert "not recorded" not in text


def test_recording_ends_after_some_processor_time_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(profile, "CPU_SECONDS", 0.05)
    with profiled(tmp_path / "stage", str):
        multiply(2)
        deadline = time.process_time() + 0.3
        while time.process_time() < deadline:
            pass
        torch.eye(5).tanh()
    text = (tmp_path / "stage/operations.txt").read_text(encoding="utf-8")
    assert "aten::mm" in text
    assert "aten::tanh" not in text
    ended = r"first 0.05 s of processor time. Those of the next ([\d.]+) s were not recorded"
    assert float(re.search(ended, text)[1]) >= 0.15


def test_a_large_trace_is_compressed(tmp_path, monkeypatch):
    monkeypatch.setattr(profile, "LARGE", 1000)
    (tmp_path / "stage").mkdir()
    (tmp_path / "stage/trace.json").write_text("of an earlier run", encoding="utf-8")
    with profiled(tmp_path / "stage", str):
        multiply(3)
    assert not (tmp_path / "stage/trace.json").exists()
    with gzip.open(tmp_path / "stage/trace.json.gz", "rt", encoding="utf-8") as file:
        names = [event.get("name") for event in json.load(file)["traceEvents"]]
    assert names.count("aten::mm") == 3


def test_what_was_done_before_a_failure_is_written_and_hides_no_error(
    tmp_path, monkeypatch, caplog
):
    with pytest.raises(KeyboardInterrupt), profiled(tmp_path / "stage", str):
        multiply(4)
        raise KeyboardInterrupt
    text = (tmp_path / "stage/operations.txt").read_text(encoding="utf-8")
    assert rows(text)["host"]["aten::mm"][3] == 4
    before = contents(tmp_path)
    assert before.keys() == {"stage/operations.txt", "stage/trace.json"}

    def full(path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic, "_flush", full)
    with pytest.raises(ArtifactError, match="No space left"), profiled(tmp_path / "stage", str):
        multiply(2)
    with pytest.raises(KeyError), profiled(tmp_path / "stage", str):
        raise KeyError
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "No space left" in record.getMessage()
    assert contents(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["stage"]


def test_half_a_trace_is_refused(tmp_path):
    (tmp_path / "trace.json").write_text('{"traceEvents": [{"ph": "X", ', encoding="utf-8")
    with pytest.raises(ArtifactError, match=r"trace\.json.*disk"):
        read_events(tmp_path / "trace.json")


def test_a_folder_of_the_user_is_no_profile_and_stays(tmp_path):
    (tmp_path / "stage").mkdir()
    (tmp_path / "stage/thesis.txt").write_text("mine", encoding="utf-8")
    with (
        pytest.raises(ArtifactError, match=r"stage: found 'thesis\.txt', expected no folder or a"),
        profiled(tmp_path / "stage", str),
    ):
        torch.ones(2)
    assert (tmp_path / "stage/thesis.txt").read_text(encoding="utf-8") == "mine"
