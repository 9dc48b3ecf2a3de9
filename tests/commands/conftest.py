import pytest

from tests.estimation.trained import write_model


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """Folder of a pipeline that has learned a small series; tests do not write there."""
    return write_model(tmp_path_factory.mktemp("trained"))


@pytest.fixture(scope="session")
def uncalibrated(tmp_path_factory):
    """The same without inner folds."""
    return write_model(tmp_path_factory.mktemp("uncalibrated"), kind="path")
