import subprocess
import sys
import time

import pytest

from geonode.errors import CorruptArtifactError, MissingArtifactError
from geonode.machine import processor_and_versions
from geonode.storage.document import write_json
from geonode.storage.record import Record, device_starts, recorded

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="not reported elsewhere")
MEMORY = 60_000_000
SLEEPING = f"""\
import sys, time
from pathlib import Path
from geonode.machine import processor_and_versions
from geonode.storage.record import recorded
processor_and_versions()
assert "torch" not in sys.modules
time.sleep(0.2)
with recorded(Path(sys.argv[1])):
    block = bytearray(b"x") * {MEMORY}
    time.sleep(0.2)
del block
"""


@LINUX
def test_a_record_is_of_the_whole_process_and_its_largest_memory(tmp_path):
    peaks = []
    for code in (SLEEPING, SLEEPING.replace(str(MEMORY), "1")):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code, str(tmp_path / "a.json")], check=True)
        longest, record = time.perf_counter() - began, Record.read(tmp_path / "a.json")
        assert 0.4 <= record.seconds + 0.01 <= longest + 0.02  # the system counts hundredths
        assert record.device_peak_mb is None
        peaks.append(record.peak_mb)
    assert peaks[0] - peaks[1] == pytest.approx(MEMORY / 1e6, abs=5)


def test_a_record_tells_the_machine(tmp_path):
    path = tmp_path / "a.json"
    with pytest.raises(ArithmeticError), recorded(path):
        raise ArithmeticError
    assert list(tmp_path.iterdir()) == []
    with recorded(path), device_starts():
        pass
    found = Record.read(path)
    assert 0 <= found.device_start < found.imports < found.seconds
    assert found.machine == processor_and_versions()


def test_a_damaged_record_is_refused(tmp_path):
    path = tmp_path / "a.json"
    with pytest.raises(MissingArtifactError):
        Record.read(path)
    write_json(path, {"seconds": 1.0})
    with pytest.raises(CorruptArtifactError, match=r"a\.json: is no record"):
        Record.read(path)
