import pytest

from geonode.calibration.fit import Calibration, Labels, read_calibration
from tests.calibration import beer


@pytest.fixture(scope="session")
def series_file(tmp_path_factory):
    return beer.write_series(tmp_path_factory.mktemp("beer") / "beer.csv")


@pytest.fixture(scope="session")
def calibration(series_file):
    series = read_calibration(series_file, Labels("absorbance"))
    return Calibration.of(series_file.name, series)
