import logging
import os
import re
import sys
import time
import types
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from geonode import usage
from geonode.usage import Usage, own_memory, resident_memory

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="not reported elsewhere")


@pytest.fixture
def line(caplog, monkeypatch):
    """The line about work of 10 s."""
    caplog.set_level(logging.DEBUG, logger="geonode")

    def log(work=lambda count: count(0)):
        monkeypatch.setattr(time, "perf_counter", iter([100.0, 110.0]).__next__)
        caplog.clear()
        used = Usage(100)
        work(used.count)
        used.log("my work")
        (record,) = caplog.records
        assert (record.name, record.levelname) == ("geonode.usage", "DEBUG")
        return record.getMessage()

    return log


def test_units_of_all_threads_are_counted_and_time_is_that_of_the_clock(line):
    def work(count):
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda _: [count(3) for _ in range(5_000)], range(4)))

    assert line(work).startswith(
        "my work: 60,000 units in 10.000 s, 6,000.0 a second; resident memory "
    )


@LINUX
def test_memory_is_what_is_held_and_the_own_is_without_mapped_files(line, tmp_path):
    np.lib.format.open_memmap(tmp_path / "file.npy", "w+", shape=(20_000_000,))[:] = 1
    before, own = resident_memory(), own_memory()
    mapped = np.load(tmp_path / "file.npy", mmap_mode="r")
    assert mapped.sum() == 20_000_000
    assert resident_memory().now - before.now > 150e6
    assert own_memory() - own < 10e6
    held = np.ones(20_000_000)
    during = resident_memory()
    assert own_memory() - own == pytest.approx(held.nbytes, rel=0.1)
    assert during.now - before.now == pytest.approx(2 * held.nbytes, rel=0.1)
    found = re.search(r"resident memory ([\d,]+) MB, at its peak ([\d,]+) MB", line())
    said = [float(number.replace(",", "")) for number in found.groups()]
    assert said == pytest.approx([during.now / 1e6, during.peak / 1e6], abs=3)
    del held
    after = resident_memory()
    assert during.now - after.now == pytest.approx(160e6, rel=0.1)
    assert after.peak > 0.99 * during.now


def test_memory_that_the_system_does_not_tell_is_said_to_be_unmeasured(line, monkeypatch, tmp_path):
    status = tmp_path / str(os.getpid()) / "status"
    status.parent.mkdir()
    status.write_text("Name:\tpython\nVmRSS:\t    2000 kB\n", encoding="utf-8")
    monkeypatch.setattr(usage, "_PROCESSES", tmp_path)
    assert resident_memory() == (2_048_000, None)
    assert line().endswith("resident memory 2 MB, at its peak not measured")
    status.unlink()
    assert line().endswith("resident memory not measured, at its peak not measured")


def no_pynvml():
    raise ModuleNotFoundError("pynvml")


@pytest.mark.parametrize(
    ("utilisation", "said"), [(lambda: 37, "37%"), (no_pynvml, "not measured")]
)
def test_a_gpu_in_use_is_told_of_and_no_other(utilisation, said, line, monkeypatch):
    def torch(in_use):
        cuda = types.SimpleNamespace(
            is_initialized=lambda: in_use,
            memory_allocated=lambda: 12_000_000,
            max_memory_allocated=lambda: 3_400_000_000,
            utilization=utilisation,
        )
        return types.SimpleNamespace(cuda=cuda)

    monkeypatch.setitem(sys.modules, "torch", torch(in_use=True))
    expected = f"; CUDA memory 12 MB, at its peak 3,400 MB, utilisation {said}"
    assert line().endswith(expected)
    monkeypatch.setitem(sys.modules, "torch", torch(in_use=False))
    assert "CUDA" not in line()
    monkeypatch.delitem(sys.modules, "torch")
    assert "CUDA" not in line()
    assert "torch" not in sys.modules


@pytest.mark.parametrize(
    ("first", "last", "warned"),
    [
        (1_000, 1_200, False),
        (1_000, 1_201, True),
        (1_000, 500, False),
        (300, 500, False),  # two thirds, but no more than what begins late
        (300, 501, True),
        (2_000, 2_401, True),
    ],
)
def test_growth_since_a_tenth_of_the_work_is_a_warning_above_a_fifth_and_above_the_start_up(
    first, last, warned, monkeypatch, caplog
):
    memory = iter([1_000_000 * first, 1_000_000 * last])
    monkeypatch.setattr(usage, "own_memory", memory.__next__)
    used = Usage(100, "my work")
    for done in (4, 5):
        used.count(done)
        assert used.first is None
    for _ in range(91):
        used.count(1)
        assert used.first == 1_000_000 * first
    said = f"my work: memory grew from {first:,} MB after a tenth of the work to {last:,} MB"
    assert (said in caplog.text) == warned == bool(caplog.records)


def test_growth_is_told_when_it_is_seen_and_once(monkeypatch, caplog):
    clock, memory = iter(range(0, 1_000, 3)), iter(range(10**9, 10**12, 10**8))
    monkeypatch.setattr(time, "monotonic", clock.__next__)
    monkeypatch.setattr(usage, "own_memory", memory.__next__)
    used = Usage(100, "my work")
    for done in range(1, 51):
        used.count(1)
        assert len(caplog.records) == (done >= 12)  # 1,000 MB at first, 1,300 MB here
    assert "to 1,300 MB after 12% of it" in caplog.text


def test_nothing_is_said_of_memory_that_is_not_told(monkeypatch, caplog):
    monkeypatch.setattr(usage, "own_memory", lambda: None)
    used = Usage(10, "my work")
    used.count(10)
    assert not caplog.records
