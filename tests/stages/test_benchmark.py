"""What `benchmark` makes of the records of the stages, without timing anything."""

import json
import shutil
from dataclasses import asdict

from geonode.compute.device import resolve
from geonode.config import PrecisionParameters
from geonode.storage.document import write_json
from geonode.storage.record import Record
from stages.paths import DEVICE, METRICS, PIPELINE, RECORDS, WORK
from stages.performance import kernels

KERNELS = {"geodesics": {"rows": 20, "per_second": 1e8}, "training": {"trained_per_second": 1e6}}


def leave_run(trained):
    """Records of a whole run here, and artifacts of the pipeline that has learned a series."""
    shutil.copytree(trained / "data", "data")
    for place, name in enumerate(PIPELINE):
        record = Record(10.0 + place, 100.0 + place, None, None, 0.5, 0.25)
        write_json(RECORDS / f"{name}.json", asdict(record))
    write_json(DEVICE, resolve("cpu", PrecisionParameters()).describe())


def test_seconds_memory_and_rates_are_measured(run, monkeypatch, trained):
    leave_run(trained)
    monkeypatch.setattr(kernels.Kernels, "measure", lambda _: KERNELS)

    def measured():
        result = run("benchmark")
        assert result.exit_code == 0, result.output
        return json.loads((METRICS / "benchmark.json").read_text(encoding="utf-8")), result.output

    found, _ = measured()
    total = sum(10.0 + place for place in range(len(PIPELINE)))
    assert (found["seconds"], found["peak_mb"]) == (total, 100.0 + len(PIPELINE) - 1)
    expected = {"seconds": 12.0, "imports": 0.5, "device_start": 0.25}
    expected |= {"peak_mb": 102.0, "device_peak_mb": None}
    assert found["stages"]["spectra"] == expected
    assert (found["device"], found["geodesics"]) == ("cpu", KERNELS["geodesics"])
    assert json.loads(WORK.read_text(encoding="utf-8")) == {
        "geodesics": {"rows": 20},
        "training": {},
    }

    (RECORDS / "spectra.json").unlink()  # it never ran here
    found, said = measured()
    assert "not timed (spectra cached)" in said
    assert (found["seconds"], found["stages"].get("spectra")) == (None, None)
