import pytest

from geonode.prediction.model import SpectralModel


@pytest.fixture(scope="session")
def model(trained):
    return SpectralModel.read(trained / "data")


@pytest.fixture(scope="session")
def curve(calibrated):
    return calibrated.model.calibration.curve
