import os
from pathlib import Path

import jaxtyping
import pytest
import torch

from tests.browser import Browser

# Kernels are compiled where there is a CUDA device; elsewhere Triton interprets them, and it must
# know so before any test imports it.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"


@pytest.fixture(scope="session")
def measured_data() -> Path:
    """Folder of measured series beside the project; tests that need it skip without it."""
    folder = Path(__file__).parents[1].parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no measured series beside the project")
    return folder


@pytest.fixture(scope="session", autouse=True)
def store(tmp_path_factory) -> Path:
    """Store of learned models of this run of the tests alone."""
    folder = tmp_path_factory.mktemp("models")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GEONODE_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> Path:
    """Folder of a pipeline that has learned a small series; tests do not write there."""
    from tests.estimation.trained import write_model  # noqa: PLC0415 - Triton knows by now

    return write_model(tmp_path_factory.mktemp("trained"))


@pytest.fixture(scope="session")
def calibrated(trained):
    """Calibration of that series by geonode, and its file where `geonode estimate` looks for it."""
    from geonode.calibration.calibration_file import CalibrationFile  # noqa: PLC0415
    from geonode.calibration.saved import save_calibration  # noqa: PLC0415
    from geonode.config import CalibrateParameters  # noqa: PLC0415
    from geonode.spectra.series import read_series  # noqa: PLC0415

    series = read_series(trained / "data/spectra.zarr")
    found = CalibrationFile.of("trained", series, CalibrateParameters(method="geonode"))
    save_calibration(trained / "data/calibration.safetensors", found)
    return found


@pytest.fixture
def browser(tmp_path):
    """A browser, which ends with the test."""
    opened = Browser(tmp_path / "profile")
    yield opened
    opened.end()


@pytest.fixture
def unchecked(monkeypatch):
    """No check of annotations: a stand-in, or what a function itself has to refuse, is passed."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


def pytest_collection_modifyitems(items):
    """Files with slow tests first, so that no process is left alone with one at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
