import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from geonode.errors import ArtifactError
from geonode.storage.artifact import Artifact, open_artifact
from geonode.storage.artifact_writer import artifact_writer
from geonode.storage.integrity import damaged, verify, workload
from geonode.storage.inventory import inventory
from geonode.storage.pipeline import fingerprint
from geonode.storage.weights import write_weights
from tests.storage.damage import cut
from tests.storage.pipelines import (
    FEATURES,
    OUTPUTS,
    SIGNAL,
    SLOPE,
    WAVELENGTH,
    made_from,
    write_metric,
    write_pipeline,
    write_solved,
    write_spectra,
)

ROOT = Path(__file__).parents[2]


def write_lock(root, **deps):
    """What DVC would write; that it does is tested against DVC itself with the commands."""
    stages = {}
    for path, stage in OUTPUTS.items():
        kept = stages.setdefault(stage, {"outs": [], "deps": []})
        kept["outs"].append({"path": path, "hash": "md5", **fingerprint(root / path)})
    solve = fingerprint(root / "data/spectra.zarr") | deps
    stages["solve"]["deps"].append({"path": "data/spectra.zarr", "hash": "md5", **solve})
    stages["aside"]["deps"].append({"path": "data/device.json", "hash": "md5", "md5": "other"})
    (root / "dvc.lock").write_text(str({"stages": stages}), encoding="utf-8")


@pytest.fixture
def root(tmp_path):
    write_pipeline(tmp_path)
    write_lock(tmp_path)
    return tmp_path


def found(root):
    return [(finding.path, finding.array, finding.problem) for finding in verify(root)]


def test_an_intact_pipeline_and_the_work_it_takes(root):
    units = []
    assert not list(verify(root, units.append))
    files = [file for path in ("data", "metrics") for file in (root / path).rglob("*")]
    assert sum(units) == workload(root) == 2 * sum(f.stat().st_size for f in files if f.is_file())


@pytest.mark.parametrize(
    ("wavelength", "part"),
    [
        (np.array([400.0, 501.0, 600.0]), "found 501.0 at index 1, expected 500.0 as in"),
        (np.append(WAVELENGTH, 700.0), "found size 4 of 'wavelength', expected 3 as in"),
    ],
)
def test_artifacts_that_do_not_belong_together(root, wavelength, part):
    n = len(wavelength)
    write_solved(
        root / "data/solved.zarr",
        wavelength,
        np.ones((2, 2, n)),
        np.ones((2, n, 4)),
    )
    write_lock(root)
    [finding] = verify(root)
    assert (finding.path, finding.problem) == ("data/solved.zarr", "mismatched")
    assert finding.array == "wavelength"
    assert f"{part} {root / 'data/spectra.zarr'}" in finding.message


def test_a_dimension_without_coordinate_has_a_size_too(root):
    with artifact_writer(root / "data/spectra.zarr", {}) as writer:
        writer.stored("signal", ("member",), np.ones(3), units="1", long_name="signal")
    write_solved(root / "data/solved.zarr")
    write_metric(root / "data/metric.safetensors")
    write_lock(root)
    [finding] = verify(root)
    assert "'features': found size 2 of 'member', expected 3" in finding.message


def test_an_array_with_the_name_of_one_of_its_dimensions_is_no_coordinate(root):
    with artifact_writer(root / "data/solved.zarr", {"made_from": made_from(root)}) as writer:
        values = np.ones((2, len(WAVELENGTH)))
        writer.stored("wavelength", ("member", "wavelength"), values, units="1", long_name="x")
    write_lock(root)
    assert found(root) == []


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    ("array", "index"),
    [("slope", (1, 0, 2)), ("features", (1, 2, 3)), ("signal", (1, 1))],
)
def test_numbers_that_are_not_finite_are_found_though_sealed(root, monkeypatch, array, index, bad):
    values = {"slope": SLOPE, "features": FEATURES, "signal": SIGNAL}[array].copy()
    values[index] = bad
    with monkeypatch.context() as writing:
        writing.setattr(Artifact, "first_not_finite", lambda *_: None)
        if array == "signal":
            write_spectra(root / "data/spectra.zarr", signal=values)
        else:
            write_solved(root / "data/solved.zarr", **{array: values})
    write_lock(root)
    [finding] = verify(root)
    assert (finding.array, finding.problem) == (array, "damaged")
    assert f"holds NaN or infinity at index {index}" in finding.message


def test_weights_that_are_not_finite_are_found_though_sealed(root, monkeypatch):
    path = root / "data/metric.safetensors"
    with monkeypatch.context() as writing:
        writing.setattr(torch, "isfinite", lambda tensor: torch.ones(1))
        write_metric(path, weight=torch.tensor([[1.0, float("inf")]]))
    assert not torch.isfinite(safetensors.torch.load_file(path)["weight"]).all()
    write_lock(root)
    assert found(root) == [("data/metric.safetensors", "weight", "damaged")]


@pytest.mark.parametrize("mapped", [True, False])
@pytest.mark.parametrize("shape", [(1, 3, 70_000), (2, 200_001), (400_001,), (1, 1, 1)])
def test_the_last_number_of_an_array_of_many_parts_is_looked_at(
    tmp_path, monkeypatch, shape, mapped
):
    values = np.zeros(shape)
    last = tuple(size - 1 for size in shape)
    values[last] = np.nan
    dims = tuple("abc"[: len(shape)])
    with monkeypatch.context() as writing:
        writing.setattr(Artifact, "first_not_finite", lambda *_: None)
        with artifact_writer(tmp_path / "a.zarr", {}) as writer:
            if mapped:
                writer.mapped("x", dims, shape, "float64", units="1", long_name="x")[...] = values
            else:
                writer.stored("x", dims, values, units="1", long_name="x")
    artifact = open_artifact(tmp_path / "a.zarr")
    sizes = []
    select = Artifact._select

    def measured(*arguments):
        part = select(*arguments)
        sizes.append(part.nbytes)
        return part

    monkeypatch.setattr(Artifact, "_select", measured)
    assert artifact.first_not_finite("x") == last
    assert sum(sizes) == values.nbytes
    assert max(sizes) <= (1 if mapped else 2) << 20  # a stored row above 1 MiB is one chunk


def test_an_artifact_may_be_damaged_in_several_places(root):
    cut(root / "data/solved.zarr/slope/c/0/0/0")
    cut(root / "data/solved.zarr/features/c/0/0/0")
    (root / "data/solved.zarr/slope/c/1/0/0").unlink()
    assert found(root) == [
        ("data/solved.zarr", array, "damaged") for array in ("features", "slope", "slope")
    ]


def test_what_was_made_from_other_inputs_is_stale_unless_its_stage_is_frozen(root):
    write_lock(root, md5="of another run.dir")
    assert found(root) == [
        ("data/solved.zarr", "", "stale"),
        ("data/metric.safetensors", "", "stale"),
    ]


@pytest.mark.parametrize("locked", [True, False])
def test_what_was_made_from_another_artifact_than_is_there_is_stale_with_or_without_lock(
    root, locked
):
    write_spectra(root / "data/spectra.zarr", signal=SIGNAL + 1)
    write_metric(root / "data/metric.safetensors")
    if locked:
        write_lock(root, md5="of another run.dir")
    else:
        (root / "dvc.lock").unlink()
    stale = [finding for finding in verify(root) if finding.problem == "stale"]
    by_lock_alone = ["data/metric.safetensors"] if locked else []
    assert [finding.path for finding in stale] == ["data/solved.zarr", *by_lock_alone]
    message = stale[0].message
    assert f"{root / 'data/solved.zarr'}: found that it was made from spectra.zarr" in message
    assert f"of {root / 'data/spectra.zarr'};" in message


def test_what_does_not_say_what_it_was_made_from_is_stale_or_damaged(root):
    path = root / "data/metric.safetensors"
    write_weights(path, {"bias": torch.ones(2)}, {})
    write_lock(root)
    assert found(root) == [("data/metric.safetensors", "", "stale")]
    write_weights(path, {"bias": torch.ones(2)}, {"made_from": "[]"})
    write_lock(root)
    assert found(root) == [("data/metric.safetensors", "", "damaged")]


def test_what_cannot_be_read_is_damaged(root):
    (root / "data/aside.bin").unlink()
    (root / "data/aside.bin").mkdir()
    (root / "data/aside.bin/link").symlink_to(root / "nowhere")
    assert found(root) == [("data/aside.bin", "", "damaged")]


def test_no_pipeline(tmp_path):
    with pytest.raises(ArtifactError, match=r"found no dvc\.yaml"):
        list(verify(tmp_path))


def piped(path):
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    os.mkfifo(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "data/device.json",
        "data/solved.zarr",
        "data/solved.zarr/zarr.json",
        "data/solved.zarr/slope/zarr.json",
        "data/solved.zarr/slope/c/1/0/0",
        "data/metric.safetensors",
        "data/table.csv",
        "data/aside.bin",
    ],
)
def test_a_pipe_in_place_of_a_file_is_told_and_not_waited_for(tmp_path, name):
    root = write_pipeline(tmp_path)
    write_lock(root)
    piped(root / name)
    script = (
        "import sys, pathlib\n"
        "from geonode.storage.integrity import damaged, verify\n"
        "from geonode.storage.inventory import inventory\n"
        "root = pathlib.Path(sys.argv[1])\n"
        "sys.stdout.write(repr([found.path for found in verify(root)]))\n"
        "inventory(root)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, root],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
        cwd=ROOT,
    )
    assert "/".join(name.split("/")[:2]) in done.stdout


@pytest.mark.parametrize("name", ["data/solved.zarr", "data/solved.zarr/zarr.json"])
def test_a_folder_that_may_not_be_read_is_not_called_missing(tmp_path, monkeypatch, name):
    root, real = write_pipeline(tmp_path), Path.stat

    def closed(self, **options):
        if self == root / name:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))
        return real(self, **options)

    monkeypatch.setattr(Path, "stat", closed)
    with pytest.raises(ArtifactError, match="Permission denied") as caught:
        open_artifact(root / "data/solved.zarr")
    assert "remove" not in str(caught.value)
    (finding,) = [found for found in verify(root) if found.path == "data/solved.zarr"]
    assert finding.problem == "damaged"
    assert "Permission denied" in finding.message
    assert "remove" not in finding.message
    (entry,) = [entry for entry in inventory(root) if entry.path == "data/solved.zarr"]
    assert (entry.state, "remove" in entry.reason) == ("damaged", False)


@pytest.mark.parametrize("name", ["solved.zarr/features/c/0/0/0", "metric.safetensors"])
def test_an_edit_of_the_same_size_and_time_is_told_by_its_seal(root, name):
    assert not list(damaged(root))
    file = root / "data" / name
    kept = file.stat()
    with file.open("rb+") as stream:
        first = stream.read(1)[0]
        stream.seek(0)
        stream.write(bytes([first ^ 1]))
    os.utime(file, ns=(kept.st_atime_ns, kept.st_mtime_ns))
    (finding,) = damaged(root)
    path = f"data/{name.split('/')[0]}"
    assert (finding.path, finding.problem) == (path, "damaged")
    assert finding.message.endswith(f"remove {root / path} and run `dvc repro` to write it again")
    shutil.rmtree(root / path) if (root / path).is_dir() else file.unlink()
    assert not list(damaged(root))


@pytest.mark.parametrize("name", ["data/solved.zarr", "data/device.json"])
def test_a_damaged_copy_in_the_cache_of_dvc_is_not_restored(tmp_path, name):
    root = write_pipeline(tmp_path)
    write_lock(root)
    files = [root / name] if (root / name).is_file() else sorted((root / name).rglob("*"))
    kept, listed = root / ".dvc/cache/files/md5", []
    for file in (one for one in files if one.is_file()):
        md5 = hashlib.md5(file.read_bytes(), usedforsecurity=False).hexdigest()
        (kept / md5[:2]).mkdir(parents=True, exist_ok=True)
        shutil.copy(file, kept / md5[:2] / md5[2:])
        if file != root / name:
            listed.append({"md5": md5, "relpath": file.relative_to(root / name).as_posix()})
    if listed:
        text = json.dumps(sorted(listed, key=lambda item: item["relpath"]))
        md5 = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
        (kept / md5[:2]).mkdir(parents=True, exist_ok=True)
        (kept / md5[:2] / f"{md5[2:]}.dir").write_text(text)
    assert not list(verify(root))
    chosen = next(file for file in reversed(files) if file.is_file())
    md5 = hashlib.md5(chosen.read_bytes(), usedforsecurity=False).hexdigest()
    cut(chosen)
    (finding,) = (found for found in verify(root) if found.path == name)
    assert "cache" not in finding.message and "restore" not in finding.message
    cut(kept / md5[:2] / md5[2:])
    (finding,) = (found for found in verify(root) if found.path == name)
    entry = kept / md5[:2] / md5[2:]
    assert finding.message.endswith(f"a copy that is damaged too: remove {entry} first")
