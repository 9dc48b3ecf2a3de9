"""What reruns a stage besides its artifacts: code that means something else, other parameters."""

import importlib
import shutil
from pathlib import Path

import pytest

from geonode.parameters_file import read_parameters
from geonode.storage.document import read_document
from stages.inputs import CODE, SourceCode, decisive, write_inputs
from stages.paths import STAGES
from tests.stages.conftest import ROOT

METRIC = "stages/metric.py"
PARSED = SourceCode._parsed


@pytest.fixture(scope="module")
def code():
    """The code as it is, of which copies need not be parsed again."""
    found = SourceCode(ROOT)
    for stage in (METRIC, "stages/decoders.py"):
        found.digest(stage)
    return found


@pytest.fixture(scope="module")
def before(code):
    return code.digest(METRIC)


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


def test_words_rerun_nothing(copy, code, before):
    """Comments, docstrings and blank lines."""
    file = "geonode/learning/adam.py"
    text = (copy / file).read_text(encoding="utf-8")
    first = text.index('"""') + 3
    text = text[:first] + "Other words. " + text[first:] + "\n\n# A comment.\n"
    (copy / file).write_text(text, encoding="utf-8")
    assert SourceCode(copy, code.read).digest(METRIC) == before


@pytest.mark.parametrize(
    ("file", "found", "other"),
    [
        ("geonode/learning/trainer.py", "import ", "import this\nimport "),
        ("geonode/config.py", "class ", "ONE = 1\n\n\nclass "),
        ("stages/command.py", "def ", "ONE = 1\n\n\ndef "),
        (METRIC, "@stage(", "ONE = 1\n\n\n@stage("),
    ],
)
def test_code_that_a_stage_imports_reruns_it(copy, code, before, file, found, other):
    edit(copy, file, found, other)
    assert SourceCode(copy, code.read).digest(METRIC) != before


def test_code_that_a_stage_does_not_import_reruns_it_not(copy, code, before):
    edit(copy, "geonode/report/page.py", "import ", "import this\nimport ")
    edit(copy, "stages/validate.py", "import ", "import this\nimport ")
    assert SourceCode(copy, code.read).digest(METRIC) == before


def test_data_files_that_a_module_names_count(copy, code):
    before = code.digest("stages/decoders.py")
    (copy / "geonode/posterior/.prior.py.swp").touch()
    with (copy / "geonode/defaults.yaml").open("a") as file:
        file.write("# no stage reads this file\n")
    assert SourceCode(copy, code.read).digest("stages/decoders.py") == before
    with (copy / "geonode/posterior/prior.safetensors").open("ab") as file:
        file.write(b"\0")
    assert SourceCode(copy, code.read).digest("stages/decoders.py") != before


def test_only_files_that_changed_are_parsed_again(copy, code, before, monkeypatch):
    edit(copy, "geonode/learning/trainer.py", "import ", "import this\nimport ")
    whole = SourceCode(copy).digest(METRIC)
    parsed = []
    monkeypatch.setattr(
        SourceCode, "_parsed", lambda self, *given: parsed.append(given[0]) or PARSED(self, *given)
    )
    assert SourceCode(copy, code.read).digest(METRIC) == whole != before
    assert parsed == ["geonode/learning/trainer.py"]


def test_probe_writes_code_and_parameters_of_every_stage(tmp_path, monkeypatch, before):
    monkeypatch.chdir(tmp_path)
    write_inputs(read_parameters(ROOT / "params.yaml"))
    assert {path.stem for path in Path("data/inputs").iterdir()} == {*STAGES, "code"}
    metric = read_document(Path("data/inputs/metric.json"))
    assert metric["code"] == before
    assert metric["parameters"]["metric"]["epochs"] == 300
    CODE.write_bytes(CODE.read_bytes()[:-9])  # is read again
    write_inputs(read_parameters(ROOT / "params.yaml"))
    assert read_document(Path("data/inputs/metric.json")) == metric


@pytest.mark.parametrize(
    ("changes", "stages"),
    [
        ({"presets.thorough": {"metric.members": 3}}, set()),
        ({"memory_mb": 50, "engine.workers": 7}, set()),
        ({"preset": "fast"}, {"metric", "decoders", "ablation", "benchmark"}),
        ({"metric.epochs": 7}, {"metric", "ablation", "benchmark"}),
        ({"validate.bands": {}}, {"validate"}),
    ],
)
def test_parameters_rerun_the_stages_that_they_decide(changes, stages):
    for name in STAGES:
        importlib.import_module(f"stages.{name}")
    usual = read_parameters(ROOT / "params.yaml")
    changed = read_parameters(ROOT / "params.yaml", changes)
    assert {name for name in STAGES if decisive(usual, name) != decisive(changed, name)} == stages
