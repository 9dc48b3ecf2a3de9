"""Records of the stages, as `benchmark` reads them."""

import json
from dataclasses import asdict

import pytest

from benchmarks.performance import benchmark, parity
from benchmarks.performance.timing import Quartiles
from geonode.compute.device import resolve
from geonode.errors import ArtifactError, MissingArtifactError
from geonode.parameters_file import read_parameters
from geonode.storage.document import write_document
from geonode.storage.record import Record, conditions
from stages.benchmark import stage_records
from stages.paths import DEVICE, METRICS, PIPELINE, RECORDS


@pytest.fixture
def parameters(project):
    """Of a project whose stages left records."""
    found = read_parameters(project / "params.yaml")
    here = conditions(found.engine.model_dump(mode="json"))
    for place, name in enumerate(PIPELINE):
        record = Record(10.0 + place, 100.0, None, True, here)
        write_document(RECORDS / f"{name}.json", asdict(record))
    return found


@pytest.fixture
def timed(parameters, monkeypatch):
    """Timings of a device that is not there."""
    kernels = {"rates": {}, "published_work": {"seconds": 100.0}}
    call, agreement = Quartiles(2e-4, 1e-4, 4e-4), parity.Parity(1e-6, 2e-5, 3e-4, 0.9, 0.8)
    monkeypatch.setattr("stages.benchmark._inputs", lambda: (None, None, None))
    monkeypatch.setattr(parity.MiddleFold, "geodesics", [(0, 0)] * 75)
    monkeypatch.setattr(parity.MiddleFold, "walk", lambda *_: ("walked", call))
    monkeypatch.setattr(
        parity.MiddleFold, "parity", lambda _, walked: {"walked": agreement}[walked]
    )
    monkeypatch.setattr(benchmark.Kernels, "measure", lambda *_: kernels)
    write_document(DEVICE, resolve("cpu", parameters.precision).describe())


@pytest.mark.usefixtures("unchecked")
def test_the_speed_up_is_over_the_calls_of_the_publication(timed, run):
    assert run("benchmark").exit_code == 0
    found = json.loads((METRICS / "benchmark.json").read_text(encoding="utf-8"))
    calls, total = 162_270_000_000, sum(10.0 + place for place in range(8))
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
    expected = {"seconds": 12.0, "peak_mb": 100.0, "device_peak_mb": None}
    assert found["stages"]["spectra"] == expected


def change(name, **values):
    record = asdict(Record.read(RECORDS / f"{name}.json"))
    write_document(RECORDS / f"{name}.json", record | values)


def test_records_of_whole_runs_here_are_taken(parameters):
    seconds = {name: record.seconds for name, record in stage_records(parameters).items()}
    assert seconds == {name: 10.0 + place for place, name in enumerate(PIPELINE)}


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"whole": False}, "a resumed or profiled run"),
        ({"conditions": {"machine": {}, "engine": {}}}, "another machine or engine"),
    ],
)
def test_any_other_record_is_refused_with_what_to_do(values, found, parameters):
    change("metric", **values)
    expected = rf"metric\.json: found the record of {found}.*--single-item metric`"
    with pytest.raises(ArtifactError, match=expected):
        stage_records(parameters)


def test_another_engine_is_refused(parameters):
    engine = parameters.engine.model_copy(update={"workers": parameters.engine.workers + 1})
    with pytest.raises(ArtifactError, match="another machine or engine"):
        stage_records(parameters.model_copy(update={"engine": engine}))


def test_a_record_that_is_missing_is_named(parameters):
    (RECORDS / "spectra.json").unlink()
    with pytest.raises(MissingArtifactError, match=r"data/records/spectra\.json: not found; run"):
        stage_records(parameters)


def test_a_profiled_or_resumed_run_is_not_whole(run, project):
    path = RECORDS / "generate.json"
    assert run("generate", "--profile").exit_code == 0
    assert not Record.read(path).whole
    assert run("generate").exit_code == 0
    assert Record.read(path).whole
    (project / "data/checkpoints/generate").mkdir(parents=True)
    assert run("generate").exit_code == 0
    assert not Record.read(path).whole
