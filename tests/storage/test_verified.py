"""Contents and problems of artifacts, in a folder of three that belong together."""

import json
import random
import shutil

import pytest

from geonode.storage.verified import size_of, verified
from tests.commands.calling import call
from tests.stages.conftest import assert_refused
from tests.storage.conftest import write_artifacts
from tests.storage.damage import contents

NAMES = ["metric.safetensors", "solved.zarr", "spectra.zarr"]


def found(folder):
    """Artifact, array and text of every problem."""
    return [
        (one.path.name, getattr(problem, "array", ""), str(problem))
        for one in verified(folder)
        for problem in one.problems
    ]


def test_a_flipped_bit_is_found_in_every_file(folder):
    choose = random.Random(0)
    for name, before in contents(folder).items():
        damaged = bytearray(before)
        damaged[choose.randrange(len(damaged))] ^= 1 << choose.randrange(8)
        (folder / name).write_bytes(damaged)
        artifact, *inside = name.split("/")
        array = inside[0] if len(inside) > 1 else ""
        assert [one[:2] for one in found(folder)] == [(artifact, array)]
        (folder / name).write_bytes(before)


def test_an_artifact_of_other_inputs_and_an_absent_input_are_found(folder, tmp_path):
    other = write_artifacts(tmp_path / "other", scale=2.0)
    shutil.copy2(other / "metric.safetensors", folder)
    assert [one[:2] for one in found(folder)] == [("metric.safetensors", ""), ("solved.zarr", "")]
    assert all("run `dvc repro`" in text for *_, text in found(folder))
    (folder / "metric.safetensors").unlink()
    ((*_, text),) = found(folder)
    assert f"was made from {folder / 'metric.safetensors'}, which is not there" in text


# by the command


def test_intact_artifacts_are_listed(folder):
    result = call("verify", folder)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "line    float64  6  line  nm  Line" in result.stdout
    assert result.stdout.endswith("\nall 3 artifacts are intact and belong together\n")
    (folder / "other.csv").write_text("no artifact")
    listed, done = json.loads(call("verify", folder, "--json").stdout), []
    assert [one["path"] for one in listed["artifacts"]] == [str(folder / name) for name in NAMES]
    assert listed["problems"] == []
    metric, solved, _ = verified(folder, done.append)
    assert [(a.name, a.shape, a.dims, a.units, a.size) for a in solved.arrays] == [
        ("line", (6,), ("line",), "nm", 48),
        ("square", (6,), ("line",), "1", 48),
    ]
    assert [(a.name, a.shape, a.dtype) for a in metric.arrays] == [("layer", (2, 3), "float32")]
    assert solved.bytes_on_disk == sum(map(len, contents(folder / "solved.zarr").values()))
    assert sum(done) == sum(map(size_of, folder.iterdir())) - len("no artifact")


def test_damage_ends_with_status_one_and_names_the_array(folder):
    file = next((folder / "spectra.zarr/square/c").iterdir())
    file.write_bytes(file.read_bytes()[:-1])
    result = call("verify", folder)
    assert result.exit_code == 1
    assert "spectra.zarr, array 'square'" in result.stdout
    assert f"problems of {folder / 'spectra.zarr'}: 1" in result.stderr
    problems = json.loads(call("verify", folder, "--json").stdout)["problems"]
    assert [problem["array"] for problem in problems] == ["square"]


@pytest.mark.parametrize("make", [lambda folder: None, lambda folder: folder.mkdir()])
def test_a_folder_without_artifacts_is_one_line_and_status_two(make, tmp_path):
    make(tmp_path / "empty")
    found = "empty: found no .zarr and no .safetensors"
    assert_refused(call("verify", tmp_path / "empty"), found, "run `dvc repro` first")
