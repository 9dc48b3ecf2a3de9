"""Commands about the artifacts of a pipeline."""

import json
import shutil

import pytest

from tests.commands.calling import call
from tests.storage.conftest import write_artifacts


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return write_artifacts(tmp_path_factory.mktemp("made") / "data")


@pytest.fixture
def folder(made, tmp_path):
    return shutil.copytree(made, tmp_path / "data")


def test_intact_artifacts_are_listed_and_verified(folder):
    shown = call("info", folder)
    assert shown.exit_code == 0
    assert "intact; " in shown.stdout
    assert "line    float64  6  line  nm  Line" in shown.stdout
    listed = json.loads(call("info", folder, "--json").stdout)
    assert [artifact["path"] for artifact in listed["artifacts"]] == [
        str(folder / name) for name in ("metric.safetensors", "solved.zarr", "spectra.zarr")
    ]
    result = call("verify", folder)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "all 3 artifacts are intact and belong together\n"
    assert json.loads(call("verify", folder, "--json").stdout)["problems"] == []


def test_damage_ends_with_status_one_and_names_the_array(folder):
    file = next((folder / "spectra.zarr/square/c").iterdir())
    file.write_bytes(file.read_bytes()[:-1])
    shown = call("info", folder)
    assert shown.exit_code == 1
    assert "1 of 3 artifacts are damaged" in shown.stderr
    result = call("verify", folder)
    assert result.exit_code == 1
    assert "spectra.zarr, array 'square'" in result.stdout
    problems = json.loads(call("verify", folder, "--json").stdout)["problems"]
    assert [problem["array"] for problem in problems] == ["square"]


def test_a_folder_without_artifacts_is_one_line_and_status_two(tmp_path):
    for command in ("info", "verify"):
        result = call(command, tmp_path)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "run `dvc repro` first" in result.stderr
