import errno
import hashlib
import json
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from geonode.errors import ArtifactError
from geonode.storage import artifact_writer as artifact_writer_module
from geonode.storage.artifact import Artifact, open_artifact
from geonode.storage.artifact_writer import artifact_writer
from geonode.storage.integrity import damaged, verify, workload
from geonode.storage.inventory import inventory
from geonode.storage.weights import write_weights
from tests.storage.damage import cut
from tests.storage.pipelines import (
    FEATURES,
    SIGNAL,
    SLOPE,
    WAVELENGTH,
    made_from,
    write_lock,
    write_metric,
    write_solved,
    write_spectra,
)


def found(root):
    return [(finding.path, finding.array, finding.problem) for finding in verify(root)]


def test_an_intact_pipeline_and_the_work_it_takes(root):
    units = []
    assert not list(verify(root, units.append))
    files = [file for path in ("data", "metrics") for file in (root / path).rglob("*")]
    assert sum(units) == workload(root) == 2 * sum(f.stat().st_size for f in files if f.is_file())


def test_what_has_no_checksum_is_compared_with_the_lock(root):
    (root / "data/table.csv").write_text("wavelength,0,10\n400,1,2\n500,3,4\n600,5,7\n")
    (root / "metrics/env.json").unlink()
    lock = (root / "dvc.lock").read_text(encoding="utf-8").replace("aside.bin", "other.bin")
    (root / "dvc.lock").write_text(lock, encoding="utf-8")
    assert found(root) == [
        ("metrics/env.json", "", "absent"),
        ("data/table.csv", "", "changed"),
        ("data/aside.bin", "", "changed"),
    ]


# artifacts that do not belong together


@pytest.mark.parametrize(
    ("wavelength", "part"),
    [
        (np.array([400.0, 501.0, 600.0]), "found 501.0 at index 1, expected 500.0 as in"),
        (np.append(WAVELENGTH, 700.0), "found size 4 of 'wavelength', expected 3 as in"),
    ],
)
def test_coordinates_that_differ_are_mismatched(root, wavelength, part):
    n = len(wavelength)
    path = root / "data/solved.zarr"
    write_solved(path, wavelength, np.ones((2, 2, n)), np.ones((2, n, 4)))
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


def test_what_was_made_from_other_inputs_is_stale_unless_its_stage_is_frozen(root):
    write_lock(root, md5="of another run.dir")
    assert found(root) == [
        ("data/solved.zarr", "", "stale"),
        ("data/metric.safetensors", "", "stale"),
    ]


@pytest.mark.parametrize("locked", [True, False])
def test_what_was_made_from_another_artifact_is_stale_with_or_without_lock(root, locked):
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


@pytest.mark.parametrize(("texts", "problem"), [({}, "stale"), ({"made_from": "[]"}, "damaged")])
def test_what_does_not_say_what_it_was_made_from(root, texts, problem):
    write_weights(root / "data/metric.safetensors", {"bias": torch.ones(2)}, texts)
    write_lock(root)
    assert found(root) == [("data/metric.safetensors", "", problem)]


# numbers that are not finite


@pytest.mark.parametrize(
    ("array", "index", "bad"),
    [
        ("slope", (1, 0, 2), np.nan),
        ("features", (1, 2, 3), np.inf),
        ("signal", (1, 1), -np.inf),
    ],
)
def test_numbers_that_are_not_finite_are_found_though_sealed(root, monkeypatch, array, index, bad):
    values = {"slope": SLOPE, "features": FEATURES, "signal": SIGNAL}[array].copy()
    values[index] = bad
    with monkeypatch.context() as writing:
        writing.setattr(Artifact, "first_not_finite", lambda *_: None)
        writing.setattr(artifact_writer_module, "not_finite_at", lambda _: None)
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
        writing.setattr(artifact_writer_module, "not_finite_at", lambda _: None)
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


# damage


def test_an_artifact_may_be_damaged_in_several_places(root):
    cut(root / "data/solved.zarr/slope/c/0/0/0")
    cut(root / "data/solved.zarr/features/c/0/0/0")
    (root / "data/solved.zarr/slope/c/1/0/0").unlink()
    assert found(root) == [
        ("data/solved.zarr", array, "damaged") for array in ("features", "slope", "slope")
    ]


def test_what_cannot_be_read_is_damaged(root):
    (root / "data/aside.bin").unlink()
    (root / "data/aside.bin").mkdir()
    (root / "data/aside.bin/link").symlink_to(root / "nowhere")
    assert found(root) == [("data/aside.bin", "", "damaged")]


@pytest.mark.parametrize(
    "name",
    [
        *("data/device.json", "data/solved.zarr", "data/solved.zarr/zarr.json"),
        *("data/solved.zarr/slope/zarr.json", "data/solved.zarr/slope/c/1/0/0"),
        *("data/metric.safetensors", "data/table.csv", "data/aside.bin"),
    ],
)
def test_a_pipe_in_place_of_a_file_is_told_and_not_waited_for(root, name):
    shutil.rmtree(root / name) if (root / name).is_dir() else (root / name).unlink()
    os.mkfifo(root / name)
    signal.alarm(60)  # ends a process that waits
    assert {finding.path for finding in verify(root)} == {"/".join(name.split("/")[:2])}
    assert len(inventory(root)) == 8
    signal.alarm(0)


@pytest.mark.parametrize("name", ["data/solved.zarr", "data/solved.zarr/zarr.json"])
def test_a_folder_that_may_not_be_read_is_not_called_missing(root, monkeypatch, name):
    real = Path.stat

    def closed(self, **options):
        if self == root / name:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))
        return real(self, **options)

    monkeypatch.setattr(Path, "stat", closed)
    with pytest.raises(ArtifactError) as caught:
        open_artifact(root / "data/solved.zarr")
    (finding,) = [found for found in verify(root) if found.path == "data/solved.zarr"]
    (entry,) = [entry for entry in inventory(root) if entry.path == "data/solved.zarr"]
    assert finding.problem == entry.state == "damaged"
    for message in (str(caught.value), finding.message, entry.reason):
        assert "Permission denied" in message
        assert "remove" not in message


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
def test_a_damaged_copy_in_the_cache_of_dvc_is_not_restored(root, name):
    cache = root / ".dvc/cache/files/md5"

    def keep(content, suffix=""):
        md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
        (cache / md5[:2]).mkdir(parents=True, exist_ok=True)
        (cache / md5[:2] / f"{md5[2:]}{suffix}").write_bytes(content)
        return md5

    files = [file for file in (root / name, *sorted((root / name).rglob("*"))) if file.is_file()]
    kept = {file: keep(file.read_bytes()) for file in files}
    if files != [root / name]:
        listed = {file.relative_to(root / name).as_posix(): md5 for file, md5 in kept.items()}
        tree = [{"md5": md5, "relpath": path} for path, md5 in sorted(listed.items())]
        keep(json.dumps(tree).encode(), ".dir")
    assert not list(verify(root))
    chosen = files[-1]
    cut(chosen)
    (finding,) = (found for found in verify(root) if found.path == name)
    assert "cache" not in finding.message and "restore" not in finding.message
    entry = cache / kept[chosen][:2] / kept[chosen][2:]
    cut(entry)
    (finding,) = (found for found in verify(root) if found.path == name)
    assert finding.message.endswith(f"a copy that is damaged too: remove {entry} first")
