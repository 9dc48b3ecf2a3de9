import pytest


@pytest.fixture(scope="session")
def curve(calibrated):
    return calibrated.model.calibration.curve
