import shutil

import numpy as np

from geonode.storage.artifact import ArrayEntry
from geonode.storage.inventory import inventory
from tests.storage.damage import empty
from tests.storage.pipelines import FEATURES, OUTPUTS, SLOPE


def entries(root):
    return {entry.path: entry for entry in inventory(root)}


def test_every_output_is_listed_with_its_kind_and_state(made_once):
    found = entries(made_once)
    assert {path: entry.stage for path, entry in found.items()} == OUTPUTS
    assert {path: (entry.kind, entry.state) for path, entry in found.items()} == {
        "data/device.json": ("document", "intact"),
        "metrics/env.json": ("file", "unsealed"),
        "data/table.csv": ("table", "unsealed"),
        "data/spectra.zarr": ("arrays", "intact"),
        "metrics/plots/line.csv": ("file", "unsealed"),
        "data/solved.zarr": ("arrays", "intact"),
        "data/metric.safetensors": ("weights", "intact"),
        "data/aside.bin": ("file", "unsealed"),
    }
    assert found["data/table.csv"].dimensions == {"row": 3, "column": 3}
    assert found["data/aside.bin"].bytes_on_disk == 256
    assert found["data/device.json"].ratio is None
    assert not any(entry.reason for entry in found.values())
    weights = found["data/metric.safetensors"]  # have shapes without names
    assert [(a.name, a.dtype, a.shape, a.dims, a.bytes_on_disk) for a in weights.arrays] == [
        ("bias", "float32", (2,), (), 8),
        ("weight", "float32", (2, 3), (), 24),
    ]
    assert weights.bytes_in_memory == 32


def test_arrays_of_an_artifact(made_once):
    found = entries(made_once)["data/solved.zarr"]
    assert found.dimensions == {"member": 2, "node": 2, "wavelength": 3, "feature": 4}
    arrays = {array.name: array for array in found.arrays}
    assert list(arrays) == ["features", "position", "slope", "wavelength"]
    dims = ("member", "wavelength", "feature")
    mapped = FEATURES.nbytes + 4  # and its CRC-32C
    assert arrays["features"] == ArrayEntry(
        "features", "float64", (2, 3, 4), dims, "1", "features", mapped, FEATURES.nbytes
    )
    assert (arrays["wavelength"].units, arrays["wavelength"].dims) == ("nm", ("wavelength",))
    blocks = [made_once / "data/solved.zarr/slope/c" / str(member) / "0/0" for member in (0, 1)]
    assert arrays["slope"].bytes_on_disk == sum(block.stat().st_size for block in blocks)
    size = FEATURES.nbytes + SLOPE.nbytes + np.zeros(2).nbytes + np.zeros(3).nbytes
    assert found.bytes_in_memory == size
    files = [file for file in (made_once / found.path).rglob("*") if file.is_file()]
    assert found.bytes_on_disk == sum(len(file.read_bytes()) for file in files)
    assert found.ratio == size / found.bytes_on_disk


def test_what_is_absent_says_what_to_run(root):
    for path in OUTPUTS:
        shutil.rmtree(root / path) if (root / path).is_dir() else (root / path).unlink()
    for path, entry in entries(root).items():
        assert entry.state == "absent"
        assert entry.reason.startswith(f"{root / path}: not found; run `dvc repro`")
        assert (entry.bytes_on_disk, entry.arrays) == (0, ())


def test_what_is_damaged_says_where(root):
    reasons = {
        "data/solved.zarr": "array 'slope', chunk '1/0/0'",
        "data/metric.safetensors": "checksum",
        "data/device.json": "checksum",
        "data/table.csv": "table.csv: is no CSV",
    }
    empty(root / "data/solved.zarr/slope/c/1/0/0")
    empty(root / "data/metric.safetensors")
    empty(root / "data/device.json")
    (root / "data/table.csv").write_bytes(b"a,\xff\n")
    found = entries(root)
    damaged = {path: entry.reason for path, entry in found.items() if entry.state == "damaged"}
    assert damaged.keys() == reasons.keys()
    assert all(reasons[path] in reason for path, reason in damaged.items())
    assert found["data/solved.zarr"].dimensions == {}
    assert found["data/spectra.zarr"].state == "intact"
