import os
import re
import sys
import types

import numpy as np
import pytest

from geonode import usage
from geonode.usage import memory_in_use, resident_memory


@pytest.mark.skipif(sys.platform != "linux", reason="not reported elsewhere")
def test_memory_is_what_is_held_and_its_peak():
    before, held = resident_memory(), np.ones(20_000_000)
    during = resident_memory()
    assert during.now - before.now == pytest.approx(held.nbytes, rel=0.1)
    found = re.search(r"resident memory ([\d,]+) MB, at its peak ([\d,]+) MB", memory_in_use())
    said = [float(number.replace(",", "")) for number in found.groups()]
    assert said == pytest.approx([during.now / 1e6, during.peak / 1e6], abs=3)
    del held
    assert resident_memory().peak > 0.99 * during.now


def test_memory_that_the_system_does_not_tell_is_said_to_be_unmeasured(monkeypatch, tmp_path):
    status = tmp_path / str(os.getpid()) / "status"
    status.parent.mkdir()
    status.write_text("Name:\tpython\nVmRSS:\t    2000 kB\n", encoding="utf-8")
    monkeypatch.setattr(usage, "_PROCESSES", tmp_path)
    assert resident_memory() == (2_048_000, None)
    assert memory_in_use().endswith("resident memory 2 MB, at its peak not measured")
    status.unlink()
    assert memory_in_use().endswith("resident memory not measured, at its peak not measured")


@pytest.mark.parametrize("in_use", [True, False])
def test_a_gpu_in_use_is_told_of_and_no_other(in_use, monkeypatch):
    cuda = types.SimpleNamespace(
        is_initialized=lambda: in_use,
        memory_allocated=lambda: 12_000_000,
        max_memory_allocated=lambda: 3_400_000_000,
    )
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda))
    assert ("; CUDA memory 12 MB, at its peak 3,400 MB" in memory_in_use()) == in_use
    monkeypatch.delitem(sys.modules, "torch")
    assert "CUDA" not in memory_in_use()
    assert "torch" not in sys.modules
