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


def problems(folder):
    return [str(problem) for one in verified(folder) for problem in one.problems]


def found(folder):
    return [
        (one.path.name, getattr(problem, "array", ""))
        for one in verified(folder)
        for problem in one.problems
    ]


def test_artifacts_are_listed_with_their_arrays(folder):
    (folder / "other.csv").write_text("no artifact")
    entries = {entry.path.name: entry for entry in verified(folder)}
    assert list(entries) == NAMES
    solved, metric = entries["solved.zarr"], entries["metric.safetensors"]
    assert [(a.name, a.shape, a.dims, a.units) for a in solved.arrays] == [
        ("line", (6,), ("line",), "nm"),
        ("square", (6,), ("line",), "1"),
    ]
    assert ([array.size for array in solved.arrays], solved.problems) == ([48, 48], [])
    assert solved.bytes_on_disk == sum(map(len, contents(folder / "solved.zarr").values()))
    assert [(a.name, a.shape, a.dtype) for a in metric.arrays] == [("layer", (2, 3), "float32")]
    assert size_of(folder / "absent") == 0


def test_what_belongs_together_has_no_problem_and_progress_is_its_size(folder):
    done = []
    assert not any(one.problems for one in verified(folder, done.append))
    assert sum(done) == size_of(folder)


def test_a_flipped_bit_is_found_in_every_file(folder):
    choose = random.Random(0)
    for name, before in contents(folder).items():
        damaged = bytearray(before)
        damaged[choose.randrange(len(damaged))] ^= 1 << choose.randrange(8)
        (folder / name).write_bytes(damaged)
        artifact, *inside = name.split("/")
        array = inside[0] if len(inside) > 1 else ""
        assert found(folder) == [(artifact, array)]
        (folder / name).write_bytes(before)


def test_an_artifact_of_other_inputs_and_an_absent_input_are_found(folder, tmp_path):
    other = write_artifacts(tmp_path / "other", scale=2.0)
    shutil.copy2(other / "metric.safetensors", folder)
    assert found(folder) == [("metric.safetensors", ""), ("solved.zarr", "")]
    assert all("run `dvc repro`" in problem for problem in problems(folder))
    (folder / "metric.safetensors").unlink()
    (problem,) = problems(folder)
    assert f"was made from {folder / 'metric.safetensors'}, which is not there" in problem


# by the command


def test_intact_artifacts_are_listed(folder):
    result = call("verify", folder)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "line    float64  6  line  nm  Line" in result.stdout
    assert result.stdout.endswith("\nall 3 artifacts are intact and belong together\n")
    listed = json.loads(call("verify", folder, "--json").stdout)
    assert [one["path"] for one in listed["artifacts"]] == [str(folder / name) for name in NAMES]
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


@pytest.mark.parametrize("make", [lambda folder: None, lambda folder: folder.mkdir()])
def test_a_folder_without_artifacts_is_one_line_and_status_two(make, tmp_path):
    make(tmp_path / "empty")
    found = "empty: found no .zarr and no .safetensors"
    assert_refused(call("verify", tmp_path / "empty"), found, "run `dvc repro` first")
