import shutil

import pytest

from tests.storage.arrays import write
from tests.storage.pipelines import write_lock, write_pipeline


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    return write(tmp_path_factory.mktemp("written") / "data" / "geodesics.zarr")


@pytest.fixture
def path(written, tmp_path):
    """A copy to damage."""
    return shutil.copytree(written, tmp_path / "data" / "geodesics.zarr")


@pytest.fixture(scope="session")
def made_once(tmp_path_factory):
    root = write_pipeline(tmp_path_factory.mktemp("pipeline"))
    write_lock(root)
    return root


@pytest.fixture
def root(made_once, tmp_path):
    """A pipeline that DVC has run, to damage."""
    return shutil.copytree(made_once, tmp_path, dirs_exist_ok=True)
