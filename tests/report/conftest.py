import shutil
from copy import copy

import pytest

from tests.calibration.conftest import calibration, series_file  # noqa: F401
from tests.report.run import Run


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """A run as it is written by default, not to be changed."""
    return Run(tmp_path_factory.mktemp("run")).write()


@pytest.fixture
def run(written, tmp_path):
    """A copy of it, to be changed."""
    shutil.copytree(written.folder, tmp_path, dirs_exist_ok=True)
    found = copy(written)
    found.folder = tmp_path
    return found
