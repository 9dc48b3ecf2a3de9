import pytest

from geonode.calibration.calibrated_file import CalibratedFile
from geonode.commands.spectra_file import spectra_parameters
from geonode.reading.series_file import read_series_csv
from tests.calibration import beer


@pytest.fixture(scope="session")
def series_file(tmp_path_factory):
    return beer.write_series(tmp_path_factory.mktemp("beer") / "beer.csv")


@pytest.fixture(scope="session")
def calibration(series_file):
    series = read_series_csv(spectra_parameters(series_file, quantity="absorbance"))
    return CalibratedFile.of(series_file.name, series, method="line_over_c2")
