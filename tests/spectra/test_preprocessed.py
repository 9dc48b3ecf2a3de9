"""Preprocessed series, and unknown spectra beside them."""

import numpy as np
import pytest

from geonode.config import SpectraParameters
from geonode.errors import SpectraError
from geonode.estimation.axis import prepared
from geonode.spectra.chart import Chart
from geonode.spectra.series import measured_table, read_series, read_series_csv, write_series

AXIS = np.arange(400.0, 421.0)
RAW = np.random.default_rng(1).uniform(0.1, 1, (6, len(AXIS)))  # two scans of level 10


@pytest.fixture
def parameters(tmp_path):
    def make(*steps, axis=AXIS):
        rows = np.column_stack([axis, RAW.T])
        header = "wavelength_nm,0,10,10__r2,20,40,60"
        np.savetxt(tmp_path / "a.csv", rows, "%.17g", ",", header=header, comments="")
        return SpectraParameters(
            source=str(tmp_path / "a.csv"),
            quantity="absorbance",
            unit="AU",
            concentration_unit="ppb",
            chart="linear",
            kappa=None,
            window=None,
            missing="refuse",
            preprocess=list(steps),
        )

    return make


def snv(spectra):
    return (spectra - spectra.mean(1, keepdims=True)) / spectra.std(1, ddof=1, keepdims=True)


def test_scans_are_preprocessed_before_their_mean_is_taken(parameters, tmp_path):
    about = parameters("snv")
    series = read_series_csv(about)
    np.testing.assert_allclose(series.signal[1], snv(RAW[1:3]).mean(axis=0))
    np.testing.assert_allclose(series.signal[[0, 2, 3, 4]], snv(RAW[[0, 3, 4, 5]]))
    assert (series.labels["signal"], series.labels["signal_unit"]) == ("absorbance, SNV", "1")
    table = measured_table(about)
    chart = Chart.of("linear", None, table.concentrations)
    write_series(tmp_path / "spectra.zarr", table, chart, about)
    stored = read_series(tmp_path / "spectra.zarr")
    assert stored.preprocessing == series.preprocessing
    assert stored.labels == series.labels
    np.testing.assert_array_equal(stored.signal, series.signal)
    # An unknown on the axis of its own file, with a factor and an offset, which SNV takes away.
    np.testing.assert_allclose(prepared(stored, AXIS, 3 * RAW[3:] + 1), series.signal[2:])


def test_an_axis_that_does_not_suit_a_step_is_refused(parameters):
    uneven = np.array([*AXIS[:-1], 425.0])
    step = {"savgol": {"window": 5, "degree": 2}}
    with pytest.raises(SpectraError, match=r"savgol: found steps of the axis from 1 to 6"):
        measured_table(parameters(step, axis=uneven))
    assert measured_table(parameters(step)).axis.size == len(AXIS)
