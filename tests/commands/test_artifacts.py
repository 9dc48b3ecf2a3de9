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


def test_intact_artifacts_are_listed(folder):
    result = call("verify", folder)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "line    float64  6  line  nm  Line" in result.stdout
    assert result.stdout.endswith("\nall 3 artifacts are intact and belong together\n")
    listed = json.loads(call("verify", folder, "--json").stdout)
    assert [artifact["path"] for artifact in listed["artifacts"]] == [
        str(folder / name) for name in ("metric.safetensors", "solved.zarr", "spectra.zarr")
    ]
    assert listed["problems"] == []


def test_damage_ends_with_status_one_and_names_the_array(folder):
    file = next((folder / "spectra.zarr/square/c").iterdir())
    file.write_bytes(file.read_bytes()[:-1])
    result = call("verify", folder)
    assert result.exit_code == 1
    assert "spectra.zarr, array 'square'" in result.stdout
    assert f"problems of {folder / 'spectra.zarr'}: 1" in result.stderr
    problems = json.loads(call("verify", folder, "--json").stdout)["problems"]
    assert [problem["array"] for problem in problems] == ["square"]


def test_a_folder_without_artifacts_is_one_line_and_status_two(tmp_path):
    result = call("verify", tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "run `dvc repro` first" in result.stderr
