"""Records of the stages, as `benchmark` reads them."""

from dataclasses import asdict

import pytest

from geonode.errors import ArtifactError, MissingArtifactError
from geonode.observation.record import Record, conditions
from geonode.parameters_file import read_parameters
from geonode.storage.document import write_document
from stages.benchmark import stage_records
from stages.paths import PIPELINE, RECORDS


@pytest.fixture
def parameters(project):
    """Of a project whose stages left records."""
    found = read_parameters(project / "params.yaml")
    here = conditions(found.engine.model_dump(mode="json"))
    for place, name in enumerate(PIPELINE):
        record = Record(10.0 + place, 100.0, None, True, here)
        write_document(RECORDS / f"{name}.json", asdict(record))
    return found


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
