import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.calling import call
from tests.storage.damage import contents
from tests.storage.pipelines import OUTPUTS, write_pipeline


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A pipeline whose dvc.lock DVC has written."""
    root = write_pipeline(tmp_path_factory.mktemp("written") / "project")
    site = str(tmp_path_factory.mktemp("site"))
    environment = os.environ | {"DVC_SITE_CACHE_DIR": site, "DVC_NO_ANALYTICS": "1"}
    dvc = str(Path(sys.executable).with_name("dvc"))
    for arguments in (["init", "--no-scm", "--quiet"], ["commit", "--force", "--quiet"]):
        subprocess.run([dvc, *arguments], cwd=root, env=environment, check=True)
    shutil.rmtree(root / ".dvc")
    return root


@pytest.fixture
def root(written, tmp_path):
    """A copy to damage."""
    return shutil.copytree(written, tmp_path / "project")


def found(root):
    """Status, and path, array and problem of every finding; each is one line too."""
    result = call("verify", "--root", root, "--json")
    findings = json.loads(result.stdout)["findings"]
    shown = call("verify", "--root", root)
    assert shown.exit_code == result.exit_code == bool(findings)
    if findings:
        lines = [f"{finding['problem']}: {finding['message']}" for finding in findings]
        assert shown.stdout.splitlines() == lines
        assert all(f["path"] in f["message"] and f["array"] in f["message"] for f in findings)
        assert len(shown.stderr.splitlines()) == 1
    return [(finding["path"], finding["array"], finding["problem"]) for finding in findings]


def test_what_dvc_has_written_down_is_intact(root):
    result = call("verify", "--root", root)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"all {len(OUTPUTS)} outputs are intact and as dvc.lock has them\n"
    result = call("verify", "--root", root, "--json")
    assert json.loads(result.stdout) == {"outputs": list(OUTPUTS), "findings": []}


@pytest.mark.slow
def test_a_flipped_bit_is_found_in_every_file_whatever_its_time(written):
    choose = random.Random(0)
    for name in contents(written):
        if not name.startswith(("data/", "metrics/")):
            continue
        file = written / name
        output = next(path for path in OUTPUTS if name == path or name.startswith(f"{path}/"))
        before, times = file.read_bytes(), file.stat()
        damaged = bytearray(before)
        damaged[choose.randrange(len(damaged))] ^= 1 << choose.randrange(8)
        file.write_bytes(damaged)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
        parts = name.removeprefix(output).strip("/").split("/")
        array = parts[0] if len(parts) > 1 else ""
        # What carries checksums is damaged, the rest is only seen to differ.
        sealed = name.endswith((".safetensors", "device.json")) or ".zarr/" in name
        assert found(written) == [(output, array, "damaged" if sealed else "changed")]
        file.write_bytes(before)


def test_a_lost_shard_a_lost_table_and_an_additional_file_are_found(root):
    (root / "data/solved.zarr/slope/c/1/0/0").unlink()
    (root / "data/table.csv").unlink()
    (root / "data/spectra.zarr/signal/extra").touch()
    assert found(root) == [
        ("data/table.csv", "", "absent"),
        ("data/spectra.zarr", "signal", "damaged"),
        ("data/solved.zarr", "slope", "damaged"),
    ]


def test_files_that_were_exchanged_are_found(root):
    def exchange(first, second):
        (root / first).rename(root / "moving")
        (root / second).rename(root / first)
        (root / "moving").rename(root / second)

    exchange("data/spectra.zarr", "data/solved.zarr")  # each intact in itself
    exchange("data/table.csv", "data/aside.bin")
    assert found(root) == [
        ("data/table.csv", "", "changed"),
        ("data/spectra.zarr", "", "changed"),
        ("data/solved.zarr", "", "changed"),
        ("data/aside.bin", "", "changed"),
        ("data/solved.zarr", "", "stale"),
        ("data/metric.safetensors", "", "stale"),
    ]
    exchange("data/metric.safetensors", "data/device.json")
    assert {(path, problem) for path, _, problem in found(root)} >= {
        ("data/metric.safetensors", "damaged"),
        ("data/device.json", "damaged"),
    }


@pytest.mark.parametrize(
    ("path", "key", "value"),
    [
        ("data/table.csv", "size", 41),
        ("data/table.csv", "hash", "sha256"),
        ("data/solved.zarr", "nfiles", 11),
        ("data/solved.zarr", "md5", "5" * 32 + ".dir"),
    ],
)
def test_another_lock_is_found(root, path, key, value):
    """With one value of an output in its stage changed."""
    lines = (root / "dvc.lock").read_text(encoding="utf-8").splitlines()
    [*_, start] = [at for at, line in enumerate(lines) if line == f"    - path: {path}"]
    at = next(at for at in range(start, start + 5) if lines[at].strip().startswith(f"{key}:"))
    lines[at] = f"      {key}: {value}"
    (root / "dvc.lock").write_text("\n".join(lines), encoding="utf-8")
    assert found(root) == [(path, "", "changed")]


def test_a_lock_that_is_lost_or_broken_is_found(root):
    (root / "dvc.lock").write_text("stages: [", encoding="utf-8")
    assert found(root) == [("dvc.lock", "", "damaged")]
    (root / "dvc.lock").unlink()
    assert found(root) == [("dvc.lock", "", "absent")]


def test_a_pipeline_that_has_not_run_is_absent(root):
    for path in ("data", "metrics", "dvc.lock"):
        shutil.rmtree(root / path, ignore_errors=True)
    (root / "dvc.lock").unlink()
    assert found(root) == [(path, "", "absent") for path in ("dvc.lock", *OUTPUTS)]
    result = call("info", "--root", root)
    assert result.exit_code == 0
    assert result.stdout.count("not found; run `dvc repro`") == len(OUTPUTS)


def test_info_shows_every_output_and_every_array(root, store):
    result = call("info", "--root", root)
    assert (result.exit_code, result.stderr) == (0, "")
    blocks = {text.split(":")[0]: text for text in result.stdout.split("\n\n")}
    of_store = blocks.pop(str(store / "geonode-models"))
    assert "learned models" in of_store
    assert list(blocks) == list(OUTPUTS)
    assert blocks["data/solved.zarr"].splitlines()[0] == (
        "data/solved.zarr: Zarr group, by stage solve (Solve everything)"
    )
    assert "  member 2, wavelength 3, feature 4, node 2" in blocks["data/solved.zarr"].splitlines()
    rows = [line.split() for line in blocks["data/spectra.zarr"].splitlines()]
    signal = ["signal", "float64", "2", "3", "concentration", "wavelength", "1", "absorbance"]
    assert signal in rows
    assert ["wavelength", "float64", "3", "wavelength", "nm", "wavelength"] in rows
    assert "intact; 64 B on disk" in blocks["data/device.json"]
    assert "row 3, column 3" in blocks["data/table.csv"]


def test_info_names_what_is_damaged_and_ends_in_status_1(root):
    (root / "data/metric.safetensors").write_bytes(b"")
    result = call("info", "--root", root)
    assert result.exit_code == 1
    assert "damaged: " in result.stdout
    assert result.stderr == "error: 1 of 8 outputs are damaged: data/metric.safetensors\n"


def test_info_as_json(root):
    listed = json.loads(call("info", "--root", root, "--json").stdout)["outputs"]
    spectra = next(entry for entry in listed if entry["path"] == "data/spectra.zarr")
    assert spectra["dimensions"] == {"concentration": 2, "wavelength": 3}
    assert spectra["ratio"] == spectra["bytes_in_memory"] / spectra["bytes_on_disk"]
    assert {array["name"]: array["shape"] for array in spectra["arrays"]}["signal"] == [2, 3]
