"""A small pipeline with every kind of output."""

import json
from pathlib import Path

import numpy as np
import torch
from dvc_data.hashfile.hash import hash_file
from dvc_data.hashfile.tree import Tree
from dvc_objects.fs import localfs

from geonode.storage.artifact_writer import artifact_writer
from geonode.storage.document import write_document, write_metrics, write_text
from geonode.storage.lineage import read_seal
from geonode.storage.pipeline import fingerprint
from geonode.storage.weights import write_weights

DECLARED = """\
stages:
  probe:
    desc: Look around
    cmd: echo probe
    outs:
      - data/device.json:
          cache: false
    metrics:
      - metrics/env.json:
          cache: false
  read:
    desc: Read the table
    cmd: echo read
    outs:
      - data/table.csv
      - data/spectra.zarr
    plots:
      - metrics/plots/line.csv:
          cache: false
          x: wavelength
  solve:
    desc: Solve everything
    cmd: echo solve
    deps:
      - data/spectra.zarr
    outs:
      - data/solved.zarr
      - data/metric.safetensors
  aside:
    cmd: echo aside
    frozen: true
    deps:
      - data/device.json
    outs:
      - data/aside.bin
"""
OUTPUTS = {
    "data/device.json": "probe",
    "metrics/env.json": "probe",
    "data/table.csv": "read",
    "data/spectra.zarr": "read",
    "metrics/plots/line.csv": "read",
    "data/solved.zarr": "solve",
    "data/metric.safetensors": "solve",
    "data/aside.bin": "aside",
}
WAVELENGTH = np.array([400.0, 500.0, 600.0])
RANDOM = np.random.default_rng(0)
SIGNAL, SLOPE, FEATURES = (RANDOM.random(shape) for shape in ((2, 3), (2, 2, 3), (2, 3, 4)))


def write_spectra(path: Path, wavelength=WAVELENGTH, signal=SIGNAL) -> None:
    with artifact_writer(path, {"chart": "linear"}) as writer:
        levels = np.array([0.0, 10.0])
        writer.coordinate("concentration", levels, units="ppb", long_name="level")
        writer.coordinate(
            "position", levels / 10, dims=("concentration",), units="1", long_name="charted"
        )
        writer.coordinate("wavelength", wavelength, units="nm", long_name="wavelength")
        writer.stored(
            "signal", ("concentration", "wavelength"), signal, units="1", long_name="absorbance"
        )


def write_solved(path: Path, wavelength=WAVELENGTH, slope=SLOPE, features=FEATURES) -> None:
    """Shares a dimension with the spectra, and the name of a coordinate of another dimension."""
    with artifact_writer(path, {"made_from": made_from(path.parents[1])}) as writer:
        writer.coordinate("wavelength", wavelength, units="nm", long_name="wavelength")
        writer.coordinate(
            "position", np.array([0.0, 0.5]), dims=("node",), units="1", long_name="charted"
        )
        about, dims = {"units": "1", "long_name": "slope"}, ("member", "node", "wavelength")
        blocks = writer.stored_blocks("slope", dims, slope.shape, "f8", block_dims=1, **about)
        for member, block in enumerate(slope):
            blocks[(member,)] = block
        about, dims = {"units": "1", "long_name": "features"}, ("member", "wavelength", "feature")
        writer.mapped("features", dims, features.shape, "f8", **about)[...] = features


def write_metric(path: Path, **tensors) -> None:
    usual = {"bias": torch.ones(2), "weight": torch.arange(6.0).reshape(2, 3)}
    known = json.dumps(made_from(path.parents[1]))
    write_weights(path, usual | tensors, {"levels": "[0, 10]", "made_from": known})


def made_from(root: Path) -> dict[str, str]:
    """What the stage that solves says of its outputs."""
    return {"spectra.zarr": read_seal(root / "data/spectra.zarr").checksum}


def write_pipeline(root: Path) -> Path:
    """`dvc.yaml` and all that it declares, without `dvc.lock`."""
    write_text(root / "dvc.yaml", DECLARED)
    write_document(root / "data/device.json", {"device": "cpu", "name": "µ"})
    write_metrics(root / "metrics/env.json", {"cores": 2})
    write_text(root / "data/table.csv", "wavelength,0,10\n400,1,2\n500,3,4\n600,5,6\n")
    write_text(root / "metrics/plots/line.csv", "wavelength,value\n400,1\n")
    write_spectra(root / "data/spectra.zarr")
    write_solved(root / "data/solved.zarr")
    write_metric(root / "data/metric.safetensors")
    (root / "data/aside.bin").write_bytes(bytes(range(256)))
    return root


def write_lock(root: Path, **deps: str) -> None:
    """What DVC would write; that it does is tested against DVC itself with the commands."""
    stages: dict[str, dict[str, list]] = {}
    for path, stage in OUTPUTS.items():
        kept = stages.setdefault(stage, {"outs": [], "deps": []})
        kept["outs"].append({"path": path, "hash": "md5", **fingerprint(root / path)})
    solve = fingerprint(root / "data/spectra.zarr") | deps
    stages["solve"]["deps"].append({"path": "data/spectra.zarr", "hash": "md5", **solve})
    stages["aside"]["deps"].append({"path": "data/device.json", "hash": "md5", "md5": "other"})
    (root / "dvc.lock").write_text(str({"stages": stages}), encoding="utf-8")


def by_dvc(path: Path) -> str:
    """MD5 as DVC computes it, without its database."""
    if path.is_file():
        return hash_file(str(path), localfs, "md5")[1].value
    tree = Tree()
    for file in path.rglob("*"):
        if file.is_file():
            meta, value = hash_file(str(file), localfs, "md5")
            tree.add(file.relative_to(path).parts, meta, value)
    tree.digest()
    return tree.hash_info.value
