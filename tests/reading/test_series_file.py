"""Series as parameters name them, preprocessed, and unknown spectra beside them."""

from pathlib import Path

import numpy as np
import pytest

from geonode.config import SpectraParameters
from geonode.estimation.axis import own_values
from geonode.parameters_file import read_parameters
from geonode.reading.series_file import measured_table, read_series_csv
from geonode.spectra.chart import Chart
from geonode.spectra.series import read_series, write_series
from geonode.spectra.table import Spectra
from tests.reading.tables import parameters

ROOT = Path(__file__).parents[2]

EVEN = np.arange(400.0, 421.0)
RAW = np.random.default_rng(1).uniform(0.1, 1, (6, len(EVEN)))  # two scans of level 10


def snv(spectra):
    return (spectra - spectra.mean(1, keepdims=True)) / spectra.std(1, ddof=1, keepdims=True)


def test_scans_are_preprocessed_before_their_mean_is_taken(tmp_path):
    header = "wavelength_nm,0,10,10__r2,20,40,60"
    rows = np.column_stack([EVEN, RAW.T])
    np.savetxt(tmp_path / "a.csv", rows, "%.17g", ",", header=header, comments="")
    about = parameters(source=str(tmp_path / "a.csv"), preprocess=["snv"])
    series = read_series_csv(about)
    np.testing.assert_allclose(series.signal[1], snv(RAW[1:3]).mean(axis=0))
    np.testing.assert_allclose(series.signal[[0, 2, 3, 4]], snv(RAW[[0, 3, 4, 5]]))
    assert (series.labels["signal"], series.labels["signal_unit"]) == ("intensity, SNV", "1")
    made = measured_table(about)
    chart = Chart.of("linear", None, made.concentrations)
    write_series(tmp_path / "spectra.zarr", made, chart, about)
    stored = read_series(tmp_path / "spectra.zarr")
    assert stored.preprocessing == series.preprocessing
    assert stored.labels == series.labels
    np.testing.assert_array_equal(stored.signal, series.signal)
    # An unknown on the axis of its own file, with a factor and an offset, which SNV takes away.
    unknown = Spectra([*"abc"], EVEN, "wavelength", "nm", 3 * RAW[3:] + 1, np.empty(0))
    np.testing.assert_allclose(own_values(stored, unknown), series.signal[2:])


# the series that come with the project


@pytest.mark.parametrize(
    ("name", "levels", "peak"),
    [
        ("acetophenone", [0, 50, 100, 200, 300, 400], 242),
        ("methoxychalcone", [0, 50, 100, 200, 300], 344),
    ],
)
def test_an_example_is_read_as_its_source_says(name, levels, peak):
    """Levels of the source's table of concentrations; absorption maximum of the pure substance."""
    common = read_parameters(ROOT / "params.yaml").spectra.model_dump()
    source = {"source": str(ROOT / f"data/examples/{name}.csv"), "concentration_unit": "uM"}
    series = read_series_csv(SpectraParameters.model_validate(common | source))
    assert list(series.concentrations) == levels
    assert (series.axis[0], series.axis[-1]) == (220, 600)
    assert abs(series.axis[np.argmax(series.signal[-1])] - peak) <= 1
