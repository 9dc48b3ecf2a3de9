"""What `benchmark` makes of the records of the stages, without timing anything."""

import json
from contextlib import nullcontext
from dataclasses import asdict
from types import SimpleNamespace

import pytest

from geonode.compute.device import resolve
from geonode.parameters_file import read_parameters
from geonode.storage.document import write_json
from geonode.storage.record import Record, conditions
from research import parity
from stages.paths import DEVICE, METRICS, PIPELINE, RECORDS
from stages.performance import kernels
from stages.performance.timing import Quartiles
from tests.geometry.small_series import LEVELS, small_metrics, small_series
from tests.stages.conftest import assert_refused

KERNELS = {"geodesics": {"per_second": 1e8}, "training": {"trained_per_second": 1e6}}


@pytest.fixture
def timed(project, monkeypatch):
    """A project whose stages left records, and timings of a device that is not there."""
    found = read_parameters(project / "params.yaml")
    here = conditions(found.engine.model_dump(mode="json"))
    for place, name in enumerate(PIPELINE):
        record = Record(10.0 + place, 100.0 + place, None, True, here)
        write_json(RECORDS / f"{name}.json", asdict(record))
    write_json(DEVICE, resolve("cpu", found.precision).describe())
    call, agreement = Quartiles(2e-4, 1e-4, 4e-4), parity.Parity(1e-6, 2e-5, 3e-4, 0.9, 0.8)
    fold = SimpleNamespace(
        rows=[(0, 0)] * 75,
        walk=lambda report: ("walked", call),
        parity=lambda walked: {"walked": agreement}[walked],
    )
    monkeypatch.setattr(parity.MiddleFold, "of", lambda *_: fold)
    monkeypatch.setattr(kernels.Kernels, "measure", lambda _: KERNELS)
    monkeypatch.setattr(kernels.Kernels, "published_work", lambda _: {"seconds": 100.0})
    series = small_series(levels=LEVELS)
    monkeypatch.setattr("geonode.spectra.series.read_series", lambda path: series)
    monkeypatch.setattr(
        "geonode.geometry.learned.LearnedMetrics.read", lambda path: small_metrics(series)
    )
    monkeypatch.setattr("geonode.storage.lineage.consistent_artifacts", lambda *_: nullcontext())
    return project


def metrics(name):
    return json.loads((METRICS / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.usefixtures("unchecked")
def test_seconds_memory_and_rates_are_measured_and_nothing_is_compared(timed, run):
    result = run("benchmark", "--sequential-wavelengths", "0")
    assert result.exit_code == 0, result.output
    found, total = metrics("benchmark"), sum(10.0 + place for place in range(len(PIPELINE)))
    assert (found["seconds"], found["peak_mb"]) == (total, 100.0 + len(PIPELINE) - 1)
    expected = {"seconds": 12.0, "peak_mb": 102.0, "device_peak_mb": None}
    assert found["stages"]["spectra"] == expected
    assert (found["device"], found["geodesics"]) == ("cpu", KERNELS["geodesics"])
    assert not (METRICS / "sequential.json").exists()


@pytest.mark.usefixtures("unchecked")
def test_the_speed_up_is_over_the_calls_of_the_publication(timed, run):
    result = run("benchmark", "--sequential-wavelengths", "1")
    assert result.exit_code == 0, result.output
    found = metrics("sequential")
    calls, total = 162_270_000_000, sum(10.0 + place for place in range(len(PIPELINE)))
    assert found["pipeline"] == pytest.approx(
        {
            "seconds": total,
            "speedup": 2e-4 * calls / total,
            "speedup_q25": 1e-4 * calls / total,
            "speedup_q75": 4e-4 * calls / total,
        }
    )
    assert found["published_work"]["speedup"] == pytest.approx(2e-4 * calls / 100)
    assert found["sequential"]["sample_geodesics"] == 75
    assert found["parity"]["prediction"] == 3e-4
    assert found["sequential"]["days_extrapolated"] == pytest.approx(2e-4 * calls / 86400)
    assert not (METRICS / "benchmark.json").exists()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"whole": False}, "a resumed run"),
        ({"conditions": {"machine": {}, "engine": {}}}, "another machine or engine"),
    ],
)
def test_records_that_cannot_be_compared_are_refused(values, found, timed, run):
    path = RECORDS / "metric.json"
    write_json(path, asdict(Record.read(path)) | values)
    result = run("benchmark", "--sequential-wavelengths", "1")
    assert_refused(result, f"metric.json: found the record of {found}", "--single-item metric")
    assert run("benchmark", "--sequential-wavelengths", "0").exit_code == 0


@pytest.mark.usefixtures("unchecked")
def test_a_record_that_is_missing_is_named(timed, run):
    (RECORDS / "spectra.json").unlink()
    assert_refused(run("benchmark"), "data/records/spectra.json: not found")


def test_a_resumed_run_is_not_whole(run, project):
    path = RECORDS / "generate.json"
    assert run("generate").exit_code == 0
    assert Record.read(path).whole
    (project / "data/checkpoints/generate").mkdir(parents=True)
    assert run("generate").exit_code == 0
    assert not Record.read(path).whole
