import pytest

from geonode.estimation.curve import Curve
from geonode.estimation.model import SpectralModel


@pytest.fixture(scope="session")
def model(trained):
    return SpectralModel.read(trained / "data")


@pytest.fixture(scope="session")
def curve(model):
    return Curve.of(model.series, model.fold)
