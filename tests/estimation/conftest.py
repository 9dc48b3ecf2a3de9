import pytest

from geonode.estimation import image
from geonode.estimation.curve import Curve
from geonode.estimation.model import SpectralModel


@pytest.fixture(scope="session")
def model(trained):
    return SpectralModel.read(trained / "data")


@pytest.fixture(scope="session")
def curve(model):
    return Curve.of(model.series, model.fold)


@pytest.fixture(autouse=True)
def whole_stores_are_not_probed(request, monkeypatch):
    """Those that tests write themselves: a process for each would take most of their time."""
    if "slow" not in request.keywords:
        monkeypatch.setattr(image, "probe", lambda path, most_dimensions: None)
