import json
import os
import subprocess
import sys
import time

import pytest

from geonode.errors import CorruptArtifactError, MissingArtifactError
from geonode.observation.machine import machine, processor
from geonode.observation.record import Record, conditions, recorded
from geonode.storage.document import write_document

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="not reported elsewhere")
ENGINE = {"kind": "local", "workers": 2, "scheduler": None}
MEMORY = 60_000_000
SLEEPING = f"""\
import json, sys, time
from pathlib import Path
from geonode.observation.record import recorded
time.sleep(0.3)
with recorded(Path(sys.argv[1]), {{}}, whole=True):
    block = bytearray(b"x") * {MEMORY}
    time.sleep(0.3)
del block
"""


def python(code, *arguments):
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code, *arguments], check=True)
    return time.perf_counter() - began


def test_a_record_is_of_the_whole_process_and_no_longer(tmp_path):
    seconds = python(SLEEPING, str(tmp_path / "a.json"))
    found = Record.read(tmp_path / "a.json")
    assert 0.6 <= found.seconds + 0.01 <= seconds + 0.02  # the system counts hundredths
    assert found.whole
    assert found.device_peak_mb is None


@LINUX
def test_memory_of_a_record_is_the_largest_that_was_held(tmp_path):
    python(SLEEPING, str(tmp_path / "a.json"))
    python(SLEEPING.replace(str(MEMORY), "1"), str(tmp_path / "b.json"))
    large, small = (Record.read(tmp_path / name).peak_mb for name in ("a.json", "b.json"))
    assert large - small == pytest.approx(MEMORY / 1e6, abs=5)


def test_a_failure_leaves_no_record(tmp_path):
    with pytest.raises(ArithmeticError), recorded(tmp_path / "a.json", ENGINE, whole=True):
        raise ArithmeticError
    assert list(tmp_path.iterdir()) == []


def test_a_record_tells_machine_and_engine(tmp_path):
    with recorded(tmp_path / "a.json", ENGINE, whole=False):
        pass
    found = Record.read(tmp_path / "a.json")
    assert not found.whole
    assert found.conditions == conditions(ENGINE) != conditions({**ENGINE, "workers": 3})
    assert found.conditions["machine"]["cores"] == os.cpu_count()
    assert found.conditions["machine"]["processor"] == processor() != ""


def test_a_damaged_record_is_refused(tmp_path):
    path = tmp_path / "a.json"
    with recorded(path, ENGINE, whole=True):
        pass
    record = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(record | {"seconds": 1e-9}), encoding="utf-8")
    with pytest.raises(CorruptArtifactError):
        Record.read(path)
    write_document(path, {"seconds": 1.0})
    with pytest.raises(CorruptArtifactError, match=r"a\.json: .*no record"):
        Record.read(path)
    with pytest.raises(MissingArtifactError):
        Record.read(tmp_path / "b.json")


def test_the_machine_is_told_without_torch():
    code = "import sys; from geonode.observation.machine import machine; machine(); "
    python(code + "assert 'torch' not in sys.modules")
    assert machine()["torch"].startswith("2.")
