"""What reruns a stage besides its artifacts: code that means something else, other parameters."""

import json
import shutil

import pytest

from geonode.parameters_file import read_parameters
from stages.inputs import SourceCode, write_inputs
from stages.paths import STAGES
from tests.stages.conftest import ROOT

METRIC = "stages/metric.py"


@pytest.fixture(scope="module")
def before():
    return SourceCode(ROOT).digest(METRIC)


@pytest.fixture
def copy(tmp_path):
    """The packages, to be changed."""
    for package in ("geonode", "stages"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=lambda *_: {"__pycache__"})
    return tmp_path


def edit(copy, file, found, other):
    text = (copy / file).read_text(encoding="utf-8")
    assert found in text
    (copy / file).write_text(text.replace(found, other, 1), encoding="utf-8")


def test_words_rerun_nothing(copy, before):
    """Comments, docstrings and blank lines."""
    file = "geonode/training/schedules.py"
    text = (copy / file).read_text(encoding="utf-8")
    first = text.index('"""') + 3
    text = text[:first] + "Other words. " + text[first:] + "\n\n# A comment.\n"
    (copy / file).write_text(text, encoding="utf-8")
    assert SourceCode(copy).digest(METRIC) == before


@pytest.mark.parametrize(
    ("file", "found", "other"),
    [
        ("geonode/training/trainer.py", "import ", "import this\nimport "),
        ("geonode/config.py", "class ", "ONE = 1\n\n\nclass "),
        ("stages/command.py", "def ", "ONE = 1\n\n\ndef "),
        (METRIC, "@stage(", "ONE = 1\n\n\n@stage("),
    ],
)
def test_code_that_a_stage_imports_reruns_it(copy, before, file, found, other):
    edit(copy, file, found, other)
    assert SourceCode(copy).digest(METRIC) != before


def test_code_that_a_stage_does_not_import_reruns_it_not(copy, before):
    edit(copy, "geonode/report/page.py", "import ", "import this\nimport ")
    edit(copy, "stages/validate.py", "import ", "import this\nimport ")
    assert SourceCode(copy).digest(METRIC) == before


def test_data_files_of_the_package_count(copy):
    decoders = SourceCode(copy).digest("stages/decoders.py")
    with (copy / "geonode/posterior/prior.safetensors").open("ab") as file:
        file.write(b"\0")
    assert SourceCode(copy).digest("stages/decoders.py") != decoders


def parameters_of(folder, monkeypatch, **changes):
    monkeypatch.chdir(folder)
    write_inputs(read_parameters(ROOT / "params.yaml", changes))
    return {
        name: json.loads((folder / f"data/inputs/{name}.json").read_text())["parameters"]
        for name in STAGES
    }


@pytest.mark.parametrize(
    ("changes", "stages"),
    [
        ({"presets.thorough": {"metric.members": 3}}, set()),
        ({"memory_mb": 50, "engine.workers": 7}, set()),
        ({"preset": "fast"}, {"metric", "decoders", "ablation", "benchmark"}),
        ({"metric.epochs": 7}, {"metric", "ablation", "benchmark"}),
        ({"validate.bands": {}}, {"validate", "benchmark"}),
    ],
)
def test_parameters_rerun_the_stages_that_they_decide(tmp_path, monkeypatch, changes, stages):
    usual = parameters_of(tmp_path, monkeypatch)
    changed = parameters_of(tmp_path, monkeypatch, **changes)
    assert {name for name in STAGES if usual[name] != changed[name]} == stages
