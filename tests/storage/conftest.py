import json
import shutil

import numpy as np
import pytest
import torch

from geonode.storage.artifact_writer import artifact_writer
from geonode.storage.lineage import consistent_artifacts
from geonode.storage.weights import write_weights
from tests.storage.arrays import write


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    return write(tmp_path_factory.mktemp("written") / "data" / "geodesics.zarr")


@pytest.fixture
def path(written, tmp_path):
    """A copy to damage."""
    return shutil.copytree(written, tmp_path / "data" / "geodesics.zarr")


def write_artifacts(folder, scale=1.0):
    """Spectra, weights learned from them, and an array computed from both."""

    def write_array(name, made_from):
        with artifact_writer(folder / name, {"made_from": made_from}) as writer:
            line = scale * np.arange(6.0)
            writer.coordinate("line", line, units="nm", long_name="Line")
            writer.stored("square", ("line",), line**2, units="1", long_name="Square")

    write_array("spectra.zarr", {})
    with consistent_artifacts(folder / "spectra.zarr") as made_from:
        weights = {"layer": torch.full((2, 3), scale)}
        metadata = {"made_from": json.dumps(made_from)}
        write_weights(folder / "metric.safetensors", weights, metadata)
    with consistent_artifacts(folder / "spectra.zarr", folder / "metric.safetensors") as made_from:
        write_array("solved.zarr", made_from)
    return folder


@pytest.fixture(scope="session")
def made_once(tmp_path_factory):
    return write_artifacts(tmp_path_factory.mktemp("made") / "data")


@pytest.fixture
def folder(made_once, tmp_path):
    """Artifacts that belong together, to damage."""
    return shutil.copytree(made_once, tmp_path / "data")
