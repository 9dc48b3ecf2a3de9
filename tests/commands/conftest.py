import pytest

from tests.calibration.conftest import calibration, mixture, series_file  # noqa: F401
from tests.estimation.trained import write_model


@pytest.fixture(scope="session")
def uncalibrated(tmp_path_factory):
    """Folder as `trained`, of path decoders without inner folds."""
    return write_model(tmp_path_factory.mktemp("uncalibrated"), kind="path")
