"""What the stages took, as `benchmark` finds it."""

import pytest

from geonode.errors import GeonodeError, MissingArtifactError
from geonode.observation.record import Record
from geonode.parameters_file import read_parameters
from geonode.storage.document import read_document, write_document
from stages.benchmark import stage_records
from stages.paths import RECORDS
from tests.stages.test_faults import snapshot

RAN = ("probe", "generate", "spectra")
PATHS = {name: RECORDS / f"{name}.json" for name in RAN}


@pytest.fixture
def parameters(run, monkeypatch, project):
    """Of a project in which the first stages ran, and alone are the pipeline."""
    for name in RAN:
        assert run(name).exit_code == 0
    monkeypatch.setattr("stages.benchmark.PIPELINE", RAN)
    return read_parameters(project / "params.yaml")


def change(name, **values):
    """Write another record of a stage, of 1000 seconds."""
    record = read_document(PATHS[name])
    record.pop("checksum", None)
    write_document(PATHS[name], record | {"seconds": 1000.0} | values)


def seconds(records):
    return {name: record.seconds for name, record in records.items()}


def test_a_stage_that_ran_whole_on_this_machine_is_not_run_again(parameters):
    for name in RAN:
        change(name)
    assert seconds(stage_records(parameters)) == dict.fromkeys(RAN, 1000.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "values", [{"whole": False}, {"conditions": {"machine": {}, "engine": {}}}]
)
def test_any_other_is_run_again_and_leaves_the_project_as_it_is(values, parameters, project):
    change("generate")
    change("spectra", **values)
    before = snapshot(project), PATHS["spectra"].read_bytes()
    found = stage_records(parameters)
    assert found["generate"].seconds == 1000
    assert 0 < found["spectra"].seconds < 100
    assert found["spectra"].whole
    assert before == (snapshot(project), PATHS["spectra"].read_bytes())


@pytest.mark.slow
def test_another_engine_is_measured(parameters):
    for name in RAN:
        change(name)
    engine = parameters.engine.model_copy(update={"workers": parameters.engine.workers + 1})
    found = stage_records(parameters.model_copy(update={"engine": engine}))
    # the stages of the folder are run with params.yaml, whose engine is not this one
    assert max(seconds(found).values()) < 100


def test_a_profiled_or_resumed_run_is_not_whole(run, project):
    assert run("probe", "--profile").exit_code == 0
    assert not Record.read(PATHS["probe"]).whole
    assert run("probe").exit_code == 0
    assert Record.read(PATHS["probe"]).whole
    (project / "data/checkpoints/probe").mkdir(parents=True)
    assert run("probe").exit_code == 0
    assert not Record.read(PATHS["probe"]).whole


def test_a_record_that_is_missing_says_what_to_do(parameters):
    PATHS["spectra"].unlink()
    with pytest.raises(MissingArtifactError, match=r"data/records/spectra\.json: not found; run"):
        stage_records(parameters)


def test_a_stage_that_fails_when_it_is_run_again_is_named(parameters, project):
    change("spectra", whole=False)
    (project / "data/synthetic.csv").write_text("", encoding="utf-8")
    with pytest.raises(GeonodeError, match=r"stages\.spectra .*failed: error: .*empty"):
        stage_records(parameters)
