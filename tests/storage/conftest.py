import shutil

import pytest

from tests.storage.arrays import write


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    return write(tmp_path_factory.mktemp("written") / "data" / "geodesics.zarr")


@pytest.fixture
def path(written, tmp_path):
    """A copy to damage."""
    return shutil.copytree(written, tmp_path / "data" / "geodesics.zarr")
