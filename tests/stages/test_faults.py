"""Damage and bad tables, met by the stages as a user runs them."""

import json
import re
import shutil
from pathlib import Path

import pytest

from geonode.storage.atomic import file_lock
from tests.commands.calling import call
from tests.stages.conftest import ROOT, assert_refused, invoke, small_parameters
from tests.storage.damage import flip

PIPELINE = ["probe", "generate", "spectra", "metric", "christoffel", "geodesics", "decoders"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder in which all stages up to the decoders have run."""
    return finish(tmp_path_factory.mktemp("finished"), small_parameters())


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """One of other spectra, and so of other artifacts of the same shapes."""
    parameters = small_parameters()
    assert parameters.count("seed: 0") == 3
    return finish(tmp_path_factory.mktemp("other"), parameters.replace("seed: 0", "seed: 1"))


def finish(folder, parameters):
    (folder / "params.yaml").write_text(parameters, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in PIPELINE:
            result = invoke(name)
            assert result.exit_code == 0, result.output
    return folder


@pytest.fixture
def damaged(finished, project) -> Path:
    """A copy of the finished folder, to damage."""
    shutil.copytree(finished, project, dirs_exist_ok=True)
    return project


def snapshot(folder: Path) -> dict[Path, bytes]:
    """Every file, but for how long stages took."""
    files = (file for file in folder.rglob("*") if file.is_file() and file.parent.name != "records")
    return {file: file.read_bytes() for file in files}


@pytest.mark.parametrize("damage", [flip, Path.unlink])
@pytest.mark.parametrize(
    ("stage", "file", "named"),
    [
        ("metric", "spectra.zarr/signal/c/0/0", ["'signal'"]),
        ("christoffel", "metric.safetensors", []),
        ("geodesics", "christoffel.zarr/ln_sqrt_g/c/0/0/0/0", ["'ln_sqrt_g'", "0/0/0/0"]),
        ("decoders", "geodesics.zarr/features/c/0/0/0/0/0", ["'features'"]),
        ("validate", "decoders.safetensors", []),
    ],
)
def test_a_damaged_or_missing_file_is_refused_by_the_next_stage(
    stage, file, named, damage, damaged, run
):
    damage(damaged / "data" / file)
    before = snapshot(damaged)
    assert_refused(run(stage), f"data/{file.split('/')[0]}", *named)
    assert snapshot(damaged) == before


@pytest.mark.parametrize(
    ("found", "other", "part"),
    [
        ('"cpu"', '"gpu"', "'gpu' is absent"),
        ('"training": "float32"', '"training": "float8"', "describes no device"),
        ('"geometry"', '"geometries"', "describes no device"),
        ("{", "", "contains no JSON"),
    ],
)
def test_a_device_that_is_none_is_refused(found, other, part, damaged, run):
    text = (damaged / "data/device.json").read_text(encoding="utf-8")
    (damaged / "data/device.json").write_text(text.replace(found, other), encoding="utf-8")
    assert_refused(run("metric"), part)


NAMES = ["spectra.zarr", "metric.safetensors", "christoffel.zarr", "geodesics.zarr",
         "decoders.safetensors"]  # fmt: skip
READ = {
    "christoffel": NAMES[:2],
    "geodesics": NAMES[:3],
    "decoders": [*NAMES[:2], NAMES[3]],
    "validate": [*NAMES[:2], *NAMES[3:]],
    "report": [NAMES[0], *NAMES[2:4]],
    "benchmark": NAMES[:2],
}
"""What every stage reads that must belong together, in the order in which it is made."""


def exchange(folder, other, name):
    if (folder / name).is_dir():
        shutil.rmtree(folder / name)
        shutil.copytree(other / name, folder / name)
    else:
        shutil.copy2(other / name, folder / name)


@pytest.mark.parametrize(
    ("stage", "name"), [(stage, name) for stage, names in READ.items() for name in names]
)
def test_a_whole_artifact_of_another_run_is_refused_by_each_stage(stage, name, damaged, other, run):
    """By what was made from it, or of what it was made from: it comes first or is not the first."""
    exchange(damaged / "data", other / "data", name)
    before = snapshot(damaged)
    read = READ[stage]
    made, source = (read[1], name) if name == read[0] else (name, read[0])
    assert_refused(run(stage), f"data/{made}: ", f" data/{source};", "run `dvc repro`")
    assert snapshot(damaged) == before


def test_a_model_with_an_artifact_of_another_run_predicts_nothing(damaged, other):
    exchange(damaged / "data", other / "data", "decoders.safetensors")
    result = call("predict", "--concentration", "30")
    assert_refused(result, "data/decoders.safetensors", "data/spectra.zarr", "run `dvc repro`")


@pytest.mark.slow
def test_inner_metrics_of_other_inner_folds_are_refused(damaged, run):
    """Of the 15 pairs of six levels two a fold are 6, and three 9."""
    before = snapshot(damaged / "data")
    assert_refused(run("decoders", "--inner-levels", "3"), "data/metric.safetensors", "inner")
    assert snapshot(damaged / "data") == before


@pytest.mark.slow
def test_path_decoders_alone_have_no_intervals(damaged, run):
    assert run("decoders", "--kind", "path").exit_code == 0
    assert run("validate").exit_code == 0
    path = json.loads((damaged / "metrics/validate.json").read_text(encoding="utf-8"))
    assert (path["coverage"], path["coverage90"]) == (None, None)
    assert len(path["estimation"]["levels"]) > 0  # by the posterior, which nothing trains
    table = (damaged / "metrics/plots/predictions.csv").read_text(encoding="utf-8")
    assert table.startswith("level,wavelength,measured,predicted,standard deviation\n")


def test_the_example_of_the_documentation_runs(damaged, capsys):
    page = (ROOT / "docs" / "artifacts.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```", page, re.S | re.M)
    exec(compile(example, "docs/artifacts.md", "exec"), {})
    assert "absorbance" in capsys.readouterr().out


GOOD = "wavelength_nm,0,10,20,40\n" + "".join(f"{w},1,2.{w},3.{w},{w}\n" for w in range(400, 410))


@pytest.mark.parametrize(
    ("text", "options", "parts"),
    [
        (GOOD.replace("10,20", "10 ppm,20", 1), (), ["ppm", "spectra.concentration_unit ppb"]),
        (GOOD, ("--chart", "log"), ["level 0", "asinh"]),
    ],
)
def test_a_bad_table_is_refused_and_the_old_artifact_kept(text, options, parts, damaged, run):
    (damaged / "mine.csv").write_text(text, encoding="utf-8")
    before = snapshot(damaged)
    assert_refused(run("spectra", "--source", "mine.csv", *options), *parts)
    assert snapshot(damaged) == before


def test_a_stage_that_trains_refuses_to_run_with_another(damaged, run):
    with file_lock(damaged / "data/metric"):
        assert_refused(run("metric"), "data/metric", "is being written by another process")


def test_an_output_that_is_a_link_is_replaced_and_not_followed(project, run):
    (project / "data").mkdir()
    (project / "kept.csv").write_text("kept", encoding="utf-8")
    (project / "data/synthetic.csv").symlink_to(project / "kept.csv")
    assert run("generate").exit_code == 0
    assert (project / "kept.csv").read_text(encoding="utf-8") == "kept"
    assert not (project / "data/synthetic.csv").is_symlink()
