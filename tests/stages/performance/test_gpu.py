import time

import pytest

from stages.performance.gpu import sampled


def test_samples_are_averaged_and_none_are_taken_afterwards(tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    lines = "80, 40, 1000, 80000\\n100, 60, 2000, 80000\\n"
    program.write_text(f"#!/bin/sh\nprintf '{lines}'\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with sampled() as found:
        time.sleep(0.5)
    percent = {"busy_percent": 90, "memory_busy_percent": 50, "memory_percent": 2.5}
    assert found == pytest.approx(percent)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with sampled() as found:
        pass
    assert found == {}
