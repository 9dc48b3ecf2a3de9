import pytest

from geonode.calibration.calibration_file import CalibrationFile
from geonode.commands.spectra_file import spectra_parameters
from geonode.config import CalibrateParameters
from geonode.reading.series_file import read_measured
from tests.calibration import beer
from tests.mixtures import beer as mixtures


@pytest.fixture(scope="session")
def series_file(tmp_path_factory):
    return beer.write_series(tmp_path_factory.mktemp("beer") / "beer.csv")


@pytest.fixture(scope="session")
def calibration(series_file):
    series = read_measured(spectra_parameters(series_file, quantity="absorbance"))
    how = CalibrateParameters(method="line_over_c2")
    return CalibrationFile.of(series_file.name, series, how)


@pytest.fixture(scope="session")
def mixture(tmp_path_factory):
    """Calibration of lead and zinc."""
    file = tmp_path_factory.mktemp("mixture") / "known.csv"
    mixtures.table().to_csv(file, index=False)
    return CalibrationFile.of(file.name, read_measured(spectra_parameters(file)))


@pytest.fixture
def without_geonode(monkeypatch):
    """It takes no part, as it takes time."""
    monkeypatch.setattr("geonode.calibration.fit.FEWEST_TO_CALIBRATE", 99)
